"""Each path of the product beside the floor under it: the same work with nothing of ours.

A floor is the least that could do the same work on this machine: a commit of LMDB with one fsync, a
scan of the same table with CRC and SHA-256, the model's runtime alone on the same batches, hnswlib
(numpy, where that is not installed) on the same vectors, the bytes of the same files read once. All
are measured in this run. A ratio of 1 says that nothing is left to win there but by doing less.
"""

import asyncio
import hashlib
import random
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import lmdb
import numpy as np

from bench import starting
from bench.hashed import HashedPieces
from bench.opened import UNLIMITED_BYTES, at_rest, installed_model, live_user, opened
from bench.peers import append_lmdb
from bench.report import Options, Report, Table, facts, median, scratch
from bench.workload import added, chat_turns, unique_questions
from eventlog import EventLog, replay
from memory_actors import Item, Limits, Settings
from memory_actors.base.streams import stream_of
from memory_actors.kinds.user_state import user_decider
from memory_actors.search.embedding.batcher import cores
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.onnx_minilm import OnnxEmbedder, padded_inputs
from memory_actors.upkeep.store import event_registry

USER = "user"
STREAM = stream_of(USER)
SESSION_TURNS = 20
FILL_ITEMS = 1_000
FRAME_BYTES = 300
BATCH_EVENTS = 256
HNSW_M, HNSW_EF_CONSTRUCTION, HNSW_EF = 16, 100, 100
HAS_HNSWLIB = find_spec("hnswlib") is not None  # elsewhere it has to be compiled
NEAREST = {True: f"hnswlib alone, ef {HNSW_EF}", False: "one product of numpy (no hnswlib here)"}
TOP_K = 10
PACKAGES = ("lmdb", "numpy", "chroma-hnswlib", "onnxruntime")
COLUMNS = ["path", "unit", "ours", "the floor", "ours / floor", "the floor is"]
NOTES = (
    "medians of calls; of what is one call, and of add_many, the least of the runs",
    "all but add_many with hashed vectors and token states, as large as a model's",
    "activation, reopening: the modules are imported, and the files are in the page cache",
)


class Limit(NamedTuple):
    """A path, what it takes, and what the floor under it takes, in milliseconds of a unit."""

    path: str
    unit: str
    ours_ms: float
    floor_ms: float
    floor: str


def run(memories: int, calls: int, texts: int, options: Options) -> Report:
    """Measure every path and its floor."""
    model = installed_model()
    notes, starts = list(NOTES), list[Table]()
    with scratch(options) as directory:
        limits = asyncio.run(_appends(directory / "log", calls, options))
        if model is None:
            notes.append("add_many with the model: left out, the model is not installed")
        else:
            limits.append(asyncio.run(_ingest(directory / "ingest", model, texts, options)))
            starts.append(starting.table(directory / "starting", model.folder, options.runs))
        limits += asyncio.run(_of_a_store(directory / "store", memories, calls, options))
        about = facts(directory, options, PACKAGES, memories=memories, calls=calls, texts=texts)
    rows = [
        [one.path, one.unit, one.ours_ms, one.floor_ms, one.ours_ms / one.floor_ms, one.floor]
        for one in limits
    ]
    tables = [Table("Paths and floors, ms", COLUMNS, rows), *starts]
    return Report("Limits", about, tables, notes)


