"""Appends a second, and how long each takes, against what LMDB itself costs and two peers.

Producers append one event at a time to a stream of their own and wait until it is durable. While
our log runs, the sizes of the batches that its writer commits are noted; then the same frames, in
the same batches, go into a bare LMDB file with one put an event (the floor: no index, no rule, no
queue) and into SQLite. The ratio is therefore the cost of our tables, checks, chains and futures on
top.
"""

import asyncio
import gc
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from unittest.mock import patch

from bench.peers import append_eventsourcing, append_lmdb, append_sqlite
from bench.report import Options, Report, Table, facts, median, percentile, scratch
from bench.workload import added
from eventlog import EventLog
from eventlog.core import frame
from eventlog.core.records import Prepared
from eventlog.lmdb.writer import Work, Writer
from memory_actors.upkeep.store import event_registry

PRODUCERS = (1, 16, 256)
PAYLOAD_BYTES = 300
EVENTS_EACH_MAX = 2_000  # one producer commits every event alone: more would take minutes
EVENTSOURCING_EVENTS_MAX = 1_000  # it commits every event alone, whatever the number of threads
PACKAGES = ("lmdb", "msgspec", "eventsourcing")


class Measured(NamedTuple):
    """One subject in one run."""

    events_per_s: float
    p50_ms: float
    p99_ms: float


class Workload(NamedTuple):
    """The events that every subject appends."""

    producers: int
    events: Sequence[Sequence[Any]]
    """By producer."""

    @property
    def count(self) -> int:
        """The number of events."""
        return sum(map(len, self.events))


Subject = Callable[[Path, Workload, list[int]], Measured]


def run(events: int, options: Options) -> Report:
    """Measure every subject with every number of producers, in turn."""
    rows = []
    with scratch(options) as directory:
        for producers in PRODUCERS:
            rows += _compare(directory, workload_of(producers, events, options.seed), options.runs)
        about = facts(directory, options, PACKAGES, events_max=events, payload=f"{PAYLOAD_BYTES} B")
    columns = [
        "subject", "producers", "events", "events/s", "slowest run", "fastest run", "p50 ms",
        "p99 ms", "of raw lmdb", "events a batch",
    ]  # fmt: skip
    return Report("Append", about, [Table("Durable appends", columns, rows)], NOTES)


NOTES = (
    "events/s and latencies: medians over the runs; `of raw lmdb`: median of each run's ratio",
    "raw lmdb, sqlite: ready frames in the batches that our writer committed, no queue before them",
    "sqlite: WAL, synchronous=FULL, one row an event, unique (stream, version)",
    "eventsourcing: SQLite recorder, one event a save, a thread a producer, one writer for all",
)


