"""The rows that an activation looks at to find those to index, and when a text is indexed."""

import asyncio
from typing import Any

import anyio
import pytest

from memory_actors.kinds import context, short_term, working
from memory_actors.kinds.user_state import KINDS
from memory_actors.search.indexes import user_indexes
from memory_actors.search.indexes.parts import indexed
from memory_actors.users.live_user import LiveUser

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
    for kind in (working.KIND, short_term.KIND, context.KIND):
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


# --- texts that come alone


def searchable(live: LiveUser) -> int:
    """Return how many passages of facts are indexed, without looking as a search would."""
    return len(live.indexes._of["long_term"].dense)


async def test_a_text_that_comes_alone_is_found_at_once(open_memory: Any) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        for number in range(3):
            receipt = await user.add(f"text {number}")
            assert receipt.indexed
            (hit, *_) = await user.retrieve(f"text {number}")
            assert hit.memory_id == receipt.memory_id


async def test_a_text_that_comes_alone_is_indexed_soon_though_nobody_looks(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_indexes, "SETTLE_WITHIN_S", 0.05)
    async with open_memory() as memory:
        await memory.user("u").add("before")
        async with memory._services.runtime.use("user:u") as live:
            live.indexes.index_taken()
            await memory.user("u").add("text")
            assert searchable(live) == 1, "its caller does not wait for that"
            with anyio.fail_after(5):
                while searchable(live) < 2:
                    await asyncio.sleep(0.01)
            assert not live.indexes.wanting


async def test_so_many_texts_in_a_row_are_indexed_together(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_indexes, "SETTLE_WITHIN_S", 600)
    async with open_memory() as memory:
        for number in range(1, 2 * user_indexes.SETTLED_LATER_MAX):
            await memory.user("u").add(f"text {number}")
            async with memory._services.runtime.use("user:u") as live:
                whole = number - number % user_indexes.SETTLED_LATER_MAX
                assert searchable(live) == whole


async def test_a_memory_that_is_deleted_before_it_is_indexed_never_is(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_indexes, "SETTLE_WITHIN_S", 600)
    async with open_memory() as memory:
        user = memory.user("u")
        kept = await user.add("likes tea")
        gone = await user.add("likes coffee")
        await user.update(kept.memory_id, metadata={"told": True})
        await user.delete(gone.memory_id)
        (hit,) = await user.retrieve("likes coffee", filters={"told": True})
        assert hit.memory_id == kept.memory_id
        assert [one.memory_id for one in await user.retrieve("likes coffee")] == [kept.memory_id]


async def test_what_is_still_to_be_indexed_is_so_after_the_next_opening(
    open_memory: Any, embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_indexes, "SETTLE_WITHIN_S", 600)
    async with open_memory() as memory:
        await memory.user("u").add("likes tea")
    async with open_memory() as memory:
        assert len(await memory.user("u").retrieve("tea")) == 1
    assert embedder.texts == ["likes tea", "tea"], "what was computed is kept"
