"""What callers hand in and get back. All frozen; all times are aware and in UTC."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from memory_actors.source_records import Sourced

Metadata: TypeAlias = Mapping[str, Any]
"""JSON: strings as keys; values of str, int (64 bit), finite float, bool, None, list and dict."""


class MemoryType(StrEnum):
    """The kinds of memory. Every parameter that takes one also takes its string."""

    WORKING = "working"
    SHORT_TERM = "short_term"
    LONG_TERM = "long_term"
    ENTITY = "entity"
    EPISODIC = "episodic"
    STRUCTURED = "structured"
    CONTEXT = "context"


class Tier(StrEnum):
    """What a user has subscribed to: it sets the limits of their memory."""

    FREE = "free"
    PRO = "pro"
    ENTERPRISE = "enterprise"


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One memory to add with `add_many`."""

    content: str
    metadata: Metadata | None = None
    occurred_at: datetime | str | None = None
    """When it was true: a datetime or ISO 8601 (naive means UTC); None means now."""
    session_id: str | None = None
    """None means the handle's."""
    role: str | None = None
    memory_id: str | None = None
    """An id of your own makes adding it again harmless; None means a new one."""
    pinned: bool = False
    """A pinned memory is never pruned."""
    key: str | None = None
    """Working: the key; structured: the document's; entity: the name; context: the section."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a write."""

    memory_id: str
    operation: str
    """add, add_with_prune, update, delete, restore, set, or unchanged (it was so already)."""
    memory_type: str
    latency_ms: float
    quota_remaining: int
    """How many more of this kind fit (short_term: into this session; episodic: of this agent)."""
    evicted: tuple[str, ...] = ()
    """Ids that left because this kind makes room by itself."""
    pruned: tuple[str, ...] = ()
    """Ids that were pruned to make room, as asked: `restore` brings them back."""
    indexed: bool = True
    """False when the embedder failed: the memory is kept, and indexed when it works again."""


class Memory(Sourced, frozen=True, kw_only=True):
    """One memory as it is now."""

    memory_id: str
    content: str
    memory_type: str
    metadata: dict[str, Any]
    """Yours, and `is_compressed: True` when the log stores the content compressed."""
    created_at: datetime
    """When the log got it."""
    occurred_at: datetime
    """When it was true."""
    session_id: str | None = None
    role: str | None = None
    key: str | None = None
    """Working memory: its key."""
    pinned: bool = False
    """Whether it is never pruned."""
    size_bytes: int = 0
    """Bytes of the content in UTF-8."""
    stored_bytes: int = 0
    """Bytes its events take in the log."""
    data: Any = None
    """What it holds, as JSON: the value of a key, the document, the parts of an entity, a
    relationship or an episode, what a summary was made of. None where `content` says it all."""
    source: str = "memory"
    """`compressed` for a summary that compaction put in the place of memories."""


class Hit(Memory, frozen=True, kw_only=True):
    """One memory that a query found."""

    score: float
    """In [0, 1], comparable across queries: about the chance that it answers one."""
    signals: dict[str, float] | None = None
    """With `explain`: what each signal adds to the score, before it is brought to [0, 1]."""


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event that touched a memory."""

    position: int
    """Place in the whole log."""
    version: int
    """Place in the user's stream."""
    recorded_at: datetime
    event: str
    """The event's tag, for example `long_term.added`."""
    data: dict[str, Any]
    """The event's fields."""
    cause: dict[str, str]
    """The command that led to it, and the agent and session it came from."""


class QuotaUse(msgspec.Struct, frozen=True):
    """How full one limit is."""

    quota: str
    """What is limited: memories, bytes, keys, …"""
    unit: str
    """count or bytes."""
    used: int
    """Where the limit is a session's or an agent's: of the fullest one."""
    limit: int

    @property
    def percent(self) -> float:
        """Used of the limit, in percent; over 100 after a downgrade."""
        if not self.limit:
            return 100.0 if self.used else 0.0
        return 100.0 * self.used / self.limit


class KindUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one kind a user holds."""

    count: int
    size_bytes: int
    """UTF-8 bytes of the contents."""
    stored_bytes: int
    """Bytes their events take in the log."""
    evicted: int
    """How many left so far because the kind makes room by itself, or their time was up."""
    pruned: int
    """How many were pruned so far."""
    quotas: tuple[QuotaUse, ...]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How much a user holds, by kind."""

    user_id: str
    at: datetime
    tier: str
    kinds: dict[str, KindUsage]


