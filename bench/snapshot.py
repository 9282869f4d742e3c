"""Appends while a snapshot is open in the database, as that of a dump, beside none.

Each append changes rows that all appends share, and leaves a version of each behind. While a
snapshot is open they cannot be removed; so what an append takes may rise with the number of appends
since it was opened. One producer appends one event at a time to streams of ten events each. With a
snapshot and without take turns; each time in a schema of its own, and from the beginning.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from time import perf_counter
from typing import Any

from bench.log import Workload
from bench.report import Table, median, percentile
from eventlog import PgEventStore
from eventlog.postgres.database import DatabasePlace, connect
from memory_actors.upkeep.store import event_registry

STEPS = 4
STREAM_EVENTS = 10
COLUMNS = ["snapshot", "open since appends", "appends", "p50 ms", "p99 ms"]


def beside_a_snapshot(url: str, workload: Workload, appends: int, runs: int) -> Table:
    """Return the time of appends after more and more others, with a snapshot open and without."""
    (some,) = workload.events
    events = [some[number % len(some)] for number in range(appends)]
    found: dict[bool, list[list[list[float]]]] = {False: [], True: []}
    for number in range(runs):
        for is_open in (False, True):
            place = f"{url}?schema=snapshot_{number}_{int(is_open)}"
            found[is_open].append(asyncio.run(_append(place, events, is_open)))
    step = len(events) // STEPS
    rows: list[list[Any]] = [
        [
            "open" if is_open else "none", at * step, step,
            *(median([percentile(run[at], q) * 1e3 for run in times_s]) for q in (50, 99)),
        ]
        for is_open, times_s in found.items()
        for at in range(STEPS)
    ]  # fmt: skip
    return Table("Appends beside an open snapshot", COLUMNS, rows)


async def _append(url: str, events: Sequence[Any], is_open: bool) -> list[list[float]]:
    step = len(events) // STEPS
    times_s: list[list[float]] = [[] for _ in range(STEPS)]
    async with (
        PgEventStore.open(url, event_registry()) as store,
        _snapshot(url) if is_open else nullcontext(),
    ):
        for number, event in enumerate(events[: step * STEPS]):
            stream, version = divmod(number, STREAM_EVENTS)
            started_s = perf_counter()
            await store.append(f"user:{stream}", [event], version)
            times_s[number // step].append(perf_counter() - started_s)
    return times_s


@asynccontextmanager
async def _snapshot(url: str) -> AsyncIterator[None]:
    """Keep a snapshot of the database open, as `pg_dump` does."""
    connection = await connect(DatabasePlace.parse(url))
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.execute("SELECT FROM log_tail")
        yield
    finally:
        await connection.close()
