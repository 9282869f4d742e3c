"""Usage of memory beside its limits, and its monthly cost, as callers get them."""

from datetime import datetime
from typing import TYPE_CHECKING

from eventlog.core.records import Returned
from memory_actors.base.records import QuotaUse

if TYPE_CHECKING:
    import pandas as pd


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
