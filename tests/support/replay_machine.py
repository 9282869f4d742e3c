"""A memory system whose every read, kept at some moments, must be what a replay of them answers.

The commands are those of `system_machine`: all kinds, clients that race, prunes, compaction,
restarts, a clock that jumps. Derived data is also deleted in between, and indexes are rebuilt as
soon as anything in them is dead.
"""

import shutil
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from memory_actors import MemorySystem
from memory_actors.base.streams import stream_of
from memory_actors.search.embedding import vector_table
from memory_actors.search.indexes import labels
from memory_actors.search.indexes.files import INDEXES
from support.answers import answers
from support.clients import ANY, SETTINGS, SUMMARIZER, USERS
from support.fakes import FakeTokenEmbedder
from support.system_machine import SystemMachine

KEPT = msgspec.structs.replace(SETTINGS, archive_retention_days=None, check_replay=False)


class Kept(NamedTuple):
    """The answers of a user's memory at a position."""

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
        self.usual_dead = labels.DEAD_MIN
        labels.DEAD_MIN = 0

    def opening(self) -> Any:
        return MemorySystem.open(
            self.path, embedder=self.with_tokens, clock=self.clock, new_id=self.ids,
            settings=KEPT, alerts=[], summarizer=SUMMARIZER,
        )  # fmt: skip

    @rule()
    def loses_what_is_derived(self) -> None:
        self.run(self.stack.aclose())
        (self.path / vector_table.FILE).unlink()
        shutil.rmtree(self.path / INDEXES)
        self.seen.clear()
        self.run(self.open())

    @rule(name=st.sampled_from(USERS), number=ANY)
    def keeps_what_it_answers(self, name: str, number: int) -> None:
        self.run(self.keep(name, f"s{number % 3}"))

    async def keep(self, name: str, session_id: str) -> None:
        log = self.memory._log
        await log.flush()
        head = await log.head(stream_of(name))
        position = log.statistics().last_position
        if head.version == head.erased_version:
            return  # nobody yet, or nobody since they were erased
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

    def teardown(self) -> None:
        try:
            for kept in self.kept[-3:]:
                self.run(self.look_back(kept))
        finally:
            labels.DEAD_MIN = self.usual_dead
            super().teardown()

    async def look_back(self, kept: Kept) -> None:
        replay = self.memory.replay(kept.name, kept.position, session_id=kept.session_id)
        async with replay as past:
            found = await answers(past, kept.ids)
        for read, answer in kept.said.items():
            assert found[read] == answer, read
