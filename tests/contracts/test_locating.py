"""Where in a stream a position or a time is: the same answer from every store, however it looks."""

import random
from pathlib import Path
from typing import Any

import pytest
from contracts.stores import STORES, Noted, open_store

from eventlog import ANY_VERSION, EventStore, LocatingStore
from eventlog.core.subscription import version_at, version_at_time

pytestmark = pytest.mark.anyio
IN_DATABASE = [name for name in STORES if "postgres" in name]
TIMES = [990, 1000, 1000, 1000, 1001, 1007, 1500]


async def fill(store: EventStore, rng: random.Random) -> None:
    """Append to two streams, with times that repeat or go back; archive, drop and erase some."""
    for _ in range(rng.randrange(1, 40)):
        await store.append(
            rng.choice("ssst"),
            [Noted("x" * rng.randrange(50)) for _ in range(rng.randrange(1, 4))],
            ANY_VERSION,
            recorded_at_us=rng.choice([*TIMES, None]),
        )
        head = await store.head("s")
        if rng.random() < 0.2 and head.version > head.erased_version:
            await store.archive(
                "s", rng.sample(range(head.erased_version + 1, head.version + 1), 1)
            )
        if rng.random() < 0.1:
            await store.drop_archived(2**62, "s")
        if rng.random() < 0.05:
            await store.erase("s")


class ByHalves:
    """The part of a store that a search by halves needs, and no more."""

    def __init__(self, store: EventStore):
        self.head, self.read_versions = store.head, store.read_versions


@pytest.mark.parametrize("seed", range(3))
async def test_a_place_is_the_one_that_a_search_by_halves_finds(store: EventStore, seed: int):
    rng = random.Random(seed)
    await fill(store, rng)
    halving: Any = ByHalves(store)
    assert not isinstance(halving, LocatingStore)
    end = len(await store.read_all(0, 1000, dropped="mark")) + 3

    for name in "stu":
        for at in range(-1, end):
            assert await version_at(store, name, at) == await version_at(halving, name, at)
        for at in (-5, 989, *TIMES, 1008, 2**62):
            expected = await version_at_time(halving, name, at)
            assert await version_at_time(store, name, at) == expected


async def test_a_position_finds_the_last_event_at_or_before_it(store: EventStore):
    await store.append("s", [Noted("a"), Noted("b")], 0, recorded_at_us=5)
    await store.append("t", [Noted("c")], 0, recorded_at_us=6)
    await store.append("s", [Noted("d")], 2, recorded_at_us=7)

    assert [await version_at(store, "s", at) for at in range(6)] == [0, 1, 2, 2, 3, 3]
    assert [await version_at_time(store, "s", at) for at in (4, 5, 6, 7, 8)] == [0, 2, 2, 3, 3]
    assert [await version_at(store, "t", at) for at in (2, 3)] == [0, 1]
    assert await version_at(store, "never", 4) == 0


@pytest.mark.parametrize("name", IN_DATABASE)
async def test_in_a_database_it_is_one_round_trip(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with open_store(name, tmp_path) as store:
        from eventlog.postgres import database

        await store.append("s", [Noted(str(n)) for n in range(500)], 0)
        statements, run = [], database.run

        async def counted(connection, query, values=()):
            statements.append(query)
            return await run(connection, query, values)

        monkeypatch.setattr(database, "run", counted)
        assert await version_at(store, "s", 321) == 321
        assert await version_at_time(store, "s", 999) == 0
        # Meanwhile connections are made, and the tail is looked at, as often as it changes.
        assert len([query for query in statements if "event" in query]) == 2
