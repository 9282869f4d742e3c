"""Usage of memory beside its limits, and an estimate of its monthly cost.

Prices are for what a hosted service would bill: the vectors, the graph's nodes, and short-term
storage. 1 GB = 1024 MB.
"""

from datetime import datetime

from memory_actors.base.quota import GIB, Limits, Plan, Prices
from memory_actors.base.records import QuotaUse
from memory_actors.base.usage import CostEstimate, CostItem, KindUsage, SystemUsage, Usage
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.user_state import KINDS, UserState


def usage(user_id: str, state: UserState, limits: Limits, at: datetime) -> Usage:
    """Return how much a user holds; `state` is theirs at that time."""
    kinds = {kind.NAME: _kind_usage(kind, state, limits) for kind in KINDS}
    return Usage(user_id=user_id, at=at, tier=limits.tier.value, kinds=kinds)


def _kind_usage(kind: Kind, state: UserState, limits: Limits) -> KindUsage:
    part = state.of(kind)
    tally = kind.tally(part)
    return KindUsage(
        count=tally.count,
        size_bytes=tally.size_bytes,
        stored_bytes=tally.stored_bytes,
        evicted=tally.evicted,
        pruned=tally.pruned,
        quotas=tuple(kind.quotas(part, limits, None)),
    )


def estimate(usage: Usage, vector_bytes: int, prices: Prices, plan: Plan) -> CostEstimate:
    """Return the monthly cost of a usage; `vector_bytes` of float32 are searched by meaning."""
    nodes, messages_bytes = usage.kinds["entity"].count, usage.kinds["short_term"].size_bytes
    items = (
        _item("vectors", vector_bytes / GIB, "GB", prices.vectors_per_gib),
        _item("graph", nodes / 1000, "1,000 nodes", prices.graph_per_1000_nodes),
        _item("short_term", messages_bytes / GIB, "GB", prices.short_term_per_gib),
    )
    storage_usd = sum(item.cost_usd for item in items)
    return CostEstimate(
        user_id=usage.user_id,
        at=usage.at,
        tier=usage.tier,
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
