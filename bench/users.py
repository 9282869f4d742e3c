"""The weight of a live user, and the budget within which passivation keeps the sum.

The stores are filled in one process and read in others, one for each measurement, so that no heap
is shared. Counted are anonymous pages only: the pages of the log that LMDB has mapped belong to the
system's cache, and are given back when somebody needs them.
"""

import asyncio
import ctypes
import gc
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import structlog

from bench.hashed import HashedTokens
from bench.opened import timed_ms
from bench.report import Options, Report, Table, disk_bytes, facts, median, percentile, scratch
from bench.workload import metadata, sentence
from memory_actors import Item, MemorySystem, Settings
from memory_actors.base.streams import stream_of

UNLIMITED_BYTES = 1 << 40
BUDGET_SHARE = 10  # the small budget is this part of what all users together would hold
WARM_UP_USERS = 20
FILL_ITEMS = 500
PACKAGES = ("lmdb", "numpy", "immutables", "psutil")


class Weighed(msgspec.Struct, frozen=True):
    """The report of a process about itself after it activated every user."""

    grown_bytes: int
    """Anonymous memory, over that with the system open and a few users live."""
    peak_bytes: int
    """The most that users held at any time."""
    live: int
    live_bytes: int
    """The runtime's own estimate."""
    index_bytes: int
    """The bytes that the indexes of the live users say they hold."""
    passivations: int


class Worked(msgspec.Struct, frozen=True):
    """The report of a process about itself after it worked for random users, by default."""

    activation_ms: list[float]
    add_ms: list[float]
    retrieve_ms: list[float]
    """The latency for a user who may have to be activated first."""
    anonymous_bytes: int
    live: int
    passivations: int


