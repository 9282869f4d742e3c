"""Appends a second to the store in PostgreSQL, against bare PostgreSQL and the log on LMDB.

Producers append one event at a time to a stream of their own and wait until it is committed. While
our store runs, the sizes of its batches are noted; then the same frames, in the same batches, go
into a bare table with a unique (stream, version), one INSERT of arrays and one commit a batch: no
rule, no key, no queue. With several nodes, each has a share of the producers and, as the bare
clients have, a connection of its own; all are in one process here, and share its processor time.
"""

import asyncio
import gc
from collections.abc import Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench.log import Measured, Workload, append_all, frames_of, measured_from, produce, workload_of
from bench.report import Options, Report, Table, facts, median, scratch
from bench.snapshot import beside_a_snapshot
from eventlog import PgEventStore
from eventlog.postgres import database
from eventlog.postgres.arrays import BatchRows, Bytes, Ints
from eventlog.postgres.database import Connection, DatabasePlace, connect
from eventlog.postgres.writer import PgWriter
from memory_actors.upkeep.store import event_registry

SHAPES = ((1, 1), (1, 16), (1, 256), (4, 16), (4, 256))
"""Nodes, and producers in all."""
TABLE = """
    CREATE TABLE IF NOT EXISTS bare (
        position bigint PRIMARY KEY, stream bytea NOT NULL, version bigint NOT NULL,
        frame bytea STORAGE EXTERNAL NOT NULL, UNIQUE (stream, version)
    )
"""
INSERT = """
    INSERT INTO bare (position, stream, version, frame)
    SELECT * FROM unnest(%b, %b, %b, %b)
"""
NOTES = (
    "events/s and latencies: medians over the runs; `of bare`: median of each run's ratio",
    "bare: ready frames in the batches that our nodes committed, no queue before them",
    "lmdb: the same producers, one node; in the same directory",
    "open snapshot: one producer and node; what a dump that is under way costs an append",
)


class Shape(NamedTuple):
    """What is measured together."""

    nodes: int
    producers: int


def run(events: int, options: Options, url: str | None) -> Report:
    """Measure every shape, all subjects in turn."""
    rows = []
    with scratch(options) as directory, served(directory, url) as base:
        for shape in SHAPES:
            rows += _compare(directory, base, Shape(*shape), events, options)
        alone = workload_of(1, events, options.seed)
        beside = beside_a_snapshot(base, alone, events, options.runs)
        about = facts(directory, options, ("psycopg", "lmdb"), events_max=events)
    columns = [
        "subject", "nodes", "producers", "events", "events/s", "slowest run", "fastest run",
        "p50 ms", "p99 ms", "of bare", "events a batch",
    ]  # fmt: skip
    return Report("Append to PostgreSQL", about, [Table("Appends", columns, rows), beside], NOTES)


@contextmanager
def served(directory: Path, url: str | None) -> Any:
    """Yield the URL of a database: the one that was named, or one of our own in the directory."""
    if url is not None:
        yield url
        return
    settings = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "128MB"}
    with served_by(directory, settings) as server:
        yield server.url


@contextmanager
def served_by(directory: Path, settings: dict[str, str]) -> Any:
    """Yield a server of our own in the directory."""
    import tempfile

    from tests.support.postgres import Server

    for parent in (directory, *directory.parents):
        if parent.owner() == "root" and not parent.stat().st_mode & 1:
            parent.chmod(0o711)  # the server is not root, and has to come through
            break
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    server = Server(settings)
    tempfile.tempdir = before
    try:
        yield server
    finally:
        server.remove()


def _compare(
    directory: Path, url: str, shape: Shape, events: int, options: Options
) -> list[list[Any]]:
    workload = workload_of(shape.producers, events, options.seed)
    found: dict[str, list[Measured]] = {"postgres": [], "bare": [], "lmdb": []}
    sizes = []
    for number in range(options.runs):
        gc.collect()
        gc.freeze()
        name = f"{shape.nodes}_{shape.producers}_{number}"
        batches: list[list[int]] = [[] for _ in range(shape.nodes)]
        found["postgres"].append(asyncio.run(_ours(f"{url}?schema=ours_{name}", workload, batches)))
        found["bare"].append(asyncio.run(_bare(f"{url}?schema=bare_{name}", workload, batches)))
        if shape.nodes == 1:
            found["lmdb"].append(asyncio.run(append_all(directory / name, workload)))
        sizes.append(workload.count / sum(map(len, batches)))
        gc.unfreeze()
    floor = [measured.events_per_s for measured in found["bare"]]
    return [
        _row(name, shape, workload.count, runs, floor, median(sizes))
        for name, runs in found.items()
        if runs
    ]


def _row(
    name: str,
    shape: Shape,
    count: int,
    runs: Sequence[Measured],
    floor: Sequence[float],
    batch: float,
) -> list[Any]:
    rates = [measured.events_per_s for measured in runs]
    ratios = [rate / bare for rate, bare in zip(rates, floor, strict=True)]
    latencies = [median([m.p50_ms for m in runs]), median([m.p99_ms for m in runs])]
    return [
        name, *shape, count, median(rates), min(rates), max(rates), *latencies, median(ratios),
        batch,
    ]  # fmt: skip


async def _ours(url: str, workload: Workload, batches: list[list[int]]) -> Measured:
    times_s: list[float] = []
    async with AsyncExitStack() as opened:
        stores = []
        for sizes in batches:
            store = await opened.enter_async_context(PgEventStore.open(url, event_registry()))
            _record(store._writer, sizes)  # noqa: SLF001 - to do the same again
            stores.append(store)
        started_s = perf_counter()
        await asyncio.gather(
            *(
                produce(stores[number % len(stores)], f"user:{number}", events, times_s)
                for number, events in enumerate(workload.events)
            )
        )
        took_s = perf_counter() - started_s
    return measured_from(workload.count, took_s, times_s)


def _record(writer: PgWriter, sizes: list[int]) -> None:
    calls = writer._calls  # noqa: SLF001 - to do the same again
    append = calls.append

    async def recording(rows: BatchRows) -> Any:
        sizes.append(len(rows.events))
        return await append(rows)

    calls.append = recording  # type: ignore[method-assign]


async def _bare(url: str, workload: Workload, batches: list[list[int]]) -> Measured:
    frames, parts, at = frames_of(workload), [], 0
    for sizes in batches:
        parts.append([])
        for size in sizes:
            parts[-1].append(range(at, at + size))
            at += size
    place, times_s = DatabasePlace.parse(url), list[float]()
    connections = [await connect(place) for _ in batches]
    await connections[0].execute(f"CREATE SCHEMA {place.schema}")
    await connections[0].execute(TABLE)
    started_s = perf_counter()
    await asyncio.gather(
        *(
            _insert(connection, frames, part, times_s)
            for connection, part in zip(connections, parts, strict=True)
        )
    )
    took_s = perf_counter() - started_s
    for connection in connections:
        await connection.close()
    return measured_from(workload.count, took_s, times_s)


async def _insert(
    connection: Connection, frames: Sequence[bytes], parts: Sequence[range], times_s: list[float]
) -> None:
    for part in parts:
        if not part:
            continue
        started_s = perf_counter()
        positions = Ints(at + 1 for at in part)
        streams = Bytes([bytes(16)] * len(part))
        values = [positions, streams, positions, Bytes(frames[at] for at in part)]
        await database.run(connection, INSERT, values)
        times_s += [perf_counter() - started_s] * len(part)
