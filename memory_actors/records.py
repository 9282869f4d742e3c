"""What callers hand in and get back. All frozen; all times are aware and in UTC."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

Metadata: TypeAlias = Mapping[str, Any]
"""JSON: strings as keys; values of str, int (64 bit), finite float, bool, None, list and dict."""


class MemoryType(StrEnum):
    """The kinds of memory. Every parameter that takes one also takes its string."""

    WORKING = "working"
    SHORT_TERM = "short_term"
    LONG_TERM = "long_term"


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


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a write."""

    memory_id: str
    operation: str
    """add, add_with_prune, update, delete, set, or unchanged (it was so already)."""
    memory_type: str
    latency_ms: float
    quota_remaining: int
    """How many more of this kind fit (short_term: into this session)."""
    evicted: tuple[str, ...] = ()
    """Ids that this write removed to make room."""
    indexed: bool = True
    """False when the embedder failed: the memory is kept, and indexed when it works again."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
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
    """Long-term memory: whether it is never pruned."""
    size_bytes: int = 0
    """Bytes of the content in UTF-8."""
    stored_bytes: int = 0
    """Bytes its event takes in the log."""


class Hit(Memory, frozen=True, kw_only=True):
    """One memory that a query found."""

    score: float
    """Similarity to the query in [0, 1]: 1 the same, 0.5 unrelated."""


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


class KindUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one kind a user holds."""

    count: int
    count_limit: int
    """short_term: a session's."""
    size_bytes: int
    """UTF-8 bytes of the contents."""
    size_limit_bytes: int
    """short_term: a session's."""
    stored_bytes: int
    """Bytes their events take in the log."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """How much a user holds, by kind."""

    user_id: str
    at: datetime
    kinds: dict[str, KindUsage]
