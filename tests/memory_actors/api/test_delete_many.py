"""Counting and deleting what matches: one choice of memories for lists, counts and deletes."""

import asyncio
from typing import Any

import pytest

from memory_actors import (
    InvalidInputError,
    Item,
    MemoryType,
    NotFoundError,
    ReadOnlyError,
    UserMemory,
)

pytestmark = pytest.mark.anyio

KINDS = [kind.value for kind in MemoryType]


async def one_of_each(user: UserMemory) -> None:
    for kind in KINDS:
        await user.add(f"a {kind}", kind, metadata={"n": 1, "kind": kind})


async def listed(user: UserMemory) -> list[str]:
    return sorted(memory.memory_type for memory in await user.list_memories())


@pytest.mark.no_http
async def test_count_says_how_many_memories_would_be_listed(user: UserMemory) -> None:
    await one_of_each(user)
    await user.from_source("a page", "untrusted").add("poison", metadata={"n": 2})
    assert await user.count() == len(KINDS) + 1
    assert await user.count({"n": 1}) == len(KINDS)
    assert await user.count({"n": {"gte": 2}}) == 1
    assert await user.count(memory_types="long_term") == 2
    for kind in KINDS:
        assert await user.count({"n": 1}, memory_types=[kind]) == 1
    assert await user.count({"n": 1}, memory_types=[]) == 0
    assert await user.count(sources=["a page"]) == 1
    assert await user.count(min_trust="unknown") == len(KINDS)
    with pytest.raises(InvalidInputError, match="unknown operator"):
        await user.count({"n": {"gtt": 1}})


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({"session_id": "monday"}, ["Tea at noon", "tea at dawn"]),
        ({"contains": "TEA"}, ["Tea at noon", "tea at dawn"]),
        ({"contains": "at", "limit": 1, "offset": 1}, ["Tea at noon"]),
        ({"since": "2024-01-02"}, ["coffee at night", "Tea at noon"]),
        ({"since": "2024-01-02", "until": "2024-01-02T12:00:00Z"}, ["Tea at noon"]),
        ({"contains": "tea", "until": "2024-01-01"}, ["tea at dawn"]),
        ({"contains": "tea", "session_id": "tuesday"}, []),
    ],
)
async def test_memories_are_listed_and_counted_by_session_time_and_text(
    user: UserMemory, which: dict[str, Any], expected: list[str]
) -> None:
    await user.add("tea at dawn", occurred_at="2024-01-01", session_id="monday")
    await user.add("Tea at noon", occurred_at="2024-01-02T09:00:00Z", session_id="monday")
    await user.add("coffee at night", occurred_at="2024-01-03", session_id="tuesday")
    assert [one.content for one in await user.list_memories(**which)] == expected
    conditions = {name: which[name] for name in which if name not in ("limit", "offset")}
    if conditions == which:
        assert await user.count(**which) == len(expected)


async def test_delete_many_deletes_what_matches_and_nothing_else(user: UserMemory) -> None:
    items = [Item(content=f"fact {n}", metadata={"n": n % 3}) for n in range(300)]
    await user.add_many(items)
    receipts = await user.delete_many({"n": {"in": [0, 1]}})
    assert len(receipts) == 200
    assert {receipt.operation for receipt in receipts} == {"delete"}
    assert await user.count() == await user.count({"n": 2}) == 100
    assert all(hit.metadata["n"] == 2 for hit in await user.retrieve("fact", top_k=50))
    await user.restore([receipt.memory_id for receipt in receipts])
    assert await user.count() == 300


async def test_delete_many_deletes_of_every_kind_or_of_those_named(user: UserMemory) -> None:
    for kind in KINDS:
        await one_of_each(user)
        (receipt,) = await user.delete_many({"n": 1}, memory_types=[kind])
        assert receipt.memory_type == kind
        assert await listed(user) == sorted(set(KINDS) - {kind})
        assert len(await user.delete_many({"n": 1})) == len(KINDS) - 1
        assert await listed(user) == []


async def test_memories_deleted_along_have_no_receipt(user: UserMemory) -> None:
    """A memory that goes with another one has no receipt of its own."""
    for name in ("Ada", "Bob"):
        await user.entities.add_entity(name, metadata={"n": 1})
    await user.entities.relate("Ada", "knows", "Bob", metadata={"n": 1})
    assert await user.count({"n": 1}) == 3
    receipts = await user.delete_many({"n": 1})
    assert 2 <= len(receipts) <= 3
    assert await user.count() == 0


async def test_a_delete_of_everything_has_to_name_its_types(user: UserMemory) -> None:
    await one_of_each(user)
    for nothing in ({}, None):
        with pytest.raises(InvalidInputError, match="memory_types"):
            await user.delete_many(nothing)
    for wrong in ({"n": {"gtt": 1}}, {"$n": 1}):
        with pytest.raises(InvalidInputError, match="unknown operator"):
            await user.delete_many(wrong)
    assert await listed(user) == sorted(KINDS)
    assert len(await user.delete_many({}, memory_types="working")) == 1
    assert "working" not in await listed(user)


async def test_the_past_is_counted_and_not_deleted(memory: Any, user: UserMemory) -> None:
    await one_of_each(user)
    before = memory.statistics().log.events_appended
    await user.delete_many({"n": 1})
    async with memory.replay("ada", before) as past:
        assert await past.count({"n": 1}) == len(KINDS)
        with pytest.raises(ReadOnlyError):
            await past.delete_many({"n": 1})


# --- one memory, on a condition


async def test_a_memory_is_changed_and_deleted_only_if_it_matches(user: UserMemory) -> None:
    await one_of_each(user)
    for one in await user.list_memories():
        metadata = one.metadata
        for refused in (
            user.update(one.memory_id, metadata={"n": 5}, filters={"n": 2}),
            user.delete(one.memory_id, filters={"n": 2}),
        ):
            with pytest.raises(NotFoundError, match="does not match"):
                await refused
        assert (await user.get(one.memory_id)).metadata == metadata
        if one.memory_type != "context":
            await user.update(one.memory_id, metadata={"n": 2}, filters={"n": 1})
        await user.delete(one.memory_id, filters={"n": {"lte": 2}})
    assert await user.count() == 0
    with pytest.raises(InvalidInputError, match="unknown operator"):
        await user.delete("gone", filters={"n": {"gtt": 1}})


async def test_of_changes_that_wait_together_the_later_one_sees_the_earlier(
    user: UserMemory,
) -> None:
    """The condition is decided with the change: a look beforehand would let both pass."""
    receipt = await user.add("a fact", metadata={"n": 0})
    outcomes = await asyncio.gather(
        *(user.update(receipt.memory_id, metadata={"n": n}, filters={"n": 0}) for n in range(1, 9)),
        return_exceptions=True,
    )
    assert [type(one) for one in outcomes].count(NotFoundError) == 7


@pytest.mark.no_http  # of two requests at once either may come first
async def test_delete_many_keeps_what_no_longer_matches(user: UserMemory) -> None:
    receipt = await user.add("a fact", metadata={"is_old": True})
    _, deleted = await asyncio.gather(
        user.update(receipt.memory_id, metadata={"is_old": False}),
        user.delete_many({"is_old": True}),
    )
    assert deleted == []
    assert await user.count() == 1
