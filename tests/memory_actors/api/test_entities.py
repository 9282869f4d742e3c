"""`user.entities`, as a caller sees it."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from support.fakes import FakeClock

from memory_actors import InvalidInputError, NotFoundError, UserMemory

pytestmark = pytest.mark.anyio


async def people(user: UserMemory) -> None:
    await user.entities.add_entity("Alice", "person", ["likes green tea"])
    for name in ("Acme", "Initech"):
        await user.entities.add_entity(name, "company")


async def test_the_same_name_and_type_are_one_entity(user) -> None:
    first = await user.entities.add_entity(
        "Alice", "person", ["likes tea"], metadata={"a": 1, "b": 1}
    )
    again = await user.entities.add_entity(
        " ALICE ", "Person", ["likes tea", "is tall"], metadata={"b": 2}
    )
    other = await user.entities.add_entity("Alice", "boat")
    assert again.memory_id == first.memory_id != other.memory_id
    assert (first.operation, again.operation) == ("add", "update")
    alice = await user.entities.get("alice", "person")
    assert alice.observations == ("likes tea", "is tall")
    assert alice.metadata == {"a": 1, "b": 2}
    nothing_new = await user.entities.add_entity("Alice", "person", ["is tall"])
    assert nothing_new.operation == "unchanged"
    with pytest.raises(InvalidInputError, match="several entities"):
        await user.entities.get("Alice")


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("Room ٤", "Room 4"),
        ("Jean\u2011Luc", "Jean-Luc"),
        ("O\u2019Neill", "o'neill"),
        ("❤\ufe0f Co", "❤ Co"),
        ("of\u00adfice", "Of\ufb01ce"),
    ],
)
async def test_a_name_in_another_spelling_is_the_same_name(memory, name, again) -> None:
    entities = memory.user("u").entities
    first = await entities.add_entity(name)
    assert (await entities.get(again)).memory_id == first.memory_id
    assert (await entities.add_entity(again)).operation == "unchanged"


async def test_one_of_several_equal_calls_is_new(memory) -> None:
    """Of equal entities and relationships that are added at the same time, one is new."""
    entities = memory.user("u").entities
    adds = await asyncio.gather(
        *(entities.add_entity(name, "person", [name]) for name in ("Alice", "ALICE", "alice"))
    )
    assert sorted(add.operation for add in adds) == ["add", "update", "update"]
    await entities.add_entity("Acme", "company")
    said = await asyncio.gather(
        *(entities.relate("Alice", "works_at", "Acme", metadata={"n": n}) for n in range(3))
    )
    assert sorted(one.operation for one in said) == ["add", "update", "update"]


async def test_a_relationship_repeated_under_its_id_is_an_update(memory) -> None:
    """A relationship said again under its own id is an update."""
    entities = memory.user("u").entities
    for name in ("Alice", "Acme"):
        await entities.add_entity(name, "thing")
    for operation, metadata in (("add", {"n": 1}), ("update", {"n": 2}), ("unchanged", {})):
        receipt = await entities.relate(
            "Alice", "works_at", "Acme", metadata=metadata, memory_id="mine",
            valid_from="2020-01-01",
        )  # fmt: skip
        assert (receipt.memory_id, receipt.operation) == ("mine", operation)
    pinned = await entities.relate("Alice", "works_at", "Acme", pinned=True)
    assert (pinned.memory_id, pinned.operation) == ("mine", "update")
    assert (await memory.user("u").get("mine")).pinned


async def test_observations_come_and_go(user) -> None:
    await people(user)
    await user.entities.observe("Alice", "plays chess")
    await user.entities.remove_observation("Alice", "likes green tea")
    assert (await user.entities.get("Alice")).observations == ("plays chess",)
    assert await user.retrieve("green tea", memory_types=["entity"], top_k=1) != []
    hits = await user.retrieve("likes green tea", memory_types=["entity"], top_k=10)
    assert all("green tea" not in hit.content for hit in hits)


async def test_a_contradiction_ends_the_old_fact(user) -> None:
    """A fact that contradicts ends the old one, and erases nothing."""
    await people(user)
    old = await user.entities.relate("Alice", "works_at", "Acme", valid_from="2020-01-01")
    await user.entities.relate("Alice", "works_at", "Initech", valid_from="2022-01-01")

    async def employer(as_of: str | None = None) -> list[str]:
        found = await user.entities.relationships("Alice", as_of=as_of)
        return [relationship.target for relationship in found]

    assert await employer() == ["Initech"]
    assert await employer("2021-06-01") == ["Acme"]
    assert await employer("2019-01-01") == []
    ever = await user.entities.relationships("Alice", ended=True)
    assert [r.target for r in ever] == ["Initech", "Acme"]
    assert ever[1].valid_to == datetime(2022, 1, 1, tzinfo=UTC)
    events = [entry.event for entry in await user.history(old.memory_id)]
    assert events == ["relationship.added", "relationship.added"]


async def test_what_ended_is_no_longer_true_from_then_on(user, clock: FakeClock) -> None:
    await people(user)
    receipt = await user.entities.relate("Alice", "knows", "Acme", valid_from="2020-01-01")
    await user.entities.end(receipt.memory_id, "2021-01-01")
    assert await user.entities.relationships("Alice") == []
    assert len(await user.entities.relationships("Alice", as_of="2020-12-31")) == 1
    with pytest.raises(NotFoundError):
        await user.entities.end("nobody")


async def test_neighbours_are_found_to_any_depth(user) -> None:
    for name in "abcde":
        await user.entities.add_entity(name)
    for source, target in ("ab", "bc", "cd", "ae"):
        await user.entities.relate(source, "next_to", target)
    far = await user.entities.neighbours("a", depth=2)
    assert {(n.entity.name, n.distance) for n in far} == {("b", 1), ("e", 1), ("c", 2)}
    assert [r.target for r in far[-1].path] == ["b", "c"]
    assert len(await user.entities.neighbours("a", depth=9)) == 4
    assert await user.entities.neighbours("a", depth=9, direction="in") == []
    assert len(await user.entities.neighbours("a", depth=9, limit=2)) == 2
    with pytest.raises(InvalidInputError, match="direction"):
        await user.entities.neighbours("a", direction="up")  # type: ignore[arg-type]


async def test_deleting_an_entity_deletes_its_relationships(user) -> None:
    await people(user)
    kept = await user.entities.relate("Acme", "owns", "Initech")
    gone = await user.entities.relate("Alice", "works_at", "Acme")
    receipt = await user.entities.delete("Alice")
    with pytest.raises(NotFoundError):
        await user.get(gone.memory_id)
    assert (await user.get(kept.memory_id)).content == "Acme owns Initech"
    back = await user.restore([receipt.memory_id, gone.memory_id])
    assert len(back) == 2
    assert len(await user.entities.relationships("Alice")) == 1


BAD_INPUT: tuple[Any, ...] = (
    lambda e: e.add_entity(""),
    lambda e: e.add_entity("x" * 600),
    lambda e: e.add_entity("x", "t", "not a list"),
    lambda e: e.add_entity("x", "t", [""]),
    lambda e: e.relate("a", "", "a"),
    lambda e: e.relate("a", "r", "a", valid_from="never"),
    lambda e: e.relate("a", "r", "a", valid_from="2021-01-01", valid_to="2020-01-01"),
    lambda e: e.neighbours("a", depth=0),
    lambda e: e.relationships("a", as_of=[5]),
)


async def test_bad_input_is_refused(user) -> None:
    await user.entities.add_entity("a")
    for call in BAD_INPUT:
        with pytest.raises(InvalidInputError):
            await call(user.entities)
    with pytest.raises(NotFoundError, match="add it first"):
        await user.entities.relate("a", "knows", "nobody")
