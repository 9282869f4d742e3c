"""`user.documents`, as a caller sees it."""

import asyncio
from typing import Any

import pytest

from memory_actors import InvalidInputError, UserMemory
from memory_actors.search import reading as values_room

pytestmark = pytest.mark.anyio


async def shop(user: UserMemory) -> None:
    for n in range(10):
        await user.documents.put(
            "shop",
            {"name": f"thing {n}", "price": n * 1.5, "in": {"city": "Bern" if n % 2 else "Basel"}},
            key=f"k{n}",
        )


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"price": 3}, [2]),
        ({"price": {"gt": 10, "lte": 12}}, [7, 8]),
        ({"in.city": "Bern", "price": {"lt": 5}}, [1, 3]),
        ({"or": [{"name": "thing 1"}, {"name": {"contains": "9"}}]}, [1, 9]),
        ({"not": {"price": {"gte": 1.5}}}, [0]),
        ({"in.zip": {"exists": True}}, []),
        ({"name": {"in": ["thing 4", "x"]}}, [4]),
        ({"in.city": {"nin": ["Bern"]}, "price": {"gt": 9}}, [8]),
    ],
)
async def test_documents_are_found_by_field(user, filters, names) -> None:
    await shop(user)
    for _ in range(2):  # cold, then from memory
        found = await user.documents.find("shop", filters)
        assert [d.value["name"] for d in found] == [f"thing {n}" for n in names]


async def test_a_page_is_taken_in_the_order_asked_for(user) -> None:
    await shop(user)
    page = await user.documents.find("shop", order_by="-price", limit=2, offset=1)
    assert [document.key for document in page] == ["k8", "k7"]
    two = await user.documents.find("shop", order_by=["in.city", "-price"], limit=1)
    assert two[0].key == "k8"
    assert await user.documents.find("other") == []
    assert await user.documents.collections() == {"shop": 10}


async def test_one_of_several_puts_adds_and_others_update(memory) -> None:
    put = memory.user("u").documents.put
    receipts = await asyncio.gather(*(put("c", {"a": n}, key="k") for n in range(4)))
    assert sorted(one.operation for one in receipts) == ["add", "update", "update", "update"]
    assert len({receipt.memory_id for receipt in receipts}) == 1
    own = [await put("c", {"b": n}, key="own", memory_id="mine") for n in range(2)]
    assert [(r.memory_id, r.operation) for r in own] == [("mine", "add"), ("mine", "update")]


async def test_more_than_fits_in_memory_is_found_all_the_same(open_memory, monkeypatch) -> None:
    monkeypatch.setattr(values_room, "CACHED_JSON_BYTES_MAX", 100)
    monkeypatch.setattr(values_room, "DOCUMENTS_AT_ONCE", 3)
    async with open_memory() as memory:
        user = memory.user("u")
        await shop(user)
        for _ in range(2):
            assert len(await user.documents.find("shop", {"price": {"gte": 0}})) == 10


async def test_a_document_is_found_by_meaning(user) -> None:
    await user.documents.put("recipes", {"name": "tomato soup", "time": 20})
    await user.documents.put("recipes", {"name": "apple pie", "time": 60})
    (hit,) = await user.retrieve("tomato soup", memory_types=["structured"], top_k=1)
    assert hit.data["value"] == {"name": "tomato soup", "time": 20}


BAD_INPUT: tuple[Any, ...] = (
    lambda d: d.put("c", [1]),
    lambda d: d.put("c", {"a": float("nan")}),
    lambda d: d.put("", {}),
    lambda d: d.put("c", {"a": "x" * 16_000_000}),
    lambda d: d.find("c", {"$foo": 1}),
    lambda d: d.find("c", order_by=5),
    lambda d: d.find("c", limit=-1),
)


async def test_bad_input_is_refused(memory) -> None:
    documents = memory.user("u").documents
    for call in BAD_INPUT:
        with pytest.raises(InvalidInputError):
            await call(documents)


TIMES = ("2026-03-01T23:30:00-05:00", "2026-03-01T12:00:00Z", "2026-03-02T01:00:00+02:00")


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"gte": "2026-03-01", "lte": "2026-03-01"}, [1, 2]), ({"gt": "2026-03-01"}, [0]),
        ({"lt": "2026-03-01T23:00:00Z"}, [1]), ({"eq": "2026-03-02T04:30:00Z"}, [0]),
    ],
)  # fmt: skip
async def test_times_of_any_zone_are_compared_as_times(user, wanted, numbers) -> None:
    """In documents and in metadata; a date alone means the whole day."""
    for number, time in enumerate(TIMES):
        await user.documents.put("c", {"n": number, "created_at": time}, key=str(number))
        await user.add(f"fact {number}", metadata={"n": number, "created_at": time})
    filters = {"created_at": wanted}
    found = await user.documents.find("c", filters)
    assert [one.value["n"] for one in found] == numbers
    listed = await user.list_memories(["long_term"], filters=filters)
    assert sorted(one.metadata["n"] for one in listed) == numbers
    hits = await user.retrieve("fact", memory_types=["long_term"], filters=filters)
    assert sorted(hit.metadata["n"] for hit in hits) == numbers
    by_time = await user.documents.find("c", order_by="created_at")
    assert [one.value["n"] for one in by_time] == [1, 2, 0]
