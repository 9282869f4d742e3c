"""The speed of reading a user's past: fold, read, verify, against the eventsourcing library."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench.report import Options, Report, Table, facts, median, scratch
from bench.workload import life, sentence
from eventlog import EventLog, Recorded, replay
from eventlog.core.decider import BATCH_EVENTS
from memory_actors import Settings
from memory_actors.kinds.user_state import user_decider
from memory_actors.upkeep.store import event_registry

STREAM = "user:1"
LIVING_MAX = 10_000
APPEND_EVENTS = 1_000
PEER_EVENTS_MAX = 20_000  # its rate does not depend on the length
PACKAGES = ("lmdb", "msgspec", "immutables", "eventsourcing")


class Measured(NamedTuple):
    """The work, its number of events, and the time of each run."""

    name: str
    events: int
    times_s: list[float]


def run(events: int, options: Options) -> Report:
    """Measure all of it."""
    with scratch(options) as directory:
        subjects = asyncio.run(_measure(directory, events, options))
        about = facts(directory, options, PACKAGES, events=events)
    rows = [
        [name, count, count / median(times_s), count / max(times_s), count / min(times_s)]
        for name, count, times_s in subjects
    ]
    columns = ["what", "events", "events/s", "slowest run", "fastest run"]
    return Report("Replay", about, [Table("Reading one stream", columns, rows)], NOTES)


NOTES = (
    "events/s: median of the runs",
    "the stream: 70 % adds until 10,000 memories live, then as many deletes; 15 % updates",
    "fold only: the same events, already decoded; what it takes of `replay`",
    "verify: CRC, digest and chain of every event, and every other table",
    "eventsourcing: adds of one aggregate; its rate does not depend on how many",
)


async def _measure(directory: Path, events: int, options: Options) -> list[Measured]:
    async with EventLog.open(directory, event_registry()) as log:
        await _fill(log, life(events, LIVING_MAX, random.Random(options.seed)))
        recorded = await _read(log)
        decider = user_decider(Settings().limits_by_tier())
        subjects: dict[str, Callable[[], Awaitable[Any]]] = {
            "replay (read, check, decode, fold)": lambda: replay(log, decider, STREAM),
            "read_stream (read, check, decode)": lambda: _read(log),
            "fold only": lambda: asyncio.to_thread(decider.fold, recorded),
            "verify": lambda: log.verify(),
        }
        peer = min(events, PEER_EVENTS_MAX)
        with closing(_peer(directory, peer, options.seed)) as history:
            times = {name: [] for name in (*subjects, PEER)}  # type: dict[str, list[float]]
            for _ in range(options.runs):
                for name, subject in subjects.items():
                    times[name].append(await _timed(subject))
                times[PEER].append(history.replay_s())
    return [
        Measured(name, peer if name == PEER else events, times_s) for name, times_s in times.items()
    ]


PEER = "eventsourcing"


async def _timed(subject: Callable[[], Awaitable[Any]]) -> float:
    started_s = perf_counter()
    await subject()
    return perf_counter() - started_s


async def _fill(log: EventLog, events: Any) -> None:
    version, batch = 0, []
    for event in events:
        batch.append(event)
        if len(batch) == APPEND_EVENTS:
            version = (await log.append(STREAM, batch, version)).last_version
            batch = []
    if batch:
        await log.append(STREAM, batch, version)


async def _read(log: EventLog) -> list[Recorded[Any]]:
    found: list[Recorded[Any]] = []
    while batch := await log.read_stream(STREAM, len(found), BATCH_EVENTS):
        found += batch
    return found


def _peer(directory: Path, events: int, seed: int) -> Any:
    from bench.peers import DiaryHistory

    rng = random.Random(seed)
    return DiaryHistory(directory / "eventsourcing.db", [sentence(rng) for _ in range(events)])
