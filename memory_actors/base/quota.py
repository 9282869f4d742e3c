"""The limits of a user's memory by tier, how full each one is, and the words in which they refuse.

Sizes are UTF-8 bytes of content before compression; 1 KB = 1024 B.
"""

import sys
from collections.abc import Mapping
from typing import Annotated, NoReturn, TypeAlias

import msgspec
from msgspec import Meta

from memory_actors.base.errors import QuotaExceededError
from memory_actors.base.records import Tier

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Price: TypeAlias = Annotated[float, Meta(ge=0, le=sys.float_info.max)]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one user."""

    tier: Tier = Tier.PRO
    """The tier of these limits: named by an error, and set by `Settings.limits_by_tier`."""
    more_in_a_tier: frozenset[str] = frozenset()
    """The limits that another tier raises: what an error advises, set with `tier`."""
    working_keys: Count = 100
    working_bytes: Count = 10 * KIB
    short_term_messages: Count = 100  # in each session
    short_term_bytes: Count = MIB  # in each session
    short_term_sessions: Count = 1_000  # living at a time; the one that expires first makes room
    short_term_ttl_s: Count = 3600  # renewed by each message
    long_term_memories: Count = 10_000
    long_term_bytes: Count = 100 * MIB
    entities: Count = 5_000
    relationships: Count = 10_000
    entity_bytes: Count = 50 * MIB  # names, observations and facts
    episodes: Count = 1_000  # of each agent
    episode_steps: Count = 50  # kept of each episode
    episodic_bytes: Count = 100 * MIB
    documents: Count = 5_000
    structured_bytes: Count = 50 * MIB
    context_documents: Count = 100
    context_document_bytes: Count = 64 * KIB  # of each, whatever its tokens: it is kept in memory
    context_entries: Count = 10_000  # archived ones included
    context_bytes: Count = 10 * MIB  # of all documents and their archives


SET_BY_TIER = ("tier", "more_in_a_tier")
"""The fields of `Limits` that `Settings.limits_by_tier` sets; all other fields are limits."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The limits and the price of a tier."""

    limits: Limits = Limits()
    price_usd: Price = 0.0
    """A month."""


_LARGE = Limits(
    long_term_memories=100_000,
    long_term_bytes=1_000 * MIB,
    entities=50_000,
    relationships=100_000,
    entity_bytes=500 * MIB,
)
TIERS: Mapping[Tier, Plan] = {
    Tier.LOCAL: Plan(limits=_LARGE),
    Tier.FREE: Plan(
        limits=Limits(
            long_term_memories=100, long_term_bytes=10 * MIB, entities=500, relationships=1_000
        )
    ),
    Tier.PRO: Plan(price_usd=20.0),
    Tier.ENTERPRISE: Plan(limits=_LARGE, price_usd=200.0),
}
"""Relationships keep to twice the entities; what is not named is the same for every tier."""


class GlobalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of all users together."""

    long_term_bytes: Count = 1_000 * GIB
    entities: Count = 10_000_000
    relationships: Count = 50_000_000


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """In US dollars a month."""

    vectors_per_gib: Price = 0.40
    graph_per_1000_nodes: Price = 5.00
    short_term_per_gib: Price = 0.15


def refuse_count(
    kind: str,
    noun: str,
    used: int,
    limits: Limits,
    name: str,
    *,
    new: int = 1,
    instead: str = "Delete old memories",
) -> NoReturn:
    """Raise for `new` ones of something that the limit of this name has no room for."""
    limit = getattr(limits, name)
    said = f"User has {used:,} {kind} {noun} (max: {limit:,})."
    if limit == 0:
        said, instead = f"User may have no {kind} {noun} (max: 0).", "Use another kind of memory"
    elif new > limit:
        said = f"{new:,} {kind} {noun} at once can never fit (max: {limit:,})."
        instead = "Add fewer"
    raise QuotaExceededError(
        f"{said} {instead}{_or_raise(limits, name)}",
        kind=kind, used=used, limit=limit, unit="count", tier=limits.tier,
    )  # fmt: skip


def refuse_bytes(kind: str, used: int, limits: Limits, name: str, *, new: int) -> NoReturn:
    """Raise for something new of so many bytes that the limit of this name has no room for."""
    limit = getattr(limits, name)
    said = f"Adding this memory would exceed the size quota ({size(used)} of {size(limit)}): "
    said, instead = f"{said}it takes {size(new)}.", "Delete old memories"
    if new > limit:
        said = f"This takes {size(new)} and can never fit the size quota of {size(limit)}."
        instead = "Make it smaller"
    raise QuotaExceededError(
        f"{said} {instead}{_or_raise(limits, name)}",
        kind=kind, used=used, limit=limit, unit="bytes", tier=limits.tier,
    )  # fmt: skip


def _or_raise(limits: Limits, name: str) -> str:
    """Return what else helps: another tier only where one has a higher limit of this name."""
    if name in limits.more_in_a_tier:
        return " or upgrade quota."
    return f", or raise {name} in Settings.tiers."


def size(size_bytes: int) -> str:
    """Return a size as people read it: 20 B, 10 KB, 99.98 MB (1 KB = 1024 B)."""
    if size_bytes < KIB:
        return f"{size_bytes} B"
    unit, divisor = ("MB", MIB) if size_bytes >= MIB else ("KB", KIB)
    return f"{size_bytes / divisor:.2f}".rstrip("0").rstrip(".") + f" {unit}"
