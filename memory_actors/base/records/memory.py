"""What callers hand in and get back. All frozen; all times are aware and in UTC."""

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import msgspec

from eventlog.core.records import Returned
from memory_actors.base.records.source import Sourced

Time: TypeAlias = date | str | float
"""A datetime (a naive one means UTC), a date (its beginning in UTC), ISO 8601, or the number of
seconds since 1970."""

IS_COMPRESSED = "is_compressed"
"""Said in the metadata of a memory whose content is stored compressed; not a caller's to set."""

Metadata: TypeAlias = Mapping[str, Any]
"""JSON: strings as keys; values of str, int (64 bit), finite float, bool, None, list and dict."""


OnDuplicate: TypeAlias = Literal["keep", "skip", "count"]
"""What becomes of a fact that is there already: a memory of its own, nothing, or one that was seen
once more."""
Order: TypeAlias = Literal["score", "kind"]
"""Of hits: the best first, or kind by kind, working memory first, the best of each first."""


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
    occurred_at: Time | None = None
    """When it was true, in any form of `Time`; None means now."""
    session_id: str | None = None
    """None means the handle's."""
    role: str | None = None
    memory_id: str | None = None
    """An id of your own makes adding it again harmless; None means a new one."""
    pinned: bool = False
    """A pinned memory is never pruned."""
    key: str | None = None
    """Working: the key; structured: the document's; entity: the name; context: the section."""
    times_seen: int = 1
    """Long-term: how often it was said, as another store has counted."""
    last_seen_at: Time | None = None
    """Long-term: when it was said last, if that is not `occurred_at`."""


class Receipt(Returned, frozen=True, kw_only=True):
    """What came of a write."""

    memory_id: str
    operation: str
    """add, add_with_prune, seen (it was there already, and counts once more), update, delete,
    restore, set, or unchanged (it was so already)."""
    memory_type: str
    latency_ms: float
    quota_remaining: int
    """How many more of this kind fit (short_term: into this session; episodic: of this agent)."""
    evicted: tuple[str, ...] = ()
    """Ids that left because this kind makes room by itself."""
    pruned: tuple[str, ...] = ()
    """Ids that were pruned to make room, as asked: `restore` brings them back."""
    supersedes: tuple[str, ...] = ()
    """Ids of older facts that hold no more because of it: `restore` says that they do."""
    superseded_by: str | None = None
    """The newer fact because of which it holds no more: it was true before that."""
    indexed: bool = True
    """False when the embedder failed: the memory is kept, and indexed when it works again."""
    unindexed_reason: str | None = None
    """Why it is not indexed yet; None where it is."""


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
    ttl_s: float | None = None
    """Of a message that `short_term.messages` returns: the seconds it had left when it was read.
    Each message that is added renews the time of its whole session."""
    times_seen: int = 1
    """Long-term: how often it was said in the same words."""
    last_seen_at: datetime | None = None
    """Long-term: when it was said last."""


class Hit(Memory, frozen=True, kw_only=True):
    """One memory that a query found."""

    score: float
    """In [0, 1], comparable across queries: about the chance that it answers one."""
    signals: dict[str, float] | None = None
    """With `explain`: what each signal adds to the score, before it is brought to [0, 1]."""
    near_duplicates: tuple[str, ...] = ()
    """Ids of others that were found and say the same: they are no hits of their own."""
    superseded_by: str | None = None
    """The newer memory that says otherwise of the same: this one held before it."""


class HistoryEntry(Returned, frozen=True, kw_only=True):
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
