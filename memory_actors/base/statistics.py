"""Statistics of the parts of a memory system, as callers get them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from eventlog.core.records import LogStatistics, Returned

Level = Literal["ok", "soft", "hard"]


class RuntimeStatistics(Returned, frozen=True):
    """The number of live actors, and the bytes that they hold."""

    live: int
    live_bytes: int
    activations: int
    passivations: int


class EmbeddingStatistics(Returned, frozen=True):
    """Counts of vectors by their source."""

    from_memory: int
    from_disk: int
    computed: int
    waiting: int
    """Texts that wait for the model."""


class MemoryStatistics(Returned, frozen=True, kw_only=True):
    """The memory that the process holds, and its limits."""

    current_bytes: int
    """At the last reading."""
    peak_bytes: int
    """The highest reading so far."""
    soft_limit_bytes: int | None
    hard_limit_bytes: int | None
    level: Level
    """soft: at the soft limit or above; hard: above the hard limit, nothing is admitted."""


class AlertStatistics(Returned, frozen=True, kw_only=True):
    """Counts of alerts by their fate. All but `posted` count an alert once for each sink."""

    posted: int
    waiting: int
    delivered: int
    failed: int
    dropped: int
    """Too many waited, or the dispatcher closed."""


class Calls(Returned, frozen=True):
    """The number of calls, and the time that they took."""

    count: int = 0
    total_ms: float = 0.0
    slowest_ms: float = 0.0


class Minute(Returned, frozen=True, kw_only=True):
    """The calls that ended within a minute."""

    at: datetime
    """The beginning of the minute."""
    searches: Calls = Calls()
    writes: Calls = Calls()


class SystemStatistics(Returned, frozen=True):
    """Counts and sizes of the parts of a memory system since it was opened."""

    log: LogStatistics
    runtime: RuntimeStatistics
    embeddings: EmbeddingStatistics
    passages_wanting: int
    """Texts of live users that are not indexed yet: after `reindex=True`, how much is left."""
    memory: MemoryStatistics
    """Of this process: current and peak."""
    alerts: AlertStatistics
    recalls_failed: int
    """Recalls that the audit of reads was to keep and could not write."""
    latency_violations: Mapping[str, int]
    """Calls that took longer than their target, by kind of memory."""
    recent: tuple[Minute, ...] = ()
    """The minutes with calls among the last 120 such, oldest first; of this process."""
