"""Memories of several kinds come back at once, or none does, and others have their turn."""

import asyncio
from typing import Any

import pytest
from support.given import pro

from memory_actors import (
    InvalidInputError,
    Item,
    Limits,
    NotFoundError,
    QuotaExceededError,
    UserMemory,
)
from memory_actors.search.reading import LOOKUPS_AT_ONCE

pytestmark = pytest.mark.anyio


async def gone(user: UserMemory) -> list[str]:
    """Return the ids of a fact, an entity and an entry that were deleted."""
    added = [await user.add("likes tea", kind) for kind in ("long_term", "entity", "context")]
    ids = [receipt.memory_id for receipt in added]
    for memory_id in ids:
        await user.delete(memory_id)
    return ids


async def test_several_kinds_come_back_at_once(user: UserMemory) -> None:
    ids = await gone(user)
    receipts = await user.restore([*ids, ids[0]])
    assert [(one.memory_id, one.operation) for one in receipts] == [
        (memory_id, "restore") for memory_id in ids
    ]
    assert {one.memory_id for one in await user.list_memories()} == set(ids)
    assert await user.restore(ids) == []
    assert await user.restore([]) == []


async def test_one_that_cannot_come_back_keeps_all_others_from_it(user: UserMemory) -> None:
    ids = await gone(user)
    key = await user.working.set("k", 1)
    message = await user.short_term.add_message("hello")
    for odd, refusal in (
        (key.memory_id, InvalidInputError),
        (message.memory_id, InvalidInputError),
        ("never", NotFoundError),
        (5, InvalidInputError),
    ):
        before = await user.list_memories()
        with pytest.raises(refusal):
            await user.restore([*ids, odd])
        assert await user.list_memories() == before


async def test_one_kind_without_room_keeps_the_others_from_coming_back(open_memory: Any) -> None:
    async with open_memory(tiers=pro(Limits(entities=1))) as memory:
        user = memory.user("u")
        fact, entity, _ = await gone(user)
        await user.entities.add_entity("in its place")
        with pytest.raises(QuotaExceededError):
            await user.restore([fact, entity])
        assert [one.memory_type for one in await user.list_memories()] == ["entity"]


@pytest.mark.owner
async def test_others_have_their_turn_while_many_ids_are_looked_up(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        count = 5 * LOOKUPS_AT_ONCE
        await user.add_many([Item(content=f"fact {n}", memory_id=f"f{n}") for n in range(count)])
        turns, at_turn = 0, []
        log = memory._services.log
        look_up = log.versions_about

        async def noted(stream: str, memory_id: str) -> list[int]:
            at_turn.append(turns)
            return await look_up(stream, memory_id)

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        monkeypatch.setattr(log, "versions_about", noted)
        busy = asyncio.create_task(other())
        await user.restore([f"f{n}" for n in range(count)])
        busy.cancel()
        assert len(at_turn) >= count
        assert max(map(at_turn.count, set(at_turn))) <= LOOKUPS_AT_ONCE
