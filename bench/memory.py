"""The time of every operation on a user's memory, at several sizes.

Each size gets a store of its own with one user. The calls are made one after another in blocks,
the blocks in turn, so that a busy moment of the machine hits all of them alike. Every text that is
added or searched for is new, so no cache of vectors helps. Then the store is copied and opened
afresh to time the activation: whole, without the files of the index, and without its snapshot.
"""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.hashed import HashedEmbedder
from bench.opened import services_of
from bench.report import Options, Report, Table, facts, median, percentile, scratch
from bench.workload import CATEGORIES, metadata, unique_questions, unique_sentences
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.tables import TABLES, scan
from memory_actors import Item, Limits, MemorySystem, Plan, Receipt, Settings, Tier
from memory_actors.base.quota import GIB
from memory_actors.base.streams import stream_of
from memory_actors.kinds import long_term
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedder

USER = "user 1"
FILL_ITEMS = 200
WARM_UP_CALLS = 5
MESSAGES = 20  # kept in the session: what `messages` returns
WORKING_KEYS = 20
PACKAGES = ("lmdb", "numpy", "onnxruntime", "tokenizers")
DAMAGE: dict[str, Callable[[Path], None]] = {}
"""The changes to the copy of a store before it is opened, by name."""


def run(sizes: Sequence[int], calls: int, without_model: bool, options: Options) -> Report:
    """Measure all sizes, with the model and without."""
    embedders: dict[str, Embedder] = {"hashed": HashedEmbedder()}
    if not without_model:
        embedders = {"MiniLM": DefaultEmbedder(), **embedders}
    latencies, activations, fills = [], [], []
    with scratch(options) as directory:
        for name, embedder in embedders.items():
            embedder.embed(["The model is loaded by the first text."])
            for size in sizes:
                store = directory / f"{name} {size}"
                fill, rows = asyncio.run(_use(store, embedder, size, calls, options))
                fills.append([name, size, fill])
                latencies += [[name, size, *row] for row in rows]
                activations += [
                    [name, size, *row] for row in _activations(store, embedder, options.runs)
                ]
                shutil.rmtree(store)
        about = facts(directory, options, PACKAGES, calls=calls)
    lead = ("embedder", "memories")
    return Report(
        "Memory",
        about,
        [
            Table("Calls", [*lead, "call", "p50 ms", "p99 ms", "best block's p50"], latencies),
            Table("add_many of 200, from empty", [*lead, "texts/s"], fills),
            Table("Activation", [*lead, "from", "median ms", "fastest", "slowest"], activations),
        ],
        NOTES,
    )


NOTES = (
    "MiniLM: end to end with the model; hashed: everything but the model",
    "p50 and p99: over all calls; best block's p50: what it is when nothing else runs",
    "activation: in a process that is warm, from files in the page cache",
)


# --- calls


async def _use(
    store: Path, embedder: Embedder, size: int, calls: int, options: Options
) -> tuple[float, list[list[Any]]]:
    async with _open(store, embedder) as memory:
        desk = Desk(memory, random.Random(options.seed))
        started_s = perf_counter()
        await desk.fill(size)
        rate = size / (perf_counter() - started_s)
        await _indexed(memory)
        for make in desk.calls().values():
            for _ in range(WARM_UP_CALLS):
                await desk.timed_ms(make)
        blocks = await _in_turn(desk, calls, options.runs)
        await _indexed(memory)
    rows = []
    for name, times_ms in blocks.items():
        together = [time_ms for block in times_ms for time_ms in block]
        best = min(median(block) for block in times_ms)
        rows.append([name, percentile(together, 50), percentile(together, 99), best])
    return rate, rows


