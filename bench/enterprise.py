"""One user at the enterprise limit: 100,000 long-term memories, and what that does to others.

The store is filled through `add_many`. Calls are timed in blocks, in turn; then each operation runs
beside a ticker, which says for how long the event loop, and with it every other user, stood still.
Activation, and the memory that it takes, are measured in fresh processes (see activation.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from bench.activation import COLD, WARM, Activated, activated
from bench.hashed import HashedTokens
from bench.opened import at_rest, live_user, opened, services_of, timed_ms
from bench.report import Options, Report, Table, disk_bytes, facts, median, percentile, scratch
from bench.stalls import Stalled, Ticker, ticking
from bench.subjects import Memories
from memory_actors import Item, Limits, MemorySystem
from memory_actors.base.quota import TIERS
from memory_actors.base.records import Tier
from memory_actors.base.streams import stream_of

USER, SMALL_USER = Memories.name, "small"
ADD_MANY = 1_000
WARM_UP_CALLS = 5
STALL_CALLS = 10  # of what is quick, in each run
IDLE_S = 1.0
PACKAGES = ("lmdb", "numpy", "immutables", "psutil")
STARTS = (
    ("snapshot, index file", WARM),
    ("snapshot, index file", COLD),
    ("snapshot, no index file", WARM),
    ("whole stream, index file", WARM),
)
FILES = ("log.mdb", "derived.mdb", "indexes")
Make = Callable[[], Awaitable[Any]]


def run(memories: int, calls: int, options: Options) -> Report:
    """Measure a user with that many memories."""
    with scratch(options) as directory:
        store = directory / "store"
        fill = asyncio.run(_fill(store, memories, options.seed))
        disk = _disk_rows(store, memories)
        starts = {
            start: [activated(store, USER, SMALL_USER, *start) for _ in range(options.runs)]
            for start in STARTS
        }
        latencies, stalls = asyncio.run(_use(store, memories, calls, options))
        about = facts(directory, options, PACKAGES, memories=memories, calls=calls)
    return Report(
        "Enterprise",
        about | {"embedder": "hashed with tokens", "tier": "enterprise"},
        [
            Table("Filling by add_many of 1,000", FILL_COLUMNS, [fill]),
            Table("Calls", CALL_COLUMNS, latencies),
            Table("How long the event loop stands still", STALL_COLUMNS, stalls),
            Table("Activation in a fresh process", START_COLUMNS, _start_rows(starts)),
            Table("Memory", WEIGHT_COLUMNS, [_weight_row(starts[STARTS[0]], memories)]),
            Table("Disk", DISK_COLUMNS, disk),
        ],
        NOTES,
    )


FILL_COLUMNS = ["memories", "s", "memories/s", "slowest ms", "longest stall ms", "at rest after s"]
CALL_COLUMNS = ["call", "p50 ms", "p99 ms", "best block's p50"]
STALL_COLUMNS = ["operation", "took ms", "stall ms", "longest stall ms", "loop CPU ms"]
START_COLUMNS = ["from", "files", "median ms", "fastest", "slowest", "stall ms", "loop CPU ms"]
WEIGHT_COLUMNS = [
    "bare process MB", "user MB", "peak MB", "estimated MB", "estimate / real", "bytes a memory",
]  # fmt: skip
DISK_COLUMNS = ["file", "MB", "bytes a memory"]
NOTES = (
    "hashed vectors and token states: everything but the model",
    "took, stall: medians; stall: the longest time in which no other task had a turn",
    "loop CPU: processor time of the loop's thread, free of the machine's noise; ticks cost 3 %",
    "nothing: a second in which nothing runs: its stall is the noise of the machine",
    "restore: of nine tenths of what was pruned",
    "index extended or rebuilt: in the background, until it is at rest",
    "cold files: put out of the page cache before",
    "user MB: anonymous memory that one activation adds; peak: while it goes on",
    "at rest after: the time from the last add until nothing is left to do",
)

# --- fill


def _limits(memories: int) -> Limits:
    limits = TIERS[Tier.ENTERPRISE].limits
    return msgspec.structs.replace(limits, long_term_memories=memories)


def _opened(store: Path, memories: int) -> AbstractAsyncContextManager[MemorySystem]:
    return opened(store, HashedTokens(), _limits(memories), Tier.ENTERPRISE)


async def _fill(store: Path, memories: int, seed: int) -> list[Any]:
    async with _opened(store, memories) as memory:
        await memory.user(SMALL_USER).add("Warms up the code.")
        subject = Memories(memory, _limits(memories), seed)
        await subject.user.set_tier(Tier.ENTERPRISE)
        started_s = perf_counter()
        found = await _add_all(subject, memories)
        filled_s = perf_counter()
        await at_rest(memory, USER)
        resting_s, took_s = perf_counter() - filled_s, filled_s - started_s
    slowest, stall = max(one.took_ms for one in found), max(one.stall_ms for one in found)
    return [memories, took_s, memories / took_s, slowest, stall, resting_s]


async def _add_all(subject: Memories, memories: int) -> list[Stalled]:
    found = []
    async with ticking() as ticker:
        while subject.held < memories:
            items = _items(subject, min(ADD_MANY, memories - subject.held))
            receipts, stalled = await ticker.watch(subject.user.add_many(items))
            for receipt in receipts:
                subject.note(receipt)
            found.append(stalled)
    return found


def _items(subject: Memories, count: int) -> list[Item]:
    return [Item(content=next(subject.texts), metadata=subject.metadata()) for _ in range(count)]


def _disk_rows(store: Path, memories: int) -> list[list[Any]]:
    sizes = [disk_bytes(store / name) for name in FILES]
    named = [*zip(FILES, sizes, strict=True), ("together", sum(sizes))]
    return [[name, size / 2**20, size / memories] for name, size in named]


# --- calls


async def _use(
    store: Path, memories: int, calls: int, options: Options
) -> tuple[list[list[Any]], list[list[Any]]]:
    async with _opened(store, memories) as memory:
        subject = Memories(memory, _limits(memories), options.seed + 1)
        await _take_over(memory, subject)
        latencies = await _in_turn(subject, calls, options.runs)
        async with ticking() as ticker:
            stalls = _Stalls(memory, subject, ticker)
            for _ in range(options.runs):
                await stalls.run()
    return latencies, stalls.rows()


async def _take_over(memory: MemorySystem, subject: Memories) -> None:
    """Learn what the user has, and make room for what is measured."""
    async with live_user(memory, USER) as live:
        subject.ids = dict.fromkeys(live.state.long_term.rows)
    for memory_id in list(subject.ids)[: min(ADD_MANY, subject.held // 4)]:
        await subject.user.delete(memory_id)
        del subject.ids[memory_id]
    await at_rest(memory, USER)


async def _in_turn(subject: Memories, calls: int, runs: int) -> list[list[Any]]:
    kinds: Mapping[str, Make] = {"add": subject.add, **subject.queries()}
    found: dict[str, list[list[float]]] = {name: [] for name in kinds}
    for _ in range(runs):
        for name, make in kinds.items():
            times = [await timed_ms(make()) for _ in range(WARM_UP_CALLS + max(1, calls // runs))]
            found[name].append(times[WARM_UP_CALLS:])
    return [_call_row(name, blocks) for name, blocks in found.items()]


def _call_row(name: str, blocks: list[list[float]]) -> list[Any]:
    together = [took_ms for block in blocks for took_ms in block]
    best = min(map(median, blocks))
    return [name, percentile(together, 50), percentile(together, 99), best]


# --- stalls


class _Stalls:
    """Runs each operation beside a ticker."""

    def __init__(self, memory: MemorySystem, subject: Memories, ticker: Ticker):
        self._memory = memory
        self._subject = subject
        self._ticker = ticker
        self._found: dict[str, list[Stalled]] = {}

    async def run(self) -> None:
        await self._watch("nothing", asyncio.sleep(IDLE_S))
        await self._quick()
        await self._whole()
        await self._prune()
        await self._background()

    def rows(self) -> list[list[Any]]:
        return [
            [
                name,
                median([one.took_ms for one in found]),
                median([one.stall_ms for one in found]),
                max(one.stall_ms for one in found),
                median([one.loop_ms for one in found]),
            ]
            for name, found in self._found.items()
        ]

    async def _watch(self, name: str, work: Awaitable[Any]) -> Any:
        result, stalled = await self._ticker.watch(work)
        self._found.setdefault(name, []).append(stalled)
        return result

    async def _quick(self) -> None:
        subject = self._subject
        for _ in range(STALL_CALLS):
            receipt = await self._watch("add", subject.add())
            await self._watch("delete", subject.undo(receipt))
            for name, make in subject.queries().items():
                await self._watch(name, make())

    async def _whole(self) -> None:
        user = self._subject.user
        await self._watch("list_memories (100)", user.list_memories(["long_term"], limit=100))
        async with live_user(self._memory, USER) as live:
            await self._watch("snapshot", live.snapshot())

    async def _prune(self) -> None:
        """Fill the user, let an add prune the oldest tenth, and bring most of that back."""
        subject = self._subject
        room = subject.full - await self._count()
        while room > 0:
            items = _items(subject, min(room, ADD_MANY))
            await self._watch("add_many (1,000 or the rest)", subject.user.add_many(items))
            room -= len(items)
        await at_rest(self._memory, USER)
        receipt = await self._watch("add that prunes a tenth", subject.add(auto_prune=True))
        gone = receipt.pruned[: len(receipt.pruned) * 9 // 10]
        await self._watch("restore", subject.user.restore(gone))
        subject.note(receipt)
        subject.ids |= dict.fromkeys(gone)

    async def _count(self) -> int:
        return (await self._subject.user.usage()).kinds["long_term"].count

    async def _background(self) -> None:
        """Let the index be made anew where that is due; then put the user away and back."""
        await self._watch("index extended or rebuilt", at_rest(self._memory, USER))
        runtime = services_of(self._memory).runtime
        await self._watch("passivation", runtime._passivate(stream_of(USER)))  # noqa: SLF001
        await self._watch("activation", self._subject.user.usage())


# --- rows


def _start_rows(starts: Mapping[tuple[str, str], Sequence[Activated]]) -> list[list[Any]]:
    rows = []
    for start, found in starts.items():
        times, stalls = [one.took_ms for one in found], [one.stall_ms for one in found]
        loop_ms = median([one.loop_ms for one in found])
        rows.append([*start, median(times), min(times), max(times), median(stalls), loop_ms])
    return rows


def _weight_row(found: Sequence[Activated], memories: int) -> list[Any]:
    mib = 2**20
    grown = median([one.grown_bytes for one in found])
    return [
        median([one.before_bytes for one in found]) / mib,
        grown / mib,
        median([one.peak_bytes for one in found]) / mib,
        found[0].live_bytes / mib,
        found[0].live_bytes / grown,
        grown / memories,
    ]
