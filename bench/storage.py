"""The size of one user's memories on the disk and in memory, part by part, by their number.

A store is filled with turns of a conversation, closed, and weighed: its tables by the pages that
LMDB says they have, the other files by their blocks. Then the user is activated from it in fresh
processes, which weigh themselves (see weigh.py).
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from typing import Any

import lmdb

from bench.hashed import HashedPieces
from bench.opened import UNLIMITED_BYTES, at_rest, opened
from bench.plots import Panel, check_matplotlib, size_lines
from bench.report import Options, Report, Table, disk_bytes, facts, median, scratch
from bench.weigh import PARTS, Weight, weighed
from bench.workload import chat_turns
from eventlog.lmdb.tables import TABLES
from memory_actors import Item, Limits
from memory_actors.search.embedding.rows import PLACES, ROWS

USER, SMALL_USER = "user", "small"
SMALL_MEMORIES = 20
SESSION_TURNS = 20
FILL_ITEMS = 1_000
DERIVED_TABLES = (PLACES, ROWS)
PACKAGES = ("lmdb", "numpy", "psutil")
EVENTS, LOOK_UP, SNAPSHOTS = "events", "log look-up", "snapshots"
EMBEDDINGS, WORDS = "embeddings", "keyword index"
FREE = "free pages"
DISK_PARTS = (EVENTS, LOOK_UP, SNAPSHOTS, EMBEDDINGS, WORDS, FREE)
DISK_COLUMNS = ["memories", *DISK_PARTS, "together", "MB"]
MEMORY_COLUMNS = [
    "memories", "resident", "anonymous", "fewest", "most", "estimated", "estimate / anonymous",
    "MB",
]  # fmt: skip
ESTIMATE_COLUMNS = ["memories", *PARTS]
NOTES = (
    "bytes a memory, but for MB; turns of 148 bytes and 38 tokens in the mean, 20 a session",
    "hashed vectors and token states: no model runs, but what is stored is as large as a model's",
    "log look-up: tables that find events by stream, version and key; free pages: kept for reuse",
    "embeddings: the vector and the token states of each text",
    "resident: growth of a fresh process that activates and searches, with mapped pages of files",
    "anonymous: without those pages, which the system may take back: median, fewest, most of runs",
    "estimated: what the runtime reckons with (`size_bytes`); token states in memory have a limit",
)


def run(sizes: Sequence[int], options: Options, drawn: Path | None = None) -> Report:
    """Weigh a user of each size; draw bytes a memory into a directory."""
    if drawn is not None:
        check_matplotlib()
    disks: list[list[Any]] = []
    weights: list[list[Weight]] = []
    with scratch(options) as directory:
        for size in sizes:
            store = directory / f"{size}"
            asyncio.run(_fill(store, size, options.seed))
            disks.append(_disk_row(store, size))
            weights.append([weighed(store, USER, SMALL_USER) for _ in range(options.runs)])
        about = facts(directory, options, PACKAGES, embedder=HashedPieces().fingerprint)
    report = Report("Storage", about, _tables(sizes, disks, weights), NOTES)
    if drawn is not None:
        size_lines(report, drawn, "bytes_a_memory", _panels(sizes, report))
    return report


def _tables(
    sizes: Sequence[int], disks: list[list[Any]], weights: Sequence[Sequence[Weight]]
) -> list[Table]:
    pairs = list(zip(sizes, weights, strict=True))
    return [
        Table("Disk, bytes a memory", DISK_COLUMNS, disks),
        Table("Memory, bytes a live memory", MEMORY_COLUMNS, [_memory_row(*one) for one in pairs]),
        Table("Of the estimate", ESTIMATE_COLUMNS, [_estimate_row(*one) for one in pairs]),
    ]


def _panels(sizes: Sequence[int], report: Report) -> list[Panel]:
    disk, memory, estimate = report.tables
    return [
        Panel("On the disk", "bytes a memory", sizes, _lines(disk, (*DISK_PARTS, "together"))),
        Panel(
            "In memory",
            "bytes a live memory",
            sizes,
            _lines(memory, ("anonymous", "estimated")) | _lines(estimate, PARTS),
        ),
    ]


def _lines(table: Table, columns: Sequence[str]) -> dict[str, list[float]]:
    places = {column: list(table.columns).index(column) for column in columns}
    return {column: [row[place] for row in table.rows] for column, place in places.items()}


# --- fill


async def _fill(store: Path, size: int, seed: int) -> None:
    limits = Limits(long_term_memories=max(size, SMALL_MEMORIES), long_term_bytes=UNLIMITED_BYTES)
    async with opened(store, HashedPieces(), limits) as memory:
        for user_id, number in ((SMALL_USER, SMALL_MEMORIES), (USER, size)):
            user, items = memory.user(user_id), islice(_items(user_id, seed), number)
            while batch := list(islice(items, FILL_ITEMS)):
                await user.add_many(batch)
            await at_rest(memory, user_id)


def _items(user_id: str, seed: int) -> Iterator[Item]:
    for number, text in zip(count(), chat_turns(seed + (user_id == SMALL_USER)), strict=False):
        session, turn = divmod(number, SESSION_TURNS)
        yield Item(
            content=text,
            metadata={"turn": turn},
            session_id=f"session {session}",
            role=("user", "assistant")[turn % 2],
        )


# --- disk


def _disk_row(store: Path, size: int) -> list[Any]:
    parts = disk_parts(store)
    total = sum(parts.values())
    return [size, *(parts[name] / size for name in DISK_PARTS), total / size, total / 2**20]


def disk_parts(store: Path) -> dict[str, int]:
    """Return bytes on the disk of each part of a closed store; together they are all of it."""
    log, derived = store / "log.mdb", store / "derived.mdb"
    tables, more = _table_bytes(log, TABLES), _table_bytes(derived, DERIVED_TABLES)
    known = {
        EVENTS: tables.pop("events"),
        SNAPSHOTS: tables.pop("snapshots"),
        LOOK_UP: sum(tables.values()),
        EMBEDDINGS: sum(more.values()),
        WORDS: _files(store, "*.words"),
    }
    return known | {FREE: disk_bytes(store) - sum(known.values())}


def _files(store: Path, pattern: str) -> int:
    return sum(map(disk_bytes, (store / "indexes").rglob(pattern)))


def _table_bytes(path: Path, tables: Sequence[str]) -> dict[str, int]:
    env = lmdb.open(str(path), subdir=False, readonly=True, lock=False, max_dbs=16, lib_version=0)
    with closing(env), env.begin() as txn:
        found = {}
        for name in tables:
            stat = txn.stat(env.open_db(name.encode(), txn=txn, create=False))
            pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
            found[name] = pages * stat["psize"]
    return found


# --- memory


def _memory_row(size: int, runs: Sequence[Weight]) -> list[Any]:
    anonymous = [one.anonymous_bytes for one in runs]
    estimated = sum(runs[0].parts.values())
    return [
        size,
        median([one.resident_bytes for one in runs]) / size,
        median(anonymous) / size,
        min(anonymous) / size,
        max(anonymous) / size,
        estimated / size,
        estimated / max(1.0, median(anonymous)),
        median(anonymous) / 2**20,
    ]


def _estimate_row(size: int, runs: Sequence[Weight]) -> list[Any]:
    return [size, *(runs[0].parts[name] / size for name in PARTS)]
