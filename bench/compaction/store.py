"""The store that is compacted: opened at a time to come, used by its user, and timed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from time import monotonic_ns, perf_counter
from typing import Any
from unittest.mock import patch

from bench.corpus import Remembered
from bench.opened import UNLIMITED_BYTES, services_of, timed_ms
from eventlog.core.records import to_us
from memory_actors import Hit, Item, Limits, Memory, MemorySystem, Plan, Settings, Tier
from memory_actors.api.user import UserMemory
from memory_actors.compaction import selection
from memory_actors.compaction.summarizers import Cluster, ExtractiveSummarizer, Summarizer
from memory_actors.search.embedding.protocol import Embedder
from memory_actors.users.handles.long_term import LongTermMemory

AGE = timedelta(days=100)  # of the youngest memory: older than the 90 days after which it is old
PAUSE_S = 0.01  # between two calls of the user's while compaction runs
TOP_K = 10
LIST_ITEMS = 1_000
COMPRESSED = "compressed"
_ORIGIN_NS = monotonic_ns()


@asynccontextmanager
async def opened(
    store: Path, embedder: Embedder, now: datetime, summarizer: Summarizer | None = None
) -> AsyncIterator[MemorySystem]:
    """Open a store at a time to come: then all that is in it is old."""
    limits = Limits(long_term_memories=10_000_000, long_term_bytes=UNLIMITED_BYTES)
    settings = Settings(
        tiers={Tier.LOCAL: Plan(limits=limits)}, live_bytes_max=UNLIMITED_BYTES, deadline_s=600.0
    )
    async with MemorySystem.open(
        store, embedder=embedder, clock=clock(now), settings=settings, alerts=[],
        summarizer=summarizer,
    ) as memory:  # fmt: skip
        yield memory


def clock(now: datetime) -> Callable[[], int]:
    """Return a clock that shows a given time now and goes on from there."""
    start_us = to_us(now)
    return lambda: start_us + (monotonic_ns() - _ORIGIN_NS) // 1_000


def item(one: Remembered) -> Item:
    """Return a memory of the corpus as it is added."""
    return Item(content=one.text, occurred_at=one.occurred_at, session_id=one.session_id)


def retrieve(user: UserMemory, query: str, compressed: bool = True) -> Awaitable[list[Hit]]:
    """Search as everything here does."""
    return user.retrieve(query, memory_types=["long_term"], top_k=TOP_K, compressed=compressed)


async def traffic(
    user: UserMemory, queries: Sequence[str], texts: Iterator[str], go_on: Callable[[int], bool]
) -> dict[str, list[float]]:
    """Add and search in turn until told to stop; return how long each call took."""
    times: dict[str, list[float]] = {"add": [], "retrieve": []}
    for number, query in enumerate(cycle(queries)):
        if not go_on(number):
            return times
        times["add"].append(await timed_ms(user.add(next(texts))))
        times["retrieve"].append(await timed_ms(retrieve(user, query)))
        await asyncio.sleep(PAUSE_S)
    return times


async def all_of(user: UserMemory) -> list[Memory]:
    """Return all long-term memories of a user, summaries among them."""
    found: list[Memory] = []
    while page := await user.list_memories(["long_term"], limit=LIST_ITEMS, offset=len(found)):
        found += page
    return found


# --- how long each step takes


class Stopwatch:
    """Adds up how long each step takes, waiting included."""

    def __init__(self) -> None:
        self.took_s: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    @contextmanager
    def lap(self, name: str) -> Iterator[None]:
        """Time a block."""
        started_s = perf_counter()
        try:
            yield
        finally:
            self.took_s[name] += perf_counter() - started_s
            self.calls[name] += 1

    def timed(self, name: str, work: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        """Return a coroutine function that is timed."""

        async def call(*arguments: Any, **more: Any) -> Any:
            with self.lap(name):
                return await work(*arguments, **more)

        return call


class TimedSummarizer:
    """The default summariser, timed."""

    def __init__(self, watch: Stopwatch):
        summarizer = ExtractiveSummarizer()
        self.name = summarizer.name
        self.summarize: Callable[[Cluster], Awaitable[str]] = watch.timed(
            "summarise", summarizer.summarize
        )


@contextmanager
def watched(watch: Stopwatch, memory: MemorySystem) -> Iterator[None]:
    """Time what the job calls, looking behind the public API."""
    services, plain = services_of(memory), selection.dbscan

    def dbscan(*arguments: Any, **more: Any) -> Any:
        with watch.lap("cluster"):
            return plain(*arguments, **more)

    with ExitStack() as patches:
        for place, name, step in (
            (LongTermMemory, "_compress", "replace"),
            (services.log, "archive", "archive"),
            (services.embeddings, "forget", "delete derived data"),
            (services.log, "shrink", "shrink the log"),
            (services.embeddings, "shrink", "shrink derived data"),
        ):
            timed = watch.timed(step, getattr(place, name))
            patches.enter_context(patch.object(place, name, timed))
        patches.enter_context(patch.object(selection, "dbscan", dbscan))
        yield