def workload_of(producers: int, events: int, seed: int) -> Workload:
    """Return about `events` events of one size, shared by the producers."""
    rng = random.Random(seed)
    each = max(1, min(EVENTS_EACH_MAX, events // producers))
    content = "x" * (PAYLOAD_BYTES - 150)  # the rest of the event takes 150
    made = [
        [added(f"mem_{rng.getrandbits(120):030x}", content, rng) for _ in range(each)]
        for _ in range(producers)
    ]
    return Workload(producers, made)


def _compare(directory: Path, workload: Workload, runs: int) -> list[list[Any]]:
    found: dict[str, list[Measured]] = {name: [] for name in SUBJECTS}
    sizes: list[float] = []
    for number in range(runs):
        batches: list[int] = []
        gc.collect()
        gc.freeze()  # the workload is nobody's garbage: collecting it would slow whoever runs
        for name, subject in SUBJECTS.items():
            place = directory / f"{workload.producers}-{number}-{name.replace(' ', '-')}"
            place.mkdir()
            found[name].append(subject(place, workload, batches))
        sizes.append(workload.count / len(batches))
        gc.unfreeze()
    floor = [measured.events_per_s for measured in found["raw lmdb"]]
    return [
        _row(name, workload, measured, floor, median(sizes)) for name, measured in found.items()
    ]


def _row(
    name: str, workload: Workload, runs: list[Measured], floor: list[float], batch: float
) -> list[Any]:
    rates = [measured.events_per_s for measured in runs]
    ratios = [rate / bare for rate, bare in zip(rates, floor, strict=True)]
    return [
        name,
        workload.producers,
        _peer_count(workload) if name == "eventsourcing" else workload.count,
        median(rates),
        min(rates),
        max(rates),
        median([measured.p50_ms for measured in runs]),
        median([measured.p99_ms for measured in runs]),
        median(ratios),
        1.0 if name == "eventsourcing" else batch,
    ]


# --- the subjects


def _ours(directory: Path, workload: Workload, batches: list[int]) -> Measured:
    with patch("eventlog.lmdb.intake.Writer", _recording(batches)):
        return asyncio.run(append_all(directory, workload))


def _recording(batches: list[int]) -> type[Writer]:
    class Recording(Writer):
        def _commit(self, batch: list[Work]) -> Any:
            batches.append(sum(job.events for job in batch))
            return super()._commit(batch)

    return Recording


async def append_all(directory: Path, workload: Workload) -> Measured:
    """Append all events to a new log in `directory`, each producer on its own stream."""
    times_s: list[float] = []
    async with EventLog.open(directory, event_registry()) as log:
        started_s = perf_counter()
        await asyncio.gather(
            *(
                produce(log, f"user:{number}", events, times_s)
                for number, events in enumerate(workload.events)
            )
        )
        took_s = perf_counter() - started_s
    return measured_from(workload.count, took_s, times_s)


async def produce(log: EventLog, stream: str, events: Sequence[Any], times_s: list[float]) -> None:
    """Append events one by one to a stream; add the seconds of each to `times_s`."""
    for version, event in enumerate(events):
        started_s = perf_counter()
        await log.append(stream, [event], version)
        times_s.append(perf_counter() - started_s)


def _raw_lmdb(directory: Path, workload: Workload, batches: list[int]) -> Measured:
    return _batched(append_lmdb, directory, workload, batches)


def _sqlite(directory: Path, workload: Workload, batches: list[int]) -> Measured:
    return _batched(append_sqlite, directory, workload, batches)


def _batched(
    append: Callable[[Path, list[list[bytes]]], list[float]],
    directory: Path,
    workload: Workload,
    batches: list[int],
) -> Measured:
    frames = iter(frames_of(workload))
    parts = [[next(frames) for _ in range(size)] for size in batches if size]
    started_s = perf_counter()
    times_s = append(directory / "data", parts)
    took_s = perf_counter() - started_s
    by_event = [time_s for time_s, part in zip(times_s, parts, strict=True) for _ in part]
    return measured_from(workload.count, took_s, by_event)


def frames_of(workload: Workload) -> list[bytes]:
    """Return the frames of all events, as the log writes them."""
    registry = event_registry()
    prepared = [registry.prepare(event) for events in workload.events for event in events]
    return [_frame(position, event) for position, event in enumerate(prepared, start=1)]


def _frame(position: int, event: Prepared) -> bytes:
    data, _ = frame.pack(
        event, position=position, sid=bytes(16), version=position, recorded_at_us=0, prev=bytes(32)
    )
    return data


def _eventsourcing(directory: Path, workload: Workload, _batches: list[int]) -> Measured:
    each = max(1, _peer_count(workload) // workload.producers)
    texts = [[event.content for event in events[:each]] for events in workload.events]
    started_s = perf_counter()
    times_s = append_eventsourcing(directory / "data", texts)
    return measured_from(len(times_s), perf_counter() - started_s, times_s)


def _peer_count(workload: Workload) -> int:
    each = max(1, EVENTSOURCING_EVENTS_MAX // workload.producers)
    return workload.producers * min(each, len(workload.events[0]))


def measured_from(count: int, took_s: float, times_s: Sequence[float]) -> Measured:
    """Return rate and percentiles of `count` events; `times_s` has one time for each."""
    p50_s, p99_s = percentile(times_s, 50), percentile(times_s, 99)
    return Measured(count / took_s, p50_s * 1e3, p99_s * 1e3)


# In this order: the second and third repeat the batches of the first.
SUBJECTS: dict[str, Subject] = {
    "eventlog (commit)": _ours,
    "raw lmdb": _raw_lmdb,
    "sqlite": _sqlite,
    "eventsourcing": _eventsourcing,
}
