"""One order of rows: whatever happens to memories, row n is the same passage in all parts."""

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from support.indexes import beside

from memory_actors import Item, MemorySystem, UserMemory
from memory_actors.base.filters import parsed
from memory_actors.kinds import entity, long_term
from memory_actors.search.indexes import dense, graph, labels
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import Parts
from memory_actors.search.indexes.traits import times

pytestmark = [pytest.mark.anyio, pytest.mark.tokens]

WORDS = [f"word{n}" for n in range(40)]


@pytest.fixture(autouse=True)
def soon_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few dead rows are enough, and few rows are scanned."""
    monkeypatch.setattr(labels, "DEAD_MIN", 3)
    monkeypatch.setattr(dense, "EXACT_MAX", 60)
    monkeypatch.setattr(graph, "WANTED_MIN", 5)
    monkeypatch.setattr(graph, "UNSKETCHED_MAX", 10)


async def index_of(memory: MemorySystem, kind: Any) -> MemoryIndex:
    async with memory._services.runtime.use("user:u") as live:
        index = live.indexes.get(kind)
        while (task := index._tasks.running(f"maintenance {kind.NAME}")) is not None:
            await asyncio.wait([task])
            await asyncio.sleep(0)  # it is taken off the list in its own turn
        return index


def check_order(parts: Parts, state: Any, kind: Any) -> None:
    """In each chain passages stand by place, then by label."""
    chains: dict[str | None, list[tuple[int, int]]] = {}
    for row in kind.rows(state):
        found = [(p.place, p.label) for p in kind.passages(row) if p.label in parts.rows]
        chains.setdefault(kind.chain(row), []).extend(found)
    for chain, passages in chains.items():
        ordered = [label for _, label in sorted(passages)]
        before = [None] * len(ordered) if chain is None else [None, *ordered[:-1]]
        link = parts.words.chains.links.before
        assert [beside(parts.words, label, link) for label in ordered] == before


async def check(memory: MemorySystem, kind: Any) -> None:
    index = await index_of(memory, kind)
    parts, view = index.parts, index.dense.view()
    assert parts.size == len(view.labels) == len(parts.words.windows("").of_all())
    assert parts.rows.living == len(parts.late) == int(view.alive.sum())
    async with memory._services.runtime.use("user:u") as live:
        state = live.state.of(kind)
    check_order(parts, state, kind)
    columns = parts.traits.view(parts.size)
    for row in np.flatnonzero(view.alive).tolist():
        label = int(view.labels[row])
        memory_id = index.owner(label)
        known = kind.find(state, memory_id)
        assert parts.traits.owners[columns.owners[row]] == memory_id
        assert (
            columns.occurred_us[row], columns.begins_us[row], columns.ends_us[row],
            columns.last_us[row],
        ) == times(known)  # fmt: skip
        assert (columns.chains[row] < 0) == (kind.chain(known) is None)
        assert index.fields.read(int(columns.owners[row])) == known.metadata
    assert not index._waiting
    known = [index.fields.read(number) for number in range(index.fields.count())]
    living = {*columns.owners[view.alive].tolist()}
    assert {number for number, one in enumerate(known) if one is not None} == living


async def change(user: UserMemory, rng: random.Random, ids: list[str]) -> None:
    """Add a few, update one, delete one, and restore one now and then."""
    text = " ".join(rng.choices(WORDS, k=6))
    items = [Item(content=f"{text} {n}", metadata={"n": n}, session_id="s") for n in range(4)]
    ids += [receipt.memory_id for receipt in await user.add_many(items)]
    await user.update(rng.choice(ids), content=f"changed {text}")
    await user.update(rng.choice(ids), metadata={"m": text})
    for _ in range(rng.choice([1, 4])):
        gone = ids.pop(rng.randrange(len(ids)))
        await user.delete(gone)
    if rng.random() < 0.3:
        await user.restore([gone])
        ids.append(gone)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_changes_maintenance_and_reopening_keep_one_order(open_memory, seed: int) -> None:
    rng, ids = random.Random(seed), []
    for _ in range(3):
        async with open_memory(check_replay=False) as memory:
            user = memory.user("u")
            for _ in range(15):
                await change(user, rng, ids)
                if rng.random() < 0.3:
                    await check(memory, long_term.KIND)
            await check(memory, long_term.KIND)
            every = {m.memory_id for m in await user.list_memories(limit=1_000)}
            found = {h.memory_id for h in await user.retrieve("word1", top_k=1_000)}
            assert found == every == set(ids)


async def test_a_relationship_that_ends_is_known_to_have_ended(open_memory) -> None:
    """Its text stays what it was, so only its times change."""
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        for name in ("Ada", "Bern", "Oslo"):
            await user.entities.add_entity(name)
        await user.entities.relate("Ada", "lives_in", "Bern", valid_from="2020-01-01")
        await user.entities.relate("Ada", "lives_in", "Oslo", valid_from="2022-01-01")
        await check(memory, entity.KIND)
        then = await user.retrieve("lives_in", memory_types=["entity"], as_of="2021-01-01")
        assert [hit.content for hit in then if "lives" in hit.content] == ["Ada lives in Bern"]
        now = await user.retrieve("lives_in", memory_types=["entity"], as_of="2023-01-01")
        assert [hit.content for hit in now if "lives" in hit.content] == ["Ada lives in Oslo"]


async def test_a_filter_asked_during_changes_is_right(open_memory) -> None:
    """A filter asked while memories change is answered as they are."""
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        ids = await user.add_many(
            [Item(content=f"word{n % 40} number {n}", metadata={"n": n}) for n in range(900)]
        )
        index = await index_of(memory, long_term.KIND)
        portions = index.fields.prepared(parsed({"n": {"lt": 1_000}}))
        next(portions)
        await user.delete(ids[0].memory_id)  # that portion has it
        await user.delete(ids[899].memory_id)  # and this one not yet
        await user.update(ids[1].memory_id, metadata={"n": 5_000})
        await user.update(ids[898].memory_id, metadata={"n": -5})
        assert not list(portions)[1:]
        wanted = {"n": {"lt": 2}}
        assert {hit.memory_id for hit in await user.retrieve("word", filters=wanted)} == {
            ids[898].memory_id
        }
        everything = await user.retrieve("word", filters={"n": {"lt": 1_000}}, top_k=1_000)
        assert len(everything) == 897


async def test_a_query_goes_on_with_the_rows_it_began_with(open_memory) -> None:
    """Rows made anew meanwhile have another order: they belong to the queries that come later."""
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        ids = await user.add_many([Item(content=f"word{n % 40} is {n}") for n in range(200)])
        index = await index_of(memory, long_term.KIND)
        parts = index.parts
        before = parts.dense.view().labels[: parts.size].tolist()
        for receipt in ids[:150]:
            await user.delete(receipt.memory_id)
        await index_of(memory, long_term.KIND)
        assert index.dense is not parts.dense
        assert index.parts.size < parts.size
        assert parts.dense.view().labels[: parts.size].tolist() == before
        assert len(parts.words.windows("word1").of_all()) == len(parts.traits.view(parts.size).asks)
        await check(memory, long_term.KIND)


async def test_what_matches_no_longer_is_not_returned(open_memory) -> None:
    """A filter that takes a look at each memory gives others a turn in between."""
    async with open_memory(check_replay=False) as memory:
        user, rng = memory.user("u"), random.Random(3)
        kinds = [{"d": {"x": n % 2}} for n in range(1_300)]
        ids = await user.add_many(
            [Item(content=f"word {n}", metadata=kinds[n]) for n in range(700)]
        )
        ids += await user.add_many(
            [Item(content=f"wort {n}", metadata=kinds[n]) for n in range(600)]
        )
        stop = False

        async def turn() -> None:
            while not stop:
                one = rng.choice(ids).memory_id
                await user.update(one, metadata={"d": {"x": rng.randrange(2)}})

        turning = asyncio.create_task(turn())
        for _ in range(30):
            hits = await user.retrieve("word", filters={"d": {"eq": {"x": 1}}}, top_k=1_000)
            assert hits
            assert all(hit.metadata["d"]["x"] == 1 for hit in hits)
        stop = True
        await turning


async def test_queries_in_a_row_give_others_a_turn(open_memory) -> None:
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        await user.add("a memory")
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await user.retrieve("a memory")
        before = turns
        for _ in range(20):
            await user.retrieve("a memory")
        assert turns - before >= 20
        counting.cancel()


def test_rows_are_made_anew_when_the_last_one_goes() -> None:
    """Up to there a few dead rows are kept."""
    rows = labels.Labels()
    for label in (1, 2):
        rows.append(label)
    rows.remove(1)
    assert not rows.wants_maintenance
    rows.remove(2)
    assert rows.wants_maintenance
