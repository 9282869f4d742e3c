"""The rows that an activation looks at to find those to index."""

from typing import Any

import pytest

from memory_actors.kinds import context, short_term, working
from memory_actors.kinds.user_state import KINDS
from memory_actors.search.indexes.parts import indexed

pytestmark = pytest.mark.anyio


async def fill(user: Any) -> None:
    for number in range(3):
        for kind in KINDS:
            await user.add(f"text {number}", kind.NAME)


async def test_unindexed_rows_are_not_read_at_waking(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that no index has are not looked at when a user wakes."""
    async with open_memory() as memory:
        await fill(memory.user("u"))
    asked: list[str] = []
    for kind in (working, short_term, context):
        monkeypatch.setattr(kind, "passages", lambda row: asked.append(row.memory_id) or ())
    async with open_memory() as memory:
        assert len(await memory.user("u").list_memories()) == 3 * len(KINDS)
        assert asked == []


async def test_an_archived_entry_is_found_after_a_user_wakes(open_memory: Any) -> None:
    async with open_memory() as memory:
        context = memory.user("u").context
        for text in ("likes tea", "plays chess"):
            (entry_id,) = (await context.add("S", text)).entry_ids
        await context.archive([entry_id])
    async with open_memory() as memory:
        (hit,) = await memory.user("u").context.search_archive("chess")
        assert hit.entry_id == entry_id


async def test_the_indexed_rows_of_a_kind_have_digests(open_memory: Any) -> None:
    """The rows that a kind has indexed are those with digests."""
    async with open_memory() as memory:
        user = memory.user("u")
        await fill(user)
        entries = await user.context.entries()
        await user.context.archive([entries[0].entry_id])
        await user.entities.relate("text 0", "knows", "text 1")
        async with memory._services.runtime.use("user:u") as live:
            state = live.state
    found = {}
    for kind in KINDS:
        of_kind = state.of(kind)
        with_digests = [row for row in kind.rows(of_kind) if indexed(kind, row)]
        assert sorted(r.memory_id for r in kind.indexed_rows(of_kind)) == sorted(
            row.memory_id for row in with_digests
        )
        found[kind.NAME] = len(with_digests)
    assert found == {
        "working": 0, "short_term": 0, "long_term": 3, "entity": 4, "episodic": 3, "structured": 3,
        "context": 1,
    }  # fmt: skip
