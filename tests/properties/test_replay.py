"""Every read, kept at some moments, is what a replay of those moments answers, whatever came since.

The commands are those of `test_memory_system`: all kinds, clients that race, prunes, compaction,
restarts, a clock that jumps; and users are erased, who have no past then but what they do after it.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from properties.test_memory_system import ANY, SETTINGS, SUMMARIZER, USERS, Held, SystemMachine
from support.answers import answers
from support.fakes import FakeTokenEmbedder

from memory_actors import MemorySystem, NotFoundError
from memory_actors.streams import stream_of

KEPT = msgspec.structs.replace(SETTINGS, archive_retention_days=None, check_replay=False)


class Kept(NamedTuple):
    """What a user's memory answered at a position."""

    name: str
    position: int
    session_id: str
    ids: list[str]
    said: dict[str, Any]


class ReplayMachine(SystemMachine):
    """Keeps answers, and looks back at them later."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Kept] = []
        self.with_tokens = FakeTokenEmbedder()

    def opening(self) -> Any:
        return MemorySystem.open(
            Path(self.directory.name), embedder=self.with_tokens, clock=self.clock, new_id=self.ids,
            settings=KEPT, alerts=[], summarizer=SUMMARIZER,
        )  # fmt: skip

    @rule(name=st.sampled_from(USERS), number=ANY)
    def keeps_what_it_answers(self, name: str, number: int) -> None:
        self.run(self.keep(name, f"s{number % 3}"))

    async def keep(self, name: str, session_id: str) -> None:
        log = self.memory._log
        await log.flush()
        head = await log.head(stream_of(name))
        position = log.statistics().last_position
        if head.is_empty:
            return
        last = await log.read_event(position, dropped="mark")
        assert last is not None
        now_us, self.clock.now_us = self.clock.now_us, last.recorded_at_us
        ids = sorted(self.held[name].ever)
        said = await answers(self.memory.user(name, session_id=session_id), ids)
        self.clock.now_us = now_us
        self.kept.append(Kept(name, position, session_id, ids, said))

    @precondition(lambda self: self.kept)
    @rule(number=ANY)
    def looks_back(self, number: int) -> None:
        self.run(self.look_back(self.kept[number % len(self.kept)]))

    @rule(name=st.sampled_from(USERS))
    def is_erased(self, name: str) -> None:
        self.run(self.erase(name))

    async def erase(self, name: str) -> None:
        await self.memory.erase(name)
        self.held[name] = Held()
        self.keyed = {key: made for key, made in self.keyed.items() if key[0] != name}
        mine = [kept for kept in self.kept if kept.name == name]
        self.kept = [kept for kept in self.kept if kept.name != name]
        for position in (None, *(kept.position for kept in mine[-2:])):
            with pytest.raises(NotFoundError):
                async with self.memory.replay(name, position):
                    pass

    def teardown(self) -> None:
        try:
            for kept in self.kept[-3:]:
                self.run(self.look_back(kept))
        finally:
            super().teardown()

    async def look_back(self, kept: Kept) -> None:
        replay = self.memory.replay(kept.name, kept.position, session_id=kept.session_id)
        async with replay as past:
            found = await answers(past, kept.ids)
        for read, answer in kept.said.items():
            assert found[read] == answer, read


def test_the_past_answers_as_it_did() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        ReplayMachine,
        settings=settings(max_examples=8, stateful_step_count=25, deadline=None),
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_past_answers_as_it_did_for_long() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        ReplayMachine,
        settings=settings(
            max_examples=200, stateful_step_count=60, deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