async def _in_turn(desk: "Desk", calls: int, runs: int) -> dict[str, list[list[float]]]:
    kinds, each = desk.calls(), max(1, calls // runs)
    found: dict[str, list[list[float]]] = {name: [] for name in kinds}
    for _ in range(runs):
        for name, make in kinds.items():
            found[name].append([await desk.timed_ms(make) for _ in range(each)])
    return found


class Desk:
    """A user at work: makes calls with arguments that are drawn before the clock starts."""

    def __init__(self, memory: MemorySystem, rng: random.Random):
        self._user = memory.user(USER, session_id="session 1")
        self._embeddings = services_of(memory).embeddings
        self._rng = rng
        self._texts = unique_sentences(rng)
        self._questions = unique_questions(rng)
        self._ids: list[str] = []

    async def fill(self, size: int) -> None:
        """Add that many memories."""
        for start in range(0, size, FILL_ITEMS):
            items = [self._item() for _ in range(min(FILL_ITEMS, size - start))]
            self._ids += [receipt.memory_id for receipt in await self._user.add_many(items)]

    def calls(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        """Return the function for each call, by name. As many memories are added as deleted."""
        user, rng = self._user, self._rng
        return {
            "working.set": lambda: user.working.set(self._key(), rng.random()),
            "working.get": lambda: user.working.get(self._key()),
            "short_term.add_message": lambda: user.short_term.add_message(next(self._texts)),
            f"short_term.messages (last {MESSAGES})": lambda: user.short_term.messages(
                last=MESSAGES
            ),
            "embedding of a text": lambda: self._embed(self._texts),
            "add (long-term)": lambda: user.add(next(self._texts), metadata=metadata(rng)),
            "embedding of a question": lambda: self._embed(self._questions),
            "retrieve (long-term)": lambda: self._retrieve(None),
            "retrieve, filter of 10 %": lambda: self._retrieve(
                {"category": f"category {rng.randrange(CATEGORIES)}"}
            ),
            "get": lambda: user.get(rng.choice(self._ids)),
            "update": lambda: user.update(rng.choice(self._ids), content=next(self._texts)),
            "delete": lambda: user.delete(self._ids.pop(rng.randrange(len(self._ids)))),
        }

    async def timed_ms(self, make: Callable[[], Awaitable[Any]]) -> float:
        """Make one call and return how long it took."""
        call = make()
        started_s = perf_counter()
        result = await call
        took_ms = (perf_counter() - started_s) * 1e3
        if isinstance(result, Receipt) and (result.operation, result.memory_type) == ADDED:
            self._ids.append(result.memory_id)
        return took_ms

    def _embed(self, texts: Iterator[str]) -> Awaitable[Any]:
        return self._embeddings.embed([next(texts)])

    def _retrieve(self, filters: dict[str, str] | None) -> Awaitable[Any]:
        return self._user.retrieve(
            next(self._questions), memory_types=["long_term"], top_k=10, filters=filters
        )

    def _item(self) -> Item:
        return Item(content=next(self._texts), metadata=metadata(self._rng))

    def _key(self) -> str:
        return f"key {self._rng.randrange(WORKING_KEYS)}"


ADDED = ("add", "long_term")


# --- activation


def _activations(store: Path, embedder: Embedder, runs: int) -> list[list[Any]]:
    times: dict[str, list[float]] = {name: [] for name in DAMAGE}
    for _ in range(runs):
        for name, damage in DAMAGE.items():
            copy = store.with_name("copy")
            shutil.copytree(store, copy)
            damage(copy)
            times[name].append(asyncio.run(_activation_ms(copy, embedder)))
            shutil.rmtree(copy)
    return [[name, median(found), min(found), max(found)] for name, found in times.items()]


async def _activation_ms(store: Path, embedder: Embedder) -> float:
    async with _open(store, embedder) as memory:
        started_s = perf_counter()
        await memory.user(USER).usage()  # the first call of a user activates it
        return (perf_counter() - started_s) * 1e3


def _leave(_store: Path) -> None:
    """Leave everything as it is."""


def _drop_indexes(store: Path) -> None:
    for path in (store / "indexes").iterdir():
        path.unlink()


def _drop_snapshots(store: Path) -> None:
    env = Environment(store / "log.mdb", TABLES)
    with env.read() as txn:
        keys = [key for key, _ in scan(txn, "snapshots", b"")]
    env.write(lambda txn: [txn.delete(key, db=txn.tables["snapshots"]) for key in keys])
    env.close()


def _drop_both(store: Path) -> None:
    _drop_indexes(store)
    _drop_snapshots(store)


DAMAGE |= {
    "snapshot, index file": _leave,
    "snapshot, no index file": _drop_indexes,
    "whole stream, index file": _drop_snapshots,
    "whole stream, no index file": _drop_both,
}


# --- the store


@asynccontextmanager
async def _open(store: Path, embedder: Embedder) -> AsyncIterator[MemorySystem]:
    plan = Plan(limits=Limits(long_term_memories=1_000_000, long_term_bytes=GIB))
    settings = Settings(tiers={Tier.LOCAL: plan})
    async with MemorySystem.open(store, embedder=embedder, settings=settings, alerts=[]) as memory:
        yield memory


async def _indexed(memory: MemorySystem) -> None:
    """Wait until the index is at rest, so that a graph that is being built disturbs nothing."""
    services = memory._services  # noqa: SLF001 - no caller needs to know when an index is at rest
    async with services.runtime.use(stream_of(USER)) as live:
        index = live.indexes.get(long_term.KIND)
        while index is not None and index.rows.wants_maintenance:
            index.maintain()  # starts the maintenance, if it is not under way
            await asyncio.sleep(0.01)
