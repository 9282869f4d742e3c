"""The cost of encryption: the same store with and without, in turns, so that both see one machine.

Each run fills a new store with turns of a conversation, adds and searches one by one, closes it,
and activates the user from a new opening. Vectors and token states are hashed: no model runs.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from bench.hashed import HashedPieces
from bench.opened import DEADLINE_S, UNLIMITED_BYTES, at_rest
from bench.report import Options, Report, Table, disk_bytes, facts, scratch
from bench.workload import chat_turns
from memory_actors import Item, Limits, MemorySystem, Plan, Settings, Tier

USER = "user"
FILL_ITEMS = 500
TOP_K = 10
SETTINGS = Settings(
    live_bytes_max=UNLIMITED_BYTES,
    deadline_s=DEADLINE_S,
    tiers={Tier.LOCAL: Plan(limits=Limits(long_term_memories=1 << 30, long_term_bytes=1 << 40))},
)
NOTES = (
    "medians over runs; each number of one run is itself a median, but for the fill and activation",
    "hashed vectors and token states: no model runs, but what is stored is as large as a model's",
    "activation: from opening the user to the first answer of a search, states read from disk",
    "verify: every event, with its key",
)


class Run(NamedTuple):
    """One store, filled, used and opened again."""

    fill_per_s: float
    add_ms: float
    retrieve_ms: float
    activation_ms: float
    verify_ms: float
    log_mb: float
    derived_mb: float


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    began = perf_counter()
    await call()
    return (perf_counter() - began) * 1e3


async def measured(store: Path, memories: int, calls: int, seed: int, encrypt: bool) -> Run:
    """Fill a store and use it."""
    embedder = HashedPieces()
    turns = list(islice(chat_turns(seed), memories + 2 * calls))
    async with MemorySystem.open(
        store, embedder=embedder, settings=SETTINGS, alerts=[], encrypt=encrypt
    ) as memory:
        user = memory.user(USER)
        began = perf_counter()
        for start in range(0, memories, FILL_ITEMS):
            stop = min(start + FILL_ITEMS, memories)
            await user.add_many([Item(content=turn) for turn in turns[start:stop]])
        fill_s = perf_counter() - began
        await at_rest(memory, USER)
        adds = [await _timed(lambda t=turn: user.add(t)) for turn in turns[memories:-calls]]
        searches = [
            await _timed(lambda t=turn: user.retrieve(t, top_k=TOP_K)) for turn in turns[-calls:]
        ]
        await at_rest(memory, USER)
    async with MemorySystem.open(
        store, embedder=embedder, settings=SETTINGS, alerts=[], encrypt=encrypt
    ) as memory:
        activation = await _timed(lambda: memory.user(USER).retrieve(turns[0], top_k=TOP_K))
        verifying = await _timed(memory.verify)
    log, derived = (disk_bytes(store / name) / 1e6 for name in ("log.mdb", "derived.mdb"))
    middle = map(statistics.median, (adds, searches))
    return Run(memories / fill_s, *middle, activation, verifying, log, derived)


def run(memories: int, calls: int, options: Options) -> Report:
    """Measure both, in turns."""
    runs: dict[bool, list[Run]] = {False: [], True: []}
    with scratch(options) as directory:
        for number in range(options.runs):
            for encrypt in (False, True):
                store = directory / f"{number} {encrypt}"
                made = measured(store, memories, calls, options.seed + number, encrypt)
                runs[encrypt].append(asyncio.run(made))
        about = facts(directory, options, ("lmdb", "cryptography"), memories=memories, calls=calls)
    rows = [
        [name, *(statistics.median(column) for column in zip(*runs[encrypt], strict=True))]
        for encrypt, name in ((False, "in the clear"), (True, "encrypted"))
    ]
    rows.append(["times", *(b / a for a, b in zip(rows[0][1:], rows[1][1:], strict=True))])
    columns = [
        "store", "fill, memories/s", "add ms", "retrieve ms", "activation ms", "verify ms",
        "log MB", "derived MB",
    ]  # fmt: skip
    return Report("Encryption", about, [Table("The same store", columns, rows)], NOTES)
