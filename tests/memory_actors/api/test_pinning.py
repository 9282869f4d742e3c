"""Memories are pinned and let go again after they were added."""

from typing import Any

import pytest

from memory_actors import InvalidInputError, Item, Limits, NotFoundError, Plan, Tier

pytestmark = pytest.mark.anyio

TEN = Limits(long_term_memories=10)


async def one_of(user: Any, kind: str) -> str:
    """Add a memory of a kind; return its id."""
    if kind == "relationship":
        await user.entities.add_entity("Ada")
        await user.entities.add_entity("York")
        return str((await user.entities.relate("Ada", "lives in", "York")).memory_id)
    return str((await user.add("Ada", kind)).memory_id)


@pytest.mark.parametrize("kind", ["long_term", "entity", "relationship", "episodic", "structured"])
async def test_a_memory_is_pinned_and_let_go_again(open_memory: Any, kind: str) -> None:
    async with open_memory() as memory:
        user = memory.user("ada")
        memory_id = await one_of(user, kind)
        before = await user.get(memory_id)
        for pinned in (True, True, False):
            await user.update(memory_id, pinned=pinned)
            now = await user.get(memory_id)
            assert now.pinned is pinned
            assert now.content == before.content
        await user.update(memory_id, pinned=True, metadata={"kept": True})
        assert (await user.get(memory_id)).metadata == {"kept": True}
        told = [entry.data.get("pinned") for entry in await user.history(memory_id)]
        assert told[1:] == [True, False, True]  # what changes nothing is no event
    async with open_memory() as memory:
        assert (await memory.user("ada").get(memory_id)).pinned


@pytest.mark.owner
async def test_an_entity_stays_pinned_as_more_is_observed(memory: Any) -> None:
    entities = memory.user("ada").entities
    bob = (await entities.add_entity("Bob", pinned=True)).memory_id
    await entities.observe("Bob", "tall")
    assert (await memory.user("ada").get(bob)).pinned
    eve = (await entities.add_entity("Eve")).memory_id
    await entities.add_entity("Eve", observations=["small"], pinned=True)
    assert (await memory.user("ada").get(eve)).pinned


async def test_what_is_pinned_later_is_not_pruned(open_memory: Any) -> None:
    async with open_memory(tiers={Tier.LOCAL: Plan(limits=TEN)}) as memory:
        user = memory.user("ada")
        first = await user.add("the oldest", occurred_at="2020-01-01")
        await user.update(first.memory_id, pinned=True)
        await user.add_many([Item(content=f"fact {number}") for number in range(9)])
        receipt = await user.add_with_auto_prune("one more")
        assert receipt.pruned
        assert (await user.get(first.memory_id)).pinned
        await user.update(first.memory_id, pinned=False)
        await user.add_with_auto_prune("and another")
        with pytest.raises(NotFoundError):
            await user.get(first.memory_id)


@pytest.mark.parametrize("kind", ["working", "short_term"])
async def test_what_is_never_pruned_cannot_be_pinned(user: Any, kind: str) -> None:
    memory_id = await one_of(user, kind)
    with pytest.raises(InvalidInputError, match="cannot be pinned"):
        await user.update(memory_id, pinned=True)


async def test_an_entry_of_a_document_is_pinned_where_it_is(user: Any) -> None:
    entry = (await user.context.add("Teas", "Assam")).entry_ids[0]
    with pytest.raises(InvalidInputError, match=r"user\.context\.pin"):
        await user.update(entry, pinned=True)
