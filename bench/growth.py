"""Curves of growth: one user of more and more memories, and more and more users of a few each.

A store of each size is filled, closed and weighed on the disk. A fresh process says what its last
user takes in memory (see weigh.py). Then it is opened here, and that user is activated, asked and
added to.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.hashed import HashedPieces
from bench.opened import UNLIMITED_BYTES, at_rest, live_user, opened
from bench.plots import Panel, check_matplotlib, size_lines
from bench.report import Options, Report, Table, disk_bytes, facts, median, scratch
from bench.weigh import weighed
from bench.workload import chat_turns, unique_questions
from memory_actors import Item, Limits
from memory_actors.cli.output import progress_bar

FILL_ITEMS = 1_000
SESSION_TURNS = 20
MEMORIES_A_USER = 20
SMALL = "small"
"""A user who warms up code and caches."""
FIGURES = ("disk KB", "memory KB", "activation ms", "add ms", "retrieve ms")
PACKAGES = ("lmdb", "numpy")
NOTES = (
    "disk: all files of the closed store; a small user of 20 is among them",
    "memory: anonymous, of the one user that is activated and asked, in a fresh process",
    "times: of that user; add and retrieve are medians; hashed vectors, no model runs",
)


def run(
    sizes: Sequence[int], users: Sequence[int], calls: int, options: Options, drawn: Path | None
) -> Report:
    """Grow a user to each size, and stores to each number of users; draw both."""
    if drawn is not None:
        check_matplotlib()
    with scratch(options) as directory:
        one = [asyncio.run(_grown(directory / f"m{n}", 1, n, calls, options)) for n in sizes]
        many = [
            asyncio.run(_grown(directory / f"u{n}", n, MEMORIES_A_USER, calls, options))
            for n in users
        ]
        about = facts(directory, options, PACKAGES, calls=calls)
    tables = [
        Table("One user, by memories; KB a memory", ["memories", *FIGURES], _rows(sizes, one)),
        Table(
            "Users of 20 memories, by their number; KB a user",
            ["users", *FIGURES],
            _rows(users, many, activated=1),
        ),
    ]
    report = Report("Growth", about, tables, NOTES)
    if drawn is not None:
        for table, xs, name in ((tables[0], sizes, "memories"), (tables[1], users, "users")):
            size_lines(report, drawn, f"growth_by_{name}", panels(table, xs))
    return report


def _rows(
    sizes: Sequence[int], found: Sequence[Sequence[float]], activated: int | None = None
) -> list[list[Any]]:
    """Return rows, with the disk and the memory of each; `activated`: of so many, None: of all."""
    return [
        [size, disk / size / 1e3, memory / (activated or size) / 1e3, *times]
        for size, (disk, memory, *times) in zip(sizes, found, strict=True)
    ]


def panels(table: Table, sizes: Sequence[int]) -> list[Panel]:
    """Return the panels of a table: one of sizes in KB, one of times."""
    by_column = dict(zip(table.columns, zip(*table.rows, strict=True), strict=True))
    return [
        Panel(
            table.title if unit == "KB" else table.title.partition(";")[0],
            unit,
            sizes,
            {name: by_column[name] for name in FIGURES if name.endswith(unit)},
            table.columns[0],
            logarithmic=unit == "ms" and table.columns[0] == "memories",
        )
        for unit in ("KB", "ms")
    ]


async def _grown(
    store: Path, users: int, memories: int, calls: int, options: Options
) -> list[float]:
    limits = Limits(long_term_memories=memories + 10_000, long_term_bytes=UNLIMITED_BYTES)
    texts = chat_turns(options.seed)
    last = f"user {users - 1}"
    async with opened(store, HashedPieces(), limits) as memory:
        await memory.user(SMALL).add_many([*_items(texts, MEMORIES_A_USER)])
        with progress_bar(f"{users} x {memories:,} memories", quiet=False) as moved:
            for number in range(users):
                user, items, done = memory.user(f"user {number}"), _items(texts, memories), 0
                while some := [*islice(items, FILL_ITEMS)]:
                    done += len(await user.add_many(some))
                    moved(number * memories + done, users * memories)
        await at_rest(memory, last)
    disk, grown = disk_bytes(store), weighed(store, last, SMALL).anonymous_bytes
    async with opened(store, HashedPieces(), limits) as memory:
        await memory.user(SMALL).retrieve("what was said first?")
        started_s = perf_counter()
        async with live_user(memory, last):
            activation_ms = (perf_counter() - started_s) * 1e3
        user = memory.user(last)
        questions = islice(unique_questions(random.Random(options.seed)), calls)
        asked = await _median_ms([partial(user.retrieve, question) for question in questions])
        added = await _median_ms([partial(user.add, text) for text in islice(texts, calls)])
    return [disk, grown, activation_ms, added, asked]


def _items(texts: Iterator[str], memories: int) -> Iterator[Item]:
    """Yield the memories of a user, one at a time: a million of them at once take 380 MB."""
    for number, text in enumerate(islice(texts, memories)):
        yield Item(content=text, session_id=f"session {number // SESSION_TURNS}")


async def _median_ms(calls: Sequence[Callable[[], Awaitable[Any]]]) -> float:
    times_ms = []
    for call in calls:
        started_s = perf_counter()
        await call()
        times_ms.append((perf_counter() - started_s) * 1e3)
    return median(times_ms)
