"""The totals over all users and the limits on them; usage of memory, and what it would cost.

The log counts what each append adds, in the append's own transaction, so the totals are exact after
any crash and nobody ever has to look at all users. A decision whose append has not come back yet
claims what it will add: total and claims together never pass a limit, however many users write at
the same time.

Prices are for what a hosted service would bill: the vectors, the graph's nodes, and short-term
storage. 1 GB = 1024 MB.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import msgspec

from eventlog import CountingStore
from memory_actors.base.errors import GlobalQuotaExceededError
from memory_actors.base.quota import GIB, GlobalLimits, Limits, Plan, Prices, size
from memory_actors.base.records import QuotaUse
from memory_actors.base.statistics import CostEstimate, CostItem, KindUsage, SystemUsage, Usage
from memory_actors.kinds.rows import derived
from memory_actors.kinds.user_state import KINDS, UserState


class _Limited(msgspec.Struct, frozen=True):
    total: str
    """Its name in the log."""
    limit: str
    """Its name in `GlobalLimits`."""
    unit: str


LIMITED = (
    _Limited("long_term.size_bytes", "long_term_bytes", "bytes"),
    _Limited("entity.count", "entities", "count"),
    _Limited("entity.relationships", "relationships", "count"),
)


class Totals:
    """The sums that all users hold together, and those that are just being added."""

    def __init__(self, log: CountingStore, limits: GlobalLimits):
        self._log = log
        self._limits = limits
        self._claimed: Counter[str] = Counter()

    def check(self, changes: Mapping[str, int]) -> None:
        """Refuse what does not fit.

        :raises GlobalQuotaExceededError: a limit over all users would be passed.
        """
        for limited in LIMITED:
            more = changes.get(limited.total, 0)
            if more <= 0:
                continue
            used = self._log.totals_nowait().get(limited.total, 0) + self._claimed[limited.total]
            limit = self._limit_of(limited)
            if used + more > limit:
                raise _refusal(limited, used, more, limit)

    def claim(self, changes: Mapping[str, int]) -> None:
        """Set room aside until the append has counted it. See `check`."""
        self.check(changes)
        for name, change in changes.items():
            if change > 0:  # what leaves makes room only once it has left
                self._claimed[name] += change

    def release(self, changes: Mapping[str, int]) -> None:
        """Give back what was set aside."""
        for name, change in changes.items():
            if change > 0:
                self._claimed[name] -= change

    def caps(self) -> dict[str, int]:
        """Return the limits by the names that the log has for what they limit."""
        return {limited.total: self._limit_of(limited) for limited in LIMITED}

    def now(self) -> dict[str, int]:
        """Return the totals of everything that is in the log."""
        return dict(self._log.totals_nowait())

    def quotas(self) -> tuple[QuotaUse, ...]:
        """Return how full each limit over all users is."""
        totals = self.now()
        return tuple(
            QuotaUse(
                limited.total, limited.unit, totals.get(limited.total, 0), self._limit_of(limited)
            )
            for limited in LIMITED
        )

    def _limit_of(self, limited: _Limited) -> int:
        return int(getattr(self._limits, limited.limit))


def _refusal(limited: _Limited, used: int, more: int, limit: int) -> GlobalQuotaExceededError:
    shown = [f"{n:,}" if limited.unit == "count" else size(n) for n in (used, limit, more)]
    instead = "delete memories of some" if more <= limit else "that can never fit, add less"
    return GlobalQuotaExceededError(
        f"All users together hold {shown[0]} of {shown[1]} ({limited.total}), and this adds "
        f"{shown[2]}: {instead}, or raise Settings.global_limits.",
        kind=limited.total.partition(".")[0],
        used=used,
        limit=limit,
        unit=limited.unit,
        tier="all users",
    )


def usage(user_id: str, state: UserState, limits: Limits, at: datetime) -> Usage:
    """Return how much a user holds; `state` is theirs at that time."""
    kinds = {}
    for kind in KINDS:
        quotas = tuple(state.quotas(kind, limits, None))
        kinds[kind.NAME] = derived(KindUsage, kind.tally(state.of(kind)), quotas=quotas)
    return Usage(user_id=user_id, at=at, tier=limits.tier.value, kinds=kinds)


def estimate(usage: Usage, vector_bytes: int, prices: Prices, plan: Plan) -> CostEstimate:
    """Return the monthly cost of a usage; `vector_bytes` of float32 are searched by meaning."""
    nodes, messages_bytes = usage.kinds["entity"].count, usage.kinds["short_term"].size_bytes
    items = (
        _item("vectors", vector_bytes / GIB, "GB", prices.vectors_per_gib),
        _item("graph", nodes / 1000, "1,000 nodes", prices.graph_per_1000_nodes),
        _item("short_term", messages_bytes / GIB, "GB", prices.short_term_per_gib),
    )
    storage_usd = sum(item.cost_usd for item in items)
    return derived(
        CostEstimate,
        usage,
        tier_price_usd=plan.price_usd,
        storage_usd=storage_usd,
        total_usd=storage_usd + plan.price_usd,
        items=items,
        usage=usage,
    )


def system_usage(
    totals: dict[str, int], users: int, quotas: tuple[QuotaUse, ...], at: datetime
) -> SystemUsage:
    """Return how much all users hold, from the totals of the log."""

    def by_kind(name: str) -> dict[str, int]:
        return {kind.NAME: totals.get(f"{kind.NAME}.{name}", 0) for kind in KINDS}

    return SystemUsage(
        at=at,
        users=users,
        counts=by_kind("count"),
        size_bytes=by_kind("size_bytes"),
        stored_bytes=by_kind("stored_bytes"),
        relationships=totals.get("entity.relationships", 0),
        quotas=quotas,
    )


def _item(name: str, used: float, unit: str, price_usd: float) -> CostItem:
    return CostItem(name, used, unit, price_usd, used * price_usd)