async def _times_ms(calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[float]:
    times_ms = []
    for call in calls:
        started_s = perf_counter()
        await call()
        times_ms.append((perf_counter() - started_s) * 1e3)
    return times_ms


def _took_ms(call: Callable[[], Any]) -> float:
    started_s = perf_counter()
    call()
    return (perf_counter() - started_s) * 1e3


# --- the log


async def _appends(directory: Path, calls: int, options: Options) -> list[Limit]:
    rng = random.Random(options.seed)
    content = "x" * (FRAME_BYTES - 150)  # the rest of the event takes 150
    limits = []
    for size in (1, BATCH_EVENTS):
        ours, raw = list[float](), list[float]()
        for number in range(options.runs):
            place = directory / f"{size} {number}"
            place.mkdir(parents=True)
            batches = [
                [added(f"mem_{rng.getrandbits(120):030x}", content, rng) for _ in range(size)]
                for _ in range(max(3, calls // size))
            ]
            async with EventLog.open(place / "ours", event_registry()) as log:
                at = enumerate(batches)
                ours += await _times_ms([partial(log.append, STREAM, b, size * n) for n, b in at])
            raw += _commits_ms(place / "raw.mdb", size, len(batches))
        unit = f"{size} event{'s' * (size > 1)}"
        floor = "LMDB: as many puts, one commit"
        limits.append(Limit("append", unit, median(ours), median(raw), floor))
    return limits


def _commits_ms(path: Path, size: int, commits: int) -> list[float]:
    frames = [[random.Random(size).randbytes(FRAME_BYTES)] * size] * commits
    return [time_s * 1e3 for time_s in append_lmdb(path, frames)]


# --- the model


async def _ingest(directory: Path, model: DefaultEmbedder, texts: int, options: Options) -> Limit:
    """Add turns with the model; the floor is its runtime alone, on all cores, best batches."""
    turns = list(islice(chat_turns(options.seed), texts))
    ours, floors = [], []
    for number in range(options.runs):
        async with opened(directory / f"{number}", model, _limits(texts)) as memory:
            user = memory.user(USER)
            await user.add_many([Item(content="The first text prepares all that others need.")])
            ours += await _times_ms([partial(user.add_many, list(_items(turns)))])
        floors.append(_took_ms(partial(_run_model, model._model(), turns)))  # noqa: SLF001
    floor = f"ONNX Runtime alone, {cores()} threads"
    return Limit("add_many, model", "text", min(ours) / texts, min(floors) / texts, floor)


def _run_model(model: OnnxEmbedder, texts: list[str]) -> None:
    session, outputs = model._session, ["pooled", "token_states"]  # noqa: SLF001
    inputs = [padded_inputs(batch) for _, batch in model._batches(texts)]  # noqa: SLF001
    with ThreadPoolExecutor(cores()) as threads:
        list(threads.map(lambda one: session.run(outputs, one), reversed(inputs)))


def _limits(memories: int) -> Limits:
    return Limits(long_term_memories=2 * memories + 10_000, long_term_bytes=UNLIMITED_BYTES)


def _items(texts: Sequence[str]) -> Iterator[Item]:
    for number, text in enumerate(texts):
        session, turn = divmod(number, SESSION_TURNS)
        role = ("user", "assistant")[turn % 2]
        yield Item(content=text, session_id=f"session {session}", role=role)


# --- a user's memories


async def _of_a_store(directory: Path, memories: int, calls: int, options: Options) -> list[Limit]:
    embedder, texts = HashedPieces(), chat_turns(options.seed)
    turns = list(islice(texts, memories))
    async with opened(directory, embedder, _limits(memories)) as memory:
        user, items = memory.user(USER), _items(turns)
        while batch := list(islice(items, FILL_ITEMS)):
            await user.add_many(batch)
        await at_rest(memory, USER)
        adds = median(await _times_ms([partial(user.add, text) for text in islice(texts, calls)]))
        questions = unique_questions(random.Random(options.seed))
        asked = list(islice(questions, calls))
        asks = median(await _times_ms([partial(user.retrieve, one) for one in asked]))
    commit = median(_commits_ms(directory / "add.mdb", 1, calls))
    nearest = _nearest_ms(embedder.embed(turns), embedder.embed(asked))
    return [
        Limit("add", "memory", adds, commit, "LMDB: one put, one commit"),
        Limit("retrieve", "query", asks, nearest, f"{NEAREST[HAS_HNSWLIB]}: one signal"),
        *await _reopened(directory, embedder, memories, options),
        *await _read_again(directory, options.runs),
    ]


def _nearest_ms(vectors: Any, queries: Any) -> float:
    if not HAS_HNSWLIB:
        return median([_took_ms(partial(np.dot, vectors, query)) for query in queries])
    import hnswlib

    index = hnswlib.Index("ip", vectors.shape[1])
    index.init_index(len(vectors), M=HNSW_M, ef_construction=HNSW_EF_CONSTRUCTION)
    index.add_items(vectors, np.arange(len(vectors)))
    index.set_ef(HNSW_EF)
    index.set_num_threads(1)
    return median([_took_ms(partial(index.knn_query, query[None], TOP_K)) for query in queries])


async def _reopened(
    directory: Path, embedder: HashedPieces, memories: int, options: Options
) -> list[Limit]:
    """Open the store again; the floor is to read each of its files once, but for the log."""
    activations, answers = [], []
    for _ in range(options.runs):
        started_s = perf_counter()
        async with opened(directory, embedder, _limits(memories)) as memory:
            opened_s = perf_counter()
            async with live_user(memory, USER):
                activations.append((perf_counter() - opened_s) * 1e3)
            await memory.user(USER).retrieve("what was said about it?")
            answers.append((perf_counter() - started_s) * 1e3)
    floor = min(_took_ms(partial(_read_derived, directory)) for _ in range(options.runs))
    what = "its vectors, words and snapshot read once"
    unit = f"{memories:,} memories"
    return [
        Limit("activation", unit, min(activations), floor, what),
        Limit("reopen to an answer", unit, min(answers), floor, what),
    ]


def _read_derived(store: Path) -> None:
    for path in (store / "indexes").rglob("*"):
        if path.is_file():
            path.read_bytes()
    for name in ("embeddings", "vectors", "segments"):
        _scan(store / "derived.mdb", name, bytes)
    _scan(store / "log.mdb", "snapshots", bytes)


async def _read_again(store: Path, runs: int) -> list[Limit]:
    """Replay and verify the log; the floor is one scan of its events, with the same checks."""
    decider = user_decider(Settings().limits_by_tier())
    async with EventLog.open(store, event_registry()) as log:
        folded = min(await _times_ms([partial(replay, log, decider, STREAM)] * runs))
        verified = min(await _times_ms([log.verify] * runs))
    path, events = store / "log.mdb", 0

    def check(frame: bytes) -> None:
        zlib.crc32(frame)
        hashlib.sha256(frame).digest()

    read = min(_took_ms(partial(_scan, path, "events", bytes)) for _ in range(runs))
    checked = min(_took_ms(partial(_scan, path, "events", check)) for _ in range(runs))
    events = _scan(path, "events", bytes)
    return [
        Limit("replay", f"{events:,} events", folded, read, "LMDB: one scan of the events"),
        Limit("verify", f"{events:,} events", verified, checked, "a scan, CRC-32 and SHA-256"),
    ]


def _scan(path: Path, table: str, use: Callable[[bytes], Any]) -> int:
    """Hand every value of a table to a function; return how many there are, 0 of no such table."""
    env = lmdb.open(str(path), subdir=False, readonly=True, lock=False, max_dbs=32, lib_version=0)
    with closing(env), env.begin() as txn:
        try:
            opened_table = env.open_db(table.encode(), txn=txn, create=False)
        except lmdb.NotFoundError:
            return 0
        count = 0
        for _, value in txn.cursor(opened_table):
            use(value)
            count += 1
        return count
