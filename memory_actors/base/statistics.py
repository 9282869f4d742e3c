"""Statistics of a memory system, and its use and cost, as callers get them."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from eventlog.core.records import LogStatistics, Returned
from memory_actors.base.records import QuotaUse

if TYPE_CHECKING:
    import pandas as pd

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


class KindUsage(Returned, frozen=True, kw_only=True):
    """The memories of one kind that a user holds."""

    count: int
    size_bytes: int
    """UTF-8 bytes of the contents."""
    stored_bytes: int
    """Bytes their events take in the log."""
    evicted: int
    """The number that left so far because the kind makes room by itself, or their time was up."""
    pruned: int
    """The number that was pruned so far."""
    quotas: tuple[QuotaUse, ...]


class Usage(Returned, frozen=True, kw_only=True):
    """The memories that a user holds, by kind."""

    user_id: str
    at: datetime
    tier: str
    kinds: dict[str, KindUsage]

    def to_pandas(self) -> "pd.DataFrame":
        """Return a data frame with a row for each limit.

        :raises MissingExtraError: pandas is not installed.
        """
        from memory_actors.base import notebook

        return notebook.frame(notebook.usage_rows(self))

    def _repr_html_(self) -> str:
        from memory_actors.base import notebook  # with html: 10 ms that no program needs

        return notebook.usage_html(self)


class CostItem(Returned, frozen=True):
    """One line of an estimate."""

    name: str
    used: float
    """In `unit`."""
    unit: str
    price_usd: float
    """Price of one unit a month."""
    cost_usd: float
    """A month."""


class CostEstimate(Returned, frozen=True, kw_only=True):
    """An estimate of the monthly cost of a user's memory, and the usage that it comes from."""

    user_id: str
    at: datetime
    tier: str
    tier_price_usd: float
    """The monthly price of the tier itself."""
    storage_usd: float
    """The sum of the items."""
    total_usd: float
    items: tuple[CostItem, ...]
    usage: Usage


class SystemUsage(Returned, frozen=True, kw_only=True):
    """The exact amounts that all users hold together, by kind."""

    at: datetime
    users: int
    counts: dict[str, int]
    size_bytes: dict[str, int]
    stored_bytes: dict[str, int]
    relationships: int
    quotas: tuple[QuotaUse, ...]
    """The limits over all users."""
