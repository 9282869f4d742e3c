"""Gain, cost and losses of compaction: half a year of one user's memories.

The corpus (corpus.py) is stored and its log shrunk, so that nothing is gained by free pages that
were there before. The store is weighed and searched, compacted, weighed and searched again; a copy
of it is compacted while its user goes on to add and search. Then the LoCoMo conversations, if there
are any (recall.py).
"""

import asyncio
import random
import shutil
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench.compaction.checks import Check, checked
from bench.compaction.recall import LOCOMO_NOTES, recall_tables
from bench.compaction.rows import (
    BUSY,
    CHECKS,
    RETRIEVES,
    STEPS,
    STORED,
    busy_rows,
    check_rows,
    draw,
    retrieve_rows,
    step_rows,
    stored_rows,
    weighed,
)
from bench.compaction.store import (
    AGE,
    Stopwatch,
    TimedSummarizer,
    item,
    opened,
    retrieve,
    traffic,
    watched,
)
from bench.corpus import Remembered, TopicEmbedder, corpus, end, questions
from bench.opened import at_rest, services_of, timed_ms
from bench.plots import check_matplotlib
from bench.report import Options, Report, Table, facts, scratch
from bench.workload import unique_sentences
from memory_actors import MemorySystem
from memory_actors.compaction.summarizers import Summarizer
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedder

USER = "user"
FILL_ITEMS = 1_000
IDLE_ROUNDS = 5  # of all queries: p99 of one round would be its second slowest call
PACKAGES = ("lmdb", "numpy", "onnxruntime")
SHRINKS_BY, FASTER_BY, SLOWER_BY = 0.7, 3.0, 2.0  # the aims
NOTES = (
    "stored bytes: blocks on the disk, with the store closed; the log was shrunk before, too",
    "retrieve: top 10, the query's embedding known, each query searched for once before",
    "busy: the user adds and searches, one after the other, as far as compaction lets them",
    "originals: of every summary, read back and compared with what was added",
    f"aims: stored bytes down by {SHRINKS_BY:.0%}, p50 {FASTER_BY:g} times as fast at 40,000",
    f"aim: p99 while compaction runs at most {SLOWER_BY:g} times the idle one",
)


def run(
    memories: int,
    calls: int,
    name: str,
    options: Options,
    *,
    locomo: Path | None = None,
    drawn: Path | None = None,
) -> Report:
    """Measure one user of that many memories; with `locomo` also what recall is left."""
    if drawn is not None:
        check_matplotlib()  # before minutes of measuring
    made = corpus(memories, options.seed)
    embedder: Embedder = TopicEmbedder(made) if name == "hashed" else DefaultEmbedder()
    with scratch(options) as directory:
        bench = _Bench(directory, made, embedder, calls, options)
        found = asyncio.run(bench.measure())
        recall = [] if locomo is None else asyncio.run(recall_tables(directory, locomo, embedder))
        about = facts(
            directory, options, PACKAGES, embedder=embedder.fingerprint, memories=memories,
            topics=len({one.topic for one in made}) - 1, calls=calls,
        )  # fmt: skip
    notes = (*NOTES, *(LOCOMO_NOTES if recall else ()))
    report = Report("Compaction", about, [*found.tables, *recall], notes, ok=found.exact)
    if drawn is not None:
        draw(report, drawn)
    return report


class Found(NamedTuple):
    """The measurements, and whether nothing was lost."""

    tables: list[Table]
    exact: bool


class _Bench:
    def __init__(
        self,
        directory: Path,
        made: Sequence[Remembered],
        embedder: Embedder,
        calls: int,
        options: Options,
    ):
        self._directory = directory
        self._made = made
        self._embedder = embedder
        self._calls = calls
        self._options = options
        self._queries = questions(len(made), options.seed, calls)
        self._texts: dict[str, str] = {}  # of all memories that were added, by id

    async def measure(self) -> Found:
        store, busy = self._directory / "store", self._directory / "busy"
        await self._fill(store)
        shutil.copytree(store, busy)
        before, slow = weighed(store), await self._retrieve_ms(store)
        steps, checks = await self._compact(store)
        after, fast = weighed(store), await self._retrieve_ms(store)
        traffic = await self._compact_busy(busy)
        exact = all(ok for _, ok, _ in checks)
        tables = [
            Table("Stored bytes", STORED, stored_rows(before, after)),
            Table("Retrieve, without the embedding", RETRIEVES, retrieve_rows(slow, fast)),
            Table("Calls while compaction runs", BUSY, traffic),
            Table("The job, step by step", STEPS, steps),
            Table("Nothing is lost", CHECKS, check_rows(checks)),
        ]
        return Found(tables, exact)

    def _open(
        self, store: Path, summarizer: Summarizer | None = None
    ) -> AbstractAsyncContextManager[MemorySystem]:
        return opened(store, self._embedder, end() + AGE, summarizer)

    async def _fill(self, store: Path) -> None:
        async with self._open(store) as memory:
            user = memory.user(USER)
            for start in range(0, len(self._made), FILL_ITEMS):
                batch = self._made[start : start + FILL_ITEMS]
                receipts = await user.add_many([item(one) for one in batch])
                for receipt, one in zip(receipts, batch, strict=True):
                    self._texts[receipt.memory_id] = one.text
            await at_rest(memory, USER)
            await services_of(memory).log.shrink(force=True)

    async def _retrieve_ms(self, store: Path) -> dict[str, list[float]]:
        async with self._open(store) as memory:
            user = memory.user(USER)
            await at_rest(memory, USER)
            for query in self._queries:
                await retrieve(user, query)
            timed = self._queries * self._options.runs
            return {
                name: [await timed_ms(retrieve(user, query, compressed)) for query in timed]
                for name, compressed in (("", True), (", without summaries", False))
            }

    # --- the job

    async def _compact(self, store: Path) -> tuple[list[list[Any]], list[Check]]:
        watch = Stopwatch()
        async with self._open(store, TimedSummarizer(watch)) as memory:
            with watched(watch, memory):
                started_s = perf_counter()
                report = await memory.compact(USER)
                took_s = perf_counter() - started_s
            found = await checked(memory.user(USER), memory, self._texts, report)
            await at_rest(memory, USER)
        return step_rows(watch, took_s), found

    async def _compact_busy(self, store: Path) -> list[list[Any]]:
        async with self._open(store) as memory:
            user = memory.user(USER)
            for query in self._queries:
                await retrieve(user, query)
            texts = unique_sentences(random.Random(f"busy {self._options.seed}"))
            idle = await traffic(user, self._queries, texts, self._idle)
            work = asyncio.create_task(memory.compact(USER))
            busy = await traffic(user, self._queries, texts, lambda _calls: not work.done())
            await work
        return busy_rows(idle, busy)

    def _idle(self, calls: int) -> bool:
        return calls < IDLE_ROUNDS * self._calls