def run(users: int, memories: Sequence[int], calls: int, options: Options) -> Report:
    """Weigh users with each number of memories; squeeze them into a small budget; use them."""
    weights, bounds, works, disks = [], [], [], []
    with scratch(options) as directory:
        for count in memories:
            store = directory / f"{count}"
            _child("fill", store, users, count, options.seed)
            runs = [_weigh(store, users, UNLIMITED_BYTES) for _ in range(options.runs)]
            weights.append(_weight_row(count, runs))
            budget = max(1, runs[0].live_bytes // BUDGET_SHARE)
            bounds.append(_bound_row(count, budget, _weigh(store, users, budget)))
            disks.append(_disk_row(store, users, count))
            works.append(_work_row(count, _work(store, users, calls, options.seed)))
        about = facts(directory, options, PACKAGES, users=users, calls=calls)
    return Report(
        "Users",
        about,
        [
            Table("All users live", WEIGHT_COLUMNS, weights),
            Table("A tenth of that as the budget, all users in turn", BOUND_COLUMNS, bounds),
            Table("What the estimate should be", FIT_COLUMNS, _fit(memories, weights)),
            Table("Random users at work, default budget", WORK_COLUMNS, works),
            Table("Disk", DISK_COLUMNS, disks),
        ],
        NOTES,
    )


WEIGHT_COLUMNS = [
    "memories", "KB a user", "fewest", "most", "estimated KB", "of that indexes", "estimate / real",
    "total MB",
]  # fmt: skip
BOUND_COLUMNS = ["memories", "budget MB", "peak MB", "believed MB", "live at the end", "left"]
WORK_COLUMNS = [
    "memories", "activation ms", "p99", "add ms", "p99", "retrieve ms", "p99", "process MB",
    "live at the end", "left",
]  # fmt: skip
DISK_COLUMNS = ["memories", "log MB", "derived MB", "indexes MB", "bytes a user", "bytes a memory"]
DISK_FILES = ("log.mdb", "derived.mdb", "indexes")
FIT_COLUMNS = ["memories", "bytes a user, without index", "bytes a memory, without index"]
NOTES = (
    "each user has one key of working memory and that many long-term memories; a hashed embedder",
    "grown anonymous memory of a fresh process that activated all users once, from the log",
    "bytes a user: BASE_BYTES of live_user.py, from the row with fewest memories",
    "bytes a memory: ROW_BYTES, from the growth against that row",
    "activation: of a user who is not live; add, retrieve: of any user, activated first if need be",
    "process MB: anonymous memory of all of the process when it is done",
)


def _weight_row(memories: int, runs: list[Weighed]) -> list[Any]:
    each = [weighed.grown_bytes / weighed.live for weighed in runs]
    first = runs[0]
    return [
        memories,
        median(each) / 1024,
        min(each) / 1024,
        max(each) / 1024,
        first.live_bytes / first.live / 1024,
        first.index_bytes / first.live / 1024,
        first.live_bytes / first.live / median(each),
        median([weighed.grown_bytes for weighed in runs]) / 2**20,
    ]


def _bound_row(memories: int, budget: int, weighed: Weighed) -> list[Any]:
    mib = 2**20
    return [
        memories,
        budget / mib,
        weighed.peak_bytes / mib,
        weighed.live_bytes / mib,
        weighed.live,
        weighed.passivations,
    ]


def _fit(memories: Sequence[int], weights: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the memory beyond the indexes' own estimate."""
    bare = [(row[1] - row[5]) * 1024 for row in weights]
    return [
        [count, left, (left - bare[0]) / (count - memories[0]) if count > memories[0] else None]
        for count, left in zip(memories, bare, strict=True)
    ]


def _work_row(memories: int, worked: Worked) -> list[Any]:
    times = (worked.activation_ms, worked.add_ms, worked.retrieve_ms)
    return [
        memories,
        *(percentile(found, percent) for found in times for percent in (50, 99)),
        worked.anonymous_bytes / 2**20,
        worked.live,
        worked.passivations,
    ]


def _disk_row(store: Path, users: int, memories: int) -> list[Any]:
    sizes = [disk_bytes(store / name) for name in DISK_FILES]
    each = sum(sizes) / (users + WARM_UP_USERS)
    return [
        memories,
        *(size / 2**20 for size in sizes),
        each,
        each / memories if memories else None,
    ]


def _work(store: Path, users: int, calls: int, seed: int) -> Worked:
    return msgspec.json.decode(_child("work", store, users, calls, seed), type=Worked)


def _weigh(store: Path, users: int, budget_bytes: int) -> Weighed:
    return msgspec.json.decode(_child("weigh", store, users, budget_bytes), type=Weighed)


def _child(what: str, *arguments: Any) -> bytes:
    command = [sys.executable, "-m", "bench.users", what, *map(str, arguments)]
    return subprocess.run(
        command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, check=True
    ).stdout


# --- the child


async def _fill(store: Path, users: int, memories: int, seed: int) -> None:
    rng = random.Random(seed)
    async with _open(store, 64 << 20) as memory:
        for number in range(users + WARM_UP_USERS):
            user = memory.user(f"user {number}")
            await user.working.set("topic", sentence(rng))
            for start in range(0, memories, FILL_ITEMS):
                count = min(FILL_ITEMS, memories - start)
                await user.add_many([_item(rng) for _ in range(count)])


def _item(rng: random.Random) -> Item:
    return Item(content=sentence(rng), metadata=metadata(rng))


async def _weighed(store: Path, users: int, budget_bytes: int) -> Weighed:
    async with _open(store, budget_bytes) as memory:
        for number in range(users, users + WARM_UP_USERS):  # code, caches, arenas that all share
            await memory.user(f"user {number}").working.items()
        before = memory.statistics().runtime
        start = peak = anonymous_bytes()
        for number in range(users):
            await memory.user(f"user {number}").working.items()
            if number % 50 == 0:
                peak = max(peak, anonymous_bytes(collect=False))
        end, after = anonymous_bytes(), memory.statistics().runtime
        warm = before.live if after.passivations == 0 else 0
        return Weighed(
            grown_bytes=end - start,
            peak_bytes=max(peak, end) - start + before.live_bytes,
            live=after.live - warm,
            live_bytes=after.live_bytes - (before.live_bytes if warm else 0),
            index_bytes=_index_bytes(memory, range(users)),
            passivations=after.passivations,
        )


def _index_bytes(memory: MemorySystem, numbers: Sequence[int]) -> int:
    runtime = memory._services.runtime  # noqa: SLF001 - the estimate in parts, to correct it
    streams = {stream_of(f"user {number}") for number in numbers}
    return sum(live.indexes.size_bytes for live in runtime.lives() if live.stream in streams)


def anonymous_bytes(*, collect: bool = True) -> int:
    """Return this process's own memory, with what the allocator holds back given back."""
    if collect:
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    info = psutil.Process().memory_info()
    return int(info.rss - getattr(info, "shared", 0))


async def _worked(store: Path, users: int, calls: int, seed: int) -> Worked:
    rng = random.Random(seed + 1)
    async with _open(store) as memory:
        runtime = memory._services.runtime  # noqa: SLF001 - who is live is not public
        for number in range(users, users + WARM_UP_USERS):
            await memory.user(f"user {number}").usage()
        order = rng.sample(range(users), users)  # all of them: the budget fills up
        first = [await timed_ms(memory.user(f"user {number}").usage()) for number in order]
        awake = {live.stream for live in runtime.lives()}
        asleep = [n for n in order if stream_of(f"user {n}") not in awake]
        again = [await timed_ms(memory.user(f"user {n}").usage()) for n in asleep[:calls]]
        anyone = [memory.user(f"user {rng.randrange(users)}") for _ in range(calls)]
        adds = [await timed_ms(user.add(sentence(rng) + sentence(rng))) for user in anyone]
        rng.shuffle(anyone)
        found = [await timed_ms(user.retrieve(sentence(rng))) for user in anyone]
        after = runtime.statistics()
        return Worked(
            activation_ms=again or first,
            add_ms=adds,
            retrieve_ms=found,
            anonymous_bytes=anonymous_bytes(),
            live=after.live,
            passivations=after.passivations,
        )


def _open(store: Path, budget_bytes: int | None = None) -> Any:
    settings = Settings() if budget_bytes is None else Settings(live_bytes_max=budget_bytes)
    return MemorySystem.open(store, embedder=HashedTokens(), settings=settings)


def _main(what: str, store: str, *numbers: str) -> None:
    first, *rest = map(int, numbers)
    if what == "fill":
        asyncio.run(_fill(Path(store), first, *rest))
    elif what == "work":
        worked = asyncio.run(_worked(Path(store), first, *rest))
        sys.stdout.buffer.write(msgspec.json.encode(worked))
    else:
        weighed = asyncio.run(_weighed(Path(store), first, *rest))
        sys.stdout.buffer.write(msgspec.json.encode(weighed))


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    _main(*sys.argv[1:])