class Document(Sourced, frozen=True, kw_only=True):
    """One JSON document."""

    memory_id: str
    collection: str
    key: str
    value: dict[str, Any]
    metadata: dict[str, Any]
    created_at: datetime
    occurred_at: datetime
    pinned: bool
    size_bytes: int
    """Of the value as JSON."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an episode."""

    number: int
    """From 1, in order, never used twice."""
    action: str
    observation: str | None = None
    outcome: str | None = None
    error: str | None = None


class EvictedStep(msgspec.Struct, frozen=True, kw_only=True):
    """What a step leaves in its episode when it makes room for later ones."""

    number: int
    sha256: str
    """Hex, of the JSON object of action, observation, outcome and error."""
    snippet: str
    """The beginning of the action."""


class Episode(Sourced, frozen=True, kw_only=True):
    """One episode: what an agent wanted, what it did, what came of it; or a summary of some."""

    memory_id: str
    agent_id: str
    goal: str
    status: str
    """running, done or failed."""
    result: str | None
    steps: tuple[Step, ...]
    """Those that are kept: the first, the last, those with an error, and the newest others."""
    evicted: tuple[EvictedStep, ...]
    """The last of those that left."""
    steps_evicted: int
    """How many left in all."""
    metadata: dict[str, Any]
    session_id: str | None
    created_at: datetime
    occurred_at: datetime
    pinned: bool
    original_count: int = 0
    """Above 0: its goal is a summary of so many episodes, and it has no steps."""


class Entity(Sourced, frozen=True, kw_only=True):
    """A person, a thing, a place, and what was observed of it."""

    memory_id: str
    name: str
    type: str
    observations: tuple[str, ...]
    metadata: dict[str, Any]
    created_at: datetime
    occurred_at: datetime
    pinned: bool


class Relationship(Sourced, frozen=True, kw_only=True):
    """What relates one entity to another, and from when to when it was so."""

    memory_id: str
    source_id: str
    source: str
    """Its name."""
    relation: str
    target_id: str
    target: str
    """Its name."""
    fact: str | None
    """In words, where it was given."""
    valid_from: datetime
    valid_to: datetime | None
    """No longer true at this time; None: no end is known."""
    metadata: dict[str, Any]
    created_at: datetime
    pinned: bool


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """An entity that is reached from another one."""

    entity: Entity
    distance: int
    """How many relationships away, from 1."""
    path: tuple[Relationship, ...]
    """Those relationships, from the start."""


# --- compaction


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of contents: of originals, and of the summaries in their place."""

    bytes_before: int
    bytes_after: int

    @property
    def bytes_saved(self) -> int:
        """Bytes of content that went, or would go."""
        return self.bytes_before - self.bytes_after

    @property
    def ratio(self) -> float:
        """Bytes before to a byte after; 1 if nothing was compressed."""
        return self.bytes_before / self.bytes_after if self.bytes_after else 1.0


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one cluster of old memories, or of old episodes."""

    user_id: str
    memory_type: str = "long_term"
    memory_id: str | None
    """Of the summary, where there is one now."""
    original_count: int
    sample: tuple[str, ...]
    """Three of the originals at most, 200 characters each at most."""
    summary: str | None
    bytes_before: int
    """Of the originals' contents."""
    bytes_after: int
    """Of the summary; as before where there is none."""
    time_range_start: datetime
    time_range_end: datetime
    outcome: str
    """compressed, would_compress (dry run), failed, or changed (an original did meanwhile)."""
    reason: str | None = None


class CompactionReport(Saving, frozen=True, kw_only=True):
    """What a run of compaction did, or would do."""

    dry_run: bool
    users: int
    users_failed: int = 0
    """Whose memory could not be read or written; they are tried again with the next run."""
    memories_considered: int
    clusters: tuple[ClusterReport, ...]
    """The first 1,000; the numbers are of all."""
    compressed: int
    """Summaries made; with `dry_run`, that would be."""
    originals: int
    """Memories they stand for."""
    failed: int
    """Clusters that stay as they are and are tried again with the next run."""
    file_bytes_before: int
    """Of all files of the store."""
    file_bytes_after: int
    took_s: float
    cancelled: bool = False


class CompactionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come."""

    users_done: int
    users_total: int
    user_id: str
    clusters_done: int
    """Of this user."""
    clusters_total: int


class CompactionStats(Saving, frozen=True, kw_only=True):
    """What compaction has come to, of one user or of all."""

    summaries: int
    """Living ones."""
    originals: int
    """Memories they stand for."""
    failed_clusters: int
    """This and the next two: of this process, all users."""
    runs: int
    last_run_at: datetime | None
