"""The time from opening a memory over PostgreSQL to the first answer about a user of many memories.

One node has written the memories and closed. Another opens, in turn with

    its own files     those of the node that wrote, as they were left
    an empty folder   everything comes from the database
    no index file     the same, and the database has the embeddings alone: the index is built again

and the embedder counts what it is given: it must be the query alone.
"""

import asyncio
import gc
import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench.corpus import corpus, questions
from bench.hashed import HashedPieces
from bench.opened import DEADLINE_S, UNLIMITED_BYTES
from bench.postgres import served
from bench.report import Options, Report, Table, facts, median, scratch
from eventlog import EventStore, PgEventStore
from eventlog.core.frame import stream_id
from eventlog.postgres import database
from eventlog.postgres.database import DatabasePlace, connect
from memory_actors import Item, Settings
from memory_actors.api.parts import StoreParts
from memory_actors.api.system import MemorySystem
from memory_actors.api.wiring import wired
from memory_actors.base.streams import stream_of
from memory_actors.upkeep.store import event_registry

USER = "ada"
ITEMS = 500  # added at once
FILES, EMPTY, NO_INDEX = "its own files", "an empty folder", "no index file"
NO_FILES = "DELETE FROM derived WHERE sid = %b AND substr(name, 1, 1) = 'f'"
NOTES = (
    "opening: of the system, without the imports; first answer: activation and the first search",
    "medians over the runs; texts embedded: by the first search, the query included",
    "no index file: the first answer waits for what is being indexed, as after any crash",
)


class Counting(HashedPieces):
    """Counts the texts that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def encode(self, texts: Sequence[str]) -> list[Any]:
        """Return the vectors of texts with the states of their words."""
        self.texts += len(texts)
        return super().encode(texts)


class Taken(NamedTuple):
    """What a takeover took."""

    opening_ms: float
    first_ms: float
    texts: int


def run(memories: int, options: Options, url: str | None) -> Report:
    """Measure all of them, in turn."""
    found: dict[str, list[Taken]] = {}
    with scratch(options) as directory, served(directory, url) as base:
        place = f"{base}?schema=takeover_{secrets.token_hex(4)}"
        query = questions(memories, options.seed, 1)[0]
        asyncio.run(_write(place, directory / "one", memories, options.seed))
        for state in (FILES, EMPTY, NO_INDEX):
            for number in range(options.runs):
                node = directory / f"node-{number}"
                if state == FILES:
                    shutil.copytree(directory / "one", node)
                if state == NO_INDEX:
                    asyncio.run(_forget_index(place))
                gc.collect()
                found.setdefault(state, []).append(asyncio.run(_take(place, node, query)))
                shutil.rmtree(node)
        about = facts(directory, options, ("psycopg", "lmdb"), memories=memories)
    rows = [[state, *map(median, zip(*taken, strict=True))] for state, taken in found.items()]
    columns = ["a node with", "opening ms", "first answer ms", "texts embedded"]
    return Report("Takeover", about, [Table("To the first answer", columns, rows)], NOTES)


@asynccontextmanager
async def _node(url: str, directory: Path, embedder: Counting) -> AsyncIterator[MemorySystem]:
    @asynccontextmanager
    async def open_log(_directory: Any, keys: Any, clock: Any, _: Any) -> AsyncIterator[EventStore]:
        async with PgEventStore.open(url, event_registry(), clock=clock, keys=keys) as log:
            yield log

    settings = Settings(
        live_bytes_max=UNLIMITED_BYTES, deadline_s=DEADLINE_S, latency_targets_ms={}
    )
    parts = StoreParts(settings=settings, embedder=embedder, supersedes=False, alerts=[])
    directory.mkdir(exist_ok=True)
    async with AsyncExitStack() as held:
        made = await wired(directory, parts, held, ExitStack(), open_log)
        yield MemorySystem(made, AsyncExitStack())


async def _write(url: str, directory: Path, memories: int, seed: int) -> None:
    items = [Item(content=one.text, occurred_at=one.occurred_at) for one in corpus(memories, seed)]
    async with _node(url, directory, Counting()) as memory:
        for start in range(0, memories, ITEMS):
            await memory.user(USER).add_many(items[start : start + ITEMS])


async def _forget_index(url: str) -> None:
    connection = await connect(DatabasePlace.parse(url))
    await database.run(connection, NO_FILES, [stream_id(stream_of(USER))])
    await connection.close()


async def _take(url: str, directory: Path, query: str) -> Taken:
    embedder, times_s = Counting(), [perf_counter()]
    async with _node(url, directory, embedder) as memory:
        times_s.append(perf_counter())
        embedder.texts = 0
        hits = await memory.user(USER).retrieve(query)
        times_s.append(perf_counter())
        assert hits
    opened_s, answered_s = times_s[1] - times_s[0], times_s[2] - times_s[1]
    return Taken(1000 * opened_s, 1000 * answered_s, embedder.texts)
