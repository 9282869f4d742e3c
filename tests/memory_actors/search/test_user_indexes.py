"""The rows that an activation looks at to find those to index, and when a text is indexed."""

import asyncio
from typing import Any

import anyio
import pytest

from memory_actors.search.indexes import user_indexes
from memory_actors.users.live_user import LiveUser

pytestmark = pytest.mark.anyio


async def test_an_archived_entry_is_found_after_a_user_wakes(open_memory: Any) -> None:
    async with open_memory() as memory:
        context = memory.user("u").context
        for text in ("likes tea", "plays chess"):
            (entry_id,) = (await context.add("S", text)).entry_ids
        await context.archive([entry_id])
    async with open_memory() as memory:
        (hit,) = await memory.user("u").context.search_archive("chess")
        assert hit.entry_id == entry_id


# --- texts that come alone


def searchable(live: LiveUser) -> int:
    """Return how many passages of facts are indexed, without looking as a search would."""
    return len(live.indexes._of["long_term"].dense)


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
