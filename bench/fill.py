"""The time of an add as the quota fills: the n-th add of each kind, for several n.

Each kind gets one user for each n, filled to one less. Then blocks of adds are made to each of them
in turn, so that a busy moment of the machine hits all alike; each add is taken back before the next
one, so all of them are the n-th. (A step cannot be taken back: its blocks end at the n-th.)

What an add does on the loop is then measured part by part, for what of it grows.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.hashed import HashedTokens
from bench.opened import at_rest, command_of, live_user, opened, services_of
from bench.report import Options, Report, Table, facts, median, percentile, scratch
from bench.subjects import (
    Documents,
    Entities,
    Episodes,
    Memories,
    Messages,
    Relationships,
    Sessions,
    Steps,
    Subject,
    WorkingKeys,
)
from memory_actors import Item, Limits, MemorySystem
from memory_actors.actors.asking import tentative
from memory_actors.kinds.account import AlertChanged

SUBJECTS: tuple[type[Subject], ...] = (
    WorkingKeys, Messages, Sessions, Memories, Entities, Relationships, Episodes, Steps, Documents,
)  # fmt: skip
ALERT_LIMIT = 100  # memories: the 80th add raises a warning
ALERT_NUMBERS = {79: "no", 80: "warning", 81: "no"}
PART_CALLS = 50
PACKAGES = ("lmdb", "numpy", "immutables")
LIMITS = Limits()


def run(marks: Sequence[int], calls: int, users: int, options: Options) -> Report:
    """Measure all kinds."""
    adds, parts = [], []
    with scratch(options) as directory:
        for make in SUBJECTS:
            bench = _Bench(directory / "store", calls, options)
            rows, more = asyncio.run(bench.measure(make, marks))
            adds += rows
            parts += more
        alerts = asyncio.run(_alerts(directory / "alerts", users, options))
        about = facts(
            directory, options, PACKAGES, calls=calls, embedder="hashed with tokens", users=users
        )
    return Report(
        "Fill",
        about,
        [
            Table("The n-th add, end to end", ADDS, adds),
            Table("What it does on the loop, us", PARTS, parts),
            Table("An add that raises an alert", ALERTS, alerts),
        ],
        NOTES,
    )


ADDS = ["kind", "n", "p50 ms", "p99 ms", "best block's p50", "n-th / first", "of the best blocks"]
PARTS = ["kind", "n", "decide", "fold", "alerts", "totals", "size", "receipt"]
ALERTS = ["n", "alert", "p50 ms", "p99 ms"]
NOTES = (
    "the last n of a kind is the largest that its default quota allows",
    "n-th / first: of the medians; the aim is 1.5 at most",
    "best block's p50: what it is when nothing else runs, and its ratio",
    "alerts: which thresholds the new use passes; totals: what is claimed of the global limits",
    "size: the estimate of the user's memory; receipt: how much of the quota is left",
)


def numbers(full: int, marks: Sequence[int]) -> list[int]:
    """Return for which n the n-th add is measured: at least two."""
    last = min(full, max(marks))
    below = [mark for mark in marks if mark < last]
    return [*(below or [max(1, last // 10)]), last]


class _Bench:
    def __init__(self, store: Path, calls: int, options: Options):
        self._store = store
        self._calls = calls
        self._runs = options.runs
        self._seed = options.seed

    async def measure(
        self, make: type[Subject], marks: Sequence[int]
    ) -> tuple[list[list[Any]], list[list[Any]]]:
        async with opened(self._store, HashedTokens()) as memory:
            at: dict[int, Subject] = {}
            for n in numbers(make(memory, LIMITS, 0).full, marks):
                at[n] = await self._filled(memory, make, n)
            blocks = await self._in_turn(at)
            parts = [await _parts(memory, subject, n) for n, subject in at.items()]
        return list(_rows(make.name, blocks)), parts

    async def _filled(self, memory: MemorySystem, make: type[Subject], n: int) -> Subject:
        subject = make(memory, LIMITS, self._seed, f"{make.name} {n}")
        await subject.fill(n - 1 if subject.undoes else n - self._runs * self._each(subject, n))
        await at_rest(memory, subject.user_id)
        return subject

    def _each(self, subject: Subject, n: int) -> int:
        calls = self._calls if subject.undoes else min(self._calls, n // 2)
        return max(1, calls // self._runs)

    async def _in_turn(self, at: dict[int, Subject]) -> dict[int, list[list[float]]]:
        found: dict[int, list[list[float]]] = {n: [] for n in at}
        for _ in range(self._runs):
            for n, subject in at.items():
                await _add_ms(subject)  # warms up
                each = range(self._each(subject, n))
                found[n].append([await _add_ms(subject) for _ in each])
        return found


async def _add_ms(subject: Subject) -> float:
    call = subject.add()
    started_s = perf_counter()
    receipt = await call
    took_ms = (perf_counter() - started_s) * 1e3
    subject.note(receipt)
    if subject.undoes:
        await subject.undo(receipt)
    return took_ms


def _rows(name: str, blocks: dict[int, list[list[float]]]) -> Iterator[list[Any]]:
    first: tuple[float, float] | None = None
    for n, found in blocks.items():
        together = [took_ms for block in found for took_ms in block]
        p50, best = percentile(together, 50), min(map(median, found))
        first = first or (p50, best)
        yield [name, n, p50, percentile(together, 99), best, p50 / first[0], best / first[1]]


# --- part by part


async def _parts(memory: MemorySystem, subject: Subject, n: int) -> list[Any]:
    services = services_of(memory)
    decider = services.decider
    assert decider.follow_up is not None
    follow_up = decider.follow_up
    async with live_user(memory, subject.user_id) as live:
        command = await command_of(live, subject.add())
        before, version = live.state, live.actor.version
        events = decider.decide(command, before)
        prepared = [services.log.registry.prepare(event, {}) for event in events]
        recorded = [
            tentative(live.stream, version + 1 + i, event, command.now_us)
            for i, event in enumerate(prepared)
        ]
        after = decider.fold(recorded, before)

        def sizes() -> None:
            live._sized = None  # noqa: SLF001 - as after each change
            _ = live.size_bytes

        kinds = after.changed(before)
        limits = services.limits[None]
        return [
            subject.name,
            n,
            _us(lambda: decider.decide(command, before)),
            _us(lambda: decider.fold(recorded, before)),
            _us(lambda: follow_up(before, after)),
            _us(lambda: live.release(live.admit(before, after))),
            _us(sizes),
            _us(lambda: [kind.quotas(after.of(kind), limits, None) for kind in kinds]),
        ]


def _us(call: Callable[[], object]) -> float:
    times = []
    for _ in range(PART_CALLS):
        started_s = perf_counter()
        call()
        times.append((perf_counter() - started_s) * 1e6)
    return median(times)


# --- alerts


async def _alerts(store: Path, users: int, options: Options) -> list[list[Any]]:
    """Return a row for each add around the one that passes a threshold."""
    times: dict[int, list[float]] = {n: [] for n in ALERT_NUMBERS}
    limits = Limits(long_term_memories=ALERT_LIMIT)
    async with opened(store, HashedTokens(), limits) as memory:
        for number in range(users):
            subject = Memories(memory, limits, options.seed, f"user {number}")
            start = min(ALERT_NUMBERS) - 1
            items = [Item(content=next(subject.texts)) for _ in range(start)]
            await subject.user.add_many(items)
            for n in ALERT_NUMBERS:
                call = subject.add()
                started_s = perf_counter()
                await call
                times[n].append((perf_counter() - started_s) * 1e3)
        await _check_alerts(memory, users)
    return [
        [n, ALERT_NUMBERS[n], percentile(found, 50), percentile(found, 99)]
        for n, found in times.items()
    ]


async def _check_alerts(memory: MemorySystem, users: int) -> None:
    """Make sure that what was timed did raise one alert for each user."""
    log, raised, after = services_of(memory).log, 0, 0
    while batch := await log.read_all(after):
        raised += sum(isinstance(recorded.data, AlertChanged) for recorded in batch)
        after = batch[-1].position
    assert raised == users, f"{raised} alerts of {users} users"
