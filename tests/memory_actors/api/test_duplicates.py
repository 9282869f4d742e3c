"""A fact that is said twice is one memory that was seen twice, in every answer about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.fakes import FakeClock

from memory_actors import InvalidInputError, Item
from memory_actors.interchange import export_jsonl, import_jsonl

pytestmark = [pytest.mark.anyio, pytest.mark.tokens]

FACT = "User is vegetarian"
EVIL = "https://evil.example"


async def test_a_repeated_fact_is_one_memory_seen_twice(open_memory, clock: FakeClock) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        first = await user.add(FACT)
        clock.move(60)
        again = await user.add(FACT)
        assert (first.operation, again.operation) == ("add", "seen")
        assert again.memory_id == first.memory_id
        known = await user.get(first.memory_id)
        assert known.times_seen == 2
        assert known.last_seen_at - known.occurred_at == timedelta(seconds=60)
        assert (await user.usage()).kinds["long_term"].count == 1
        assert [entry.event for entry in await user.history(first.memory_id)] == [
            "long_term.added", "long_term.seen",
        ]  # fmt: skip
        told = await user.why(first.memory_id)
        assert [step.effect for step in told.steps] == ["added", "changed"]
        assert "Said again in the same words" in told.steps[1].says
    async with open_memory() as memory:
        assert (await memory.user("u").get(first.memory_id)).times_seen == 2
        assert await memory.check_replay() == []


@pytest.mark.parametrize(
    "other",
    ["  User   is\n vegetarian ", "User is \uff56egetarian", "User\u00a0is vegetarian"],
)
async def test_texts_are_the_same_whatever_their_spaces_and_unicode_forms(user, other: str) -> None:
    for one, two in ((FACT, other), (other.upper(), FACT.upper())):
        first, again = await user.add(one), await user.add(two)
        assert (again.operation, again.memory_id) == ("seen", first.memory_id)


async def test_texts_that_differ_beyond_spaces_are_two_memories(user) -> None:
    """A text that differs in more than its spaces is a memory of its own."""
    await user.add(FACT, metadata={"a": 1, "b": 2})
    same = await user.add(FACT, metadata={"b": 2, "a": 1})
    assert same.operation == "seen"
    others: list[dict[str, Any]] = [
        {}, {"metadata": {"a": True, "b": 2}}, {"role": "Ada"}, {"pinned": True},
        {"session_id": "s"}, {"memory_id": "own"},
    ]  # fmt: skip
    for fields in others:
        assert (await user.add(FACT, **fields)).operation == "add", fields
    assert (await user.add(FACT.lower())).operation == "add"
    assert (await user.add(FACT, session_id="s")).operation == "add", "a turn is kept"
    source = user.from_source(EVIL, "untrusted")
    assert (await source.add(FACT)).operation == "add", "each source answers for itself"
    assert (await source.add(FACT)).operation == "seen"


async def test_on_duplicate_keeps_skips_or_counts(user) -> None:
    first = await user.add(FACT)
    skipped = await user.add(FACT, on_duplicate="skip")
    assert (skipped.operation, skipped.memory_id) == ("unchanged", first.memory_id)
    own = await user.add(FACT, memory_id="own", on_duplicate="skip")
    assert (own.operation, own.memory_id) == ("unchanged", first.memory_id)
    kept = await user.add(FACT, on_duplicate="keep")
    assert kept.operation == "add"
    assert kept.memory_id != first.memory_id
    await user.delete(first.memory_id)
    counted = await user.add(FACT, on_duplicate="count")
    assert (counted.operation, counted.memory_id) == ("seen", kept.memory_id)
    turn = await user.add(FACT, session_id="s")
    again = await user.add(FACT, session_id="s", on_duplicate="count")
    assert (again.operation, again.memory_id) == ("seen", turn.memory_id)
    wrong: list[dict[str, Any]] = [
        {"on_duplicate": "merge"}, {"on_duplicate": "count", "memory_id": "own"},
        {"on_duplicate": "keep", "memory_type": "working"},
    ]  # fmt: skip
    for fields in wrong:
        with pytest.raises(InvalidInputError):
            await user.add(FACT, **fields)


@pytest.mark.parametrize(("policy", "operation"), [("keep", "add"), ("skip", "unchanged")])
async def test_the_setting_says_what_becomes_of_duplicates(
    open_memory, policy: str, operation: str
) -> None:
    async with open_memory(on_duplicate=policy) as memory:
        user = memory.user("u")
        await user.add(FACT)
        assert (await user.add(FACT)).operation == operation
        assert (await user.add(FACT, on_duplicate="count")).operation == "seen"


async def test_each_of_many_has_its_own_receipt(user) -> None:
    """Of many at once each has the receipt of what it came to."""
    tea = (await user.add("likes tea")).memory_id
    items = ["is tall", "likes tea", "is tall", "is short", "is  tall"]
    receipts = await user.add_many([Item(content=one) for one in items], idempotency_key="k")
    operations = [one.operation for one in receipts]
    assert operations == ["add", "seen", "seen", "add", "seen"]
    ids = [one.memory_id for one in receipts]
    assert ids == [ids[0], tea, ids[0], ids[3], ids[0]]
    assert (await user.get(ids[0])).times_seen == 3
    repeated = await user.add_many([Item(content=one) for one in items], idempotency_key="k")
    assert [(one.operation, one.memory_id) for one in repeated] == list(
        zip(operations, ids, strict=True)
    )
    assert (await user.get(tea)).times_seen == 2
    skipped = await user.add_many([Item(content=one) for one in items], on_duplicate="skip")
    assert [one.memory_id for one in skipped] == ids
    assert {one.operation for one in skipped} == {"unchanged"}


async def test_a_memory_seen_again_is_found_by_both_times(open_memory) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        for month in (1, 5):
            await user.add(FACT, occurred_at=datetime(2024, month, 1, tzinfo=UTC))
        for since, until, count in (
            (None, "2024-02-01", 1), ("2024-04-01", None, 1), ("2024-06-01", None, 0),
            (None, "2023-12-01", 0),
        ):  # fmt: skip
            assert len(await user.retrieve("vegetarian", since=since, until=until)) == count
    async with open_memory() as memory:
        assert await memory.user("u").retrieve("vegetarian", since="2024-04-01")


async def test_a_memory_seen_again_is_not_the_oldest(user) -> None:
    await user.set_tier("free")
    limit = (await user.usage()).kinds["long_term"].quotas[0].limit
    old = [
        Item(content=f"fact {n}", occurred_at=datetime(2020, 1, 1 + n % 2, tzinfo=UTC))
        for n in range(limit)
    ]
    receipts = []
    for n in range(0, limit, 1_000):
        receipts += await user.add_many(old[n : n + 1_000])
    again = await user.add("fact 0")
    assert again.memory_id == receipts[0].memory_id
    pruned = await user.add_with_auto_prune("one more")
    assert receipts[2].memory_id in pruned.pruned
    assert receipts[0].memory_id not in pruned.pruned
    both = await user.add_many(
        [Item(content="fact 22"), *[Item(content=f"new {n}") for n in range(limit // 10)]],
        auto_prune=True,
    )
    assert both[0].operation == "seen"
    assert both[0].pruned
    assert (await user.get(both[0].memory_id)).content == "fact 22"


async def test_a_deleted_memory_comes_back_with_what_was_counted(user) -> None:
    ids = {(await user.add(FACT)).memory_id for _ in range(3)}
    (one,) = ids
    before = await user.get(one)
    assert before.times_seen == 3
    await user.delete(one)
    assert (await user.add(FACT)).operation == "add", "the deleted one does not stand for it"
    await user.restore([one])
    after = await user.get(one)
    assert (after.times_seen, after.last_seen_at) == (3, before.last_seen_at)
    assert after.created_at == before.created_at
    await user.update(one, content="User is vegan")
    assert (await user.get(one)).times_seen == 1, "what it says now was said once"
    assert (await user.add("User is vegan")).memory_id == one


async def test_the_past_knows_how_often_it_was_seen_then(memory) -> None:
    user = memory.user("u")
    receipt = await user.add(FACT)
    position = (await user.history(receipt.memory_id))[-1].position
    await user.add(FACT)
    async with memory.replay("u", as_of=position) as past:
        assert (await past.get(receipt.memory_id)).times_seen == 1
    diff = await memory.diff("u", position)
    assert [(one.change, one.after.times_seen) for one in diff.changes] == [("changed", 2)]


async def test_a_purge_leaves_what_the_user_said(memory, user) -> None:
    """A purge takes out the source, and leaves the user's own words."""
    source = user.from_source(EVIL, "untrusted")
    said, read = await user.add(FACT), await source.add(FACT)
    await user.add(FACT)
    await source.add(FACT)
    assert (await user.get(said.memory_id)).trust == "unknown"
    hits = await user.retrieve("vegetarian", min_trust="unknown")
    assert [hit.memory_id for hit in hits] == [said.memory_id]
    purged = await user.purge(EVIL)
    assert purged.count == 1
    assert (await user.get(said.memory_id)).times_seen == 2
    assert await memory.check_replay() == []
    assert (await source.add(FACT)).memory_id != read.memory_id


async def test_an_export_tells_how_often_and_an_import_keeps_it(
    memory, user, clock: FakeClock, tmp_path
) -> None:
    file = tmp_path / "out.jsonl"
    await user.add(FACT)
    clock.move(3600)
    await user.add(FACT)
    await export_jsonl(user, file)
    for _ in range(2):
        await import_jsonl(memory.user("v"), file)
    (old,), (new,) = await user.list_memories(), await memory.user("v").list_memories()
    assert (new.times_seen, new.last_seen_at) == (2, old.last_seen_at)
    with pytest.raises(InvalidInputError, match="times_seen"):
        await user.add_many([Item(content="x", times_seen=0)])
