"""The parts of an open memory system that the handles of users work with."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from eventlog import EventStore
from memory_actors.actors.runtime import Runtime
from memory_actors.base.settings import Settings
from memory_actors.kinds.user_state import LimitsByTier
from memory_actors.observing.metrics import LatencyWatch, Metrics
from memory_actors.observing.monitor import MemoryMonitor
from memory_actors.search.embedding.service import EmbeddingService
from memory_actors.search.superseding import Superseding
from memory_actors.users.live_user import LiveUser, UserDecider
from memory_actors.users.recalls import RecallAudit
from memory_actors.users.totals import Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One of each, wired by `MemorySystem.open`."""

    log: EventStore
    runtime: Runtime[LiveUser]
    embeddings: EmbeddingService
    decider: UserDecider
    limits: LimitsByTier
    totals: Totals
    monitor: MemoryMonitor
    recalls: RecallAudit
    superseding: Superseding | None
    metrics: Metrics
    latency: LatencyWatch
    settings: Settings
    clock_us: Callable[[], int]
    new_id: Callable[[int], str]
    """(time in microseconds) -> a memory id that was never used."""
    extractor: Any = None
    """Finds facts in messages; None: nobody does."""
    extracts: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """By stream: held while messages of it are read."""
    unattended: set[asyncio.Task[Any]] = field(default_factory=set)
    """Work whose caller may have gone. It holds its user live, so closing waits for it."""

    def extracting(self, stream: str) -> asyncio.Lock:
        """Return the lock of the extractions of a user."""
        return self.extracts.setdefault(stream, asyncio.Lock())


def new_memory_id(now_us: int) -> str:
    """Return an id that sorts by time: 14 hex digits of microseconds, 16 random ones."""
    return f"mem_{now_us:014x}{secrets.token_hex(8)}"
