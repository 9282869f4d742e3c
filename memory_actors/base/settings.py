"""Settings of a memory system, given when it is opened. Every default is meant for a laptop."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from memory_actors.base.quota import (
    MIB,
    SET_BY_TIER,
    TIERS,
    Count,
    GlobalLimits,
    Limits,
    Plan,
    Prices,
)
from memory_actors.base.records import MemoryType, OnDuplicate, Review, Tier
from memory_actors.base.redaction import Redact
from memory_actors.base.tokens import ESTIMATES, TokenBudget, TokenCounter

EXCLUSIVE_RELATIONS = frozenset(
    {
        "based_in", "born_in", "employed_by", "engaged_to", "has_status", "is_located_in",
        "lives_in", "located_in", "married_to", "reports_to", "resides_in", "studies_at",
        "works_as", "works_at", "works_for",
    }
)  # fmt: skip


Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Several: TypeAlias = Annotated[int, Meta(ge=2)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Deadline: TypeAlias = Annotated[float, Meta(ge=0.001)]
Days: TypeAlias = Annotated[float, Meta(ge=0, le=100_000)]
"""At most 270 years: arithmetic with times holds that, and nobody means more."""
ADDED_AT_ONCE_MAX = 1_000

SUNDAYS = "0 3 * * 0"
"""Sundays at 03:00, local time: a `compaction_schedule`."""
COMPACTION_AFTER_DAYS = 90.0
DEADLINE_S = 30.0
"""Deadline of a write, and of a batch of the embedder: what takes longer is down, not busy."""


LATENCY_TARGETS_MS: Mapping[str, float] = MappingProxyType(
    {"working": 1.0, "short_term": 10.0, "long_term": 100.0}
)


Encrypt: TypeAlias = bool | str | Path
"""False: not; True: with the keys beside the store; a path: with those in this file."""


Pattern: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
"""A pattern as shells have them: `*` stands for any characters, `?` for one."""


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that deletes memories: all that its fields match; None matches everything."""

    days: Annotated[float, Meta(gt=0, le=100_000)]
    """The days since the log got its words last: a summary is as old as its newest original."""
    memory_type: MemoryType | None = None
    source: Pattern | None = None
    """Of sources. A memory that others had a say in stays: `purge` takes words out."""
    user_id: Pattern | None = None
    """Of users."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a `MemorySystem`. `api/settings_check.py` holds them to their types."""

    tiers: Mapping[Tier, Plan] = {}
    """Tiers that allow or cost something else than `quota.TIERS` says."""
    default_tier: Tier = Tier.LOCAL
    """The tier of a user whose tier was never set."""
    global_limits: GlobalLimits = GlobalLimits()
    """Limits of all users together."""
    exclusive_relations: frozenset[str] = EXCLUSIVE_RELATIONS
    """Relations of which an entity has one at a time, unless `relate` says otherwise."""
    prices: Prices = Prices()
    """Prices for `estimate_monthly_cost`."""
    context_soft_tokens: Positive = 1_500
    """Tokens of a context document from which on each write warns."""
    context_hard_tokens: Positive = 2_000
    """Tokens that a context document never reaches."""
    token_counter: TokenCounter | str = "calibrated"  # noqa: S105 - a name, no secret
    """The counter of tokens: an estimate by classes of characters ("calibrated", or "claude" for
    Claude from 4.7 on), 1.3 a word ("words"), or a `TokenCounter`, for example `TokenizerCounter`
    for exact counts."""
    live_bytes_max: Count = 512 * MIB
    """Memory of all live users together; beyond it the least recently used leave."""
    memory_soft_bytes: Positive | None = None
    """Resident memory of the process from which idle users leave memory, with a warning."""
    memory_hard_bytes: Positive | None = None
    """Resident memory of the process beyond which writes are refused; reads go on."""
    idle_s: Seconds = 600.0
    """A user who was idle for this long leaves memory."""
    on_duplicate: OnDuplicate = "count"
    """The fate of a fact in the words of one that is there, of the same session, metadata and
    source: `count` it as seen once more, `skip` it, or `keep` both. An add may say otherwise. If it
    does not, what has a session, or an id of the caller's own, is kept."""
    ttl_s: Mapping[MemoryType, Annotated[float, Meta(gt=0)]] = {}
    """The seconds after which memories of a kind expire, where an add does not say; what is added
    of a kind that is not named stays."""
    review: Review | None = None
    """The memories that wait until `approve`: those that an "untrusted" source adds, those that an
    extractor has "extracted", or "all"; None: none. See docs/review.md."""
    review_days: Days = 30.0
    """Days after which a memory that nobody has approved is rejected."""
    retention: tuple[RetentionRule, ...] = ()
    """Rules that delete what is too old: when compaction runs, and by `apply_retention`."""
    shared_writes_on_erase: Literal["erase", "anonymous"] = "erase"
    """The fate of what a person wrote in the scopes of others when the person is erased: it is
    removed there, from the log too, or stays and no longer names them."""
    deadline_s: Deadline = DEADLINE_S
    """The longest that a write may wait for its answer."""
    embedder_deadline_s: Deadline = DEADLINE_S
    """The longest that one batch of the embedder may take."""
    reranker_hits: Several = 20
    """The first hits of a search that a reranker reads and orders anew."""
    reranker_deadline_s: Deadline = 2.0
    """The longest that a search waits for the reranker; then its hits keep their order."""
    embedding_cache_texts: Annotated[int, Meta(ge=ADDED_AT_ONCE_MAX)] = 10_000
    """Embeddings kept in memory, of queries and of texts that were just read: 2 KB each with the
    default model, so 20 MB. At least as many as may be added at once. Others are read from the
    disk, in some 10 microseconds each."""
    latency_targets_ms: Mapping[str, float] = LATENCY_TARGETS_MS
    """The time that a call about a kind of memory should take: longer ones are counted and, now and
    then, logged. A kind that is not named has no target."""
    latency_warnings: bool | None = None
    """True if longer ones are logged; None: unless the standard error is a terminal."""
    shutdown_s: Seconds = 10.0
    """Seconds that closing waits for work in hand; for a call of the embedder no more than 5."""
    log_bytes_max: Positive = 512 * 1024 * MIB
    """Size limit of the log: beyond it writes are refused, reads and deletes are not."""
    checked_bytes_max: Count = 1024 * MIB
    """A file of up to this size is checked page by page when it is opened, in some 0.5 s a GiB. A
    damaged page of a larger one may end the process."""
    compaction_after_days: Mapping[Tier, Days] | Days = COMPACTION_AFTER_DAYS
    """The age from which on a memory is compressed; by tier, else 90."""
    compaction_episodes: bool = False
    """True if episodes that ended as long ago are compressed, too: an agent's own together."""
    compaction_eps: Annotated[float, Meta(gt=0, lt=1)] = 0.3
    """Cosine distance within which memories are neighbours, between 0 and 1."""
    compaction_min_samples: Several = 5
    """Neighbours that make a cluster, and the least that are compressed."""
    compaction_batch: Several = 1000
    """Memories clustered together, in order of time: the most in one summary, too."""
    compaction_schedule: str | None = None
    """The cron expression by which compaction runs by itself: `SUNDAYS`, which `serve` sets;
    None: only when asked."""
    summarizer_deadline_s: Annotated[float, Meta(ge=0.001, le=sys.float_info.max)] = 300.0
    """The longest that a summariser may take for one cluster."""
    archive_retention_days: Days | None = None
    """Days for which the texts of compressed memories are kept; None: for ever. Then they cannot
    come back: their digests and places in the log are all that stays."""
    recall_audit: Annotated[str, Meta(pattern="^(hashed|plain)$")] | None = None
    """Record each search, its caller and the returned memories: "hashed", "plain", or None: not.
    See docs/audit.md.
    """
    recall_audit_days: Days = 90.0
    """Days for which that is kept."""
    redact: Redact | None = None
    """The text that is masked or refused before it is stored: "secrets", "personal", names of
    detectors, or a `Redaction`; None: none. See docs/redaction.md."""
    node_host: str | None = None
    """The address of this machine at which other nodes of a store in a database reach it; None:
    that of the interface through which it reaches the database."""
    node_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """The port at which they reach it; 0: any free one."""
    check_replay: bool = False
    """Compare the live state with a full replay after each write. For tests: it is slow."""

    def plan(self, tier: Tier | None) -> Plan:
        """Return what a tier allows and costs; None is the default tier."""
        tier = tier or self.default_tier
        return self.tiers.get(tier) or TIERS[tier]

    def context_budget(self) -> TokenBudget:
        """Return how many tokens a context document may have."""
        return TokenBudget(
            soft_tokens=self.context_soft_tokens,
            hard_tokens=self.context_hard_tokens,
            counter=ESTIMATES[self.token_counter]
            if isinstance(self.token_counter, str)
            else self.token_counter,
        )

    def after_days(self, tier: Tier | None) -> float:
        """Return from which age on memories of a tier are compressed."""
        days = self.compaction_after_days
        if isinstance(days, int | float):
            return days
        return days.get(tier or self.default_tier, COMPACTION_AFTER_DAYS)

    def limits_by_tier(self) -> dict[Tier | None, Limits]:
        """Return the limits of each tier, named after it; under None those of the default tier."""
        plain = {tier: self.plan(tier).limits for tier in Tier}
        names = set(Limits.__struct_fields__).difference(SET_BY_TIER)
        most = {name: max(getattr(limits, name) for limits in plain.values()) for name in names}
        by_tier: dict[Tier | None, Limits] = {}
        for tier, limits in plain.items():
            raised = frozenset(name for name in names if getattr(limits, name) < most[name])
            by_tier[tier] = msgspec.structs.replace(limits, tier=tier, more_in_a_tier=raised)
        by_tier[None] = by_tier[self.default_tier]
        return by_tier
