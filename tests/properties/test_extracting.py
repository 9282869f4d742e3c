"""Whatever an extractor proposes, undoing it leaves the facts as they were, and a replay agrees."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.fakes import FakeClock, FakeEmbedder

from memory_actors import Conversation, MemorySystem, Proposal, Settings, UserMemory

pytestmark = pytest.mark.anyio

TEXTS = tuple(f"fact number {n}" for n in range(5))
ACTIONS = st.sampled_from(("add", "supersede", "forget"))


class Said(NamedTuple):
    """A proposal, but that the fact is the so manieth of those that are shown."""

    action: Any
    text: str
    fact: int


PROPOSALS = st.lists(st.builds(Said, ACTIONS, st.sampled_from(TEXTS), st.integers(0, 5)))


class Told:
    """Proposes what it is told to."""

    name = "told"
    said: Sequence[Said] = ()

    async def extract(self, conversation: Conversation) -> list[Proposal]:
        known = [one.memory_id for one in conversation.facts]
        return [
            Proposal(
                action=one.action,
                text=one.text,
                replaces=known[one.fact] if one.fact < len(known) else "not shown",
            )
            for one in self.said
        ]


async def state(user: UserMemory) -> dict[str, Any]:
    """Return what is remembered, and which facts hold no more."""
    memories = await user.list_memories(["long_term"], limit=100)
    hits = await user.retrieve("fact number", memory_types=["long_term"], top_k=100)
    marks = {one: None for hit in hits for one in hit.near_duplicates}
    marks |= {hit.memory_id: hit.superseded_by for hit in hits}
    return {one.memory_id: (one.content, one.pinned, marks[one.memory_id]) for one in memories}


@given(
    before=st.lists(st.tuples(st.sampled_from(TEXTS), st.booleans()), max_size=6),
    rounds=st.lists(PROPOSALS, min_size=1, max_size=3),
)
@example(  # the forgotten fact comes back behind the other that speaks against the same one
    before=[(TEXTS[1], False), (TEXTS[2], False), (TEXTS[2], False), (TEXTS[0], False)],
    rounds=[
        [Said("add", TEXTS[4], 0), Said("supersede", TEXTS[3], 1), Said("supersede", TEXTS[4], 1)],
        [Said("supersede", TEXTS[0], 3)],
        [Said("forget", TEXTS[0], 3)],
    ],
)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_undone_from_the_last_to_the_first_all_is_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, bool]],
    rounds: list[list[Said]],
) -> None:
    told = Told()
    clock = FakeClock()
    async with MemorySystem.open(
        tmp_path_factory.mktemp("store"), embedder=FakeEmbedder(), clock=clock, extractor=told,
        supersedes=False, settings=Settings(check_replay=True, latency_targets_ms={}),
    ) as memory:  # fmt: skip
        user = memory.user("u")
        for text, pinned in before:
            await user.add(text, pinned=pinned, on_duplicate="keep")
        states, ids = [await state(user)], []
        for number, told.said in enumerate(rounds):
            clock.move(1)
            await user.short_term.add_message(f"message {number}", role="user")
            found = await user.extract()
            assert len(found.facts) == len(told.said)
            ids.append(found.extraction_id or "")
            states.append(await state(user))
        for extraction_id, then in zip(reversed(ids), reversed(states[:-1]), strict=True):
            await user.undo(extraction_id)
            assert await state(user) == then
        assert await memory.check_replay() == []
