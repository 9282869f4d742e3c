"""The answers of the default tools, as models get them: what they can use, and no more.

A model pays for each token, so what a memory does not have is left out.
"""

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from memory_actors.base.records import Memory, Receipt, Relationship, Trust

T = TypeVar("T", bound=msgspec.Struct)


class ShownMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory. What it does not have is left out."""

    memory_id: str
    memory_type: str
    content: str
    occurred_at: datetime
    score: float | None = None
    metadata: dict[str, Any] = {}
    session_id: str | None = None
    role: str | None = None
    key: str | None = None
    pinned: bool = False
    times_seen: int = 1
    superseded_by: str | None = None
    """A newer memory says otherwise: this one held before."""
    trust: Trust = Trust.UNKNOWN
    sources: list[str] = []


class SearchedIn(msgspec.Struct, frozen=True, kw_only=True):
    """The place and the words of a search: an empty answer names them, too."""

    user: str
    kinds: list[str]
    filters: dict[str, Any]
    query: str | None = None
    since: str | float | None = None
    until: str | float | None = None


class Memories(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memories that a search found."""

    searched: SearchedIn
    memories: list[ShownMemory]
    note: str | None = None


class WrittenMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a write."""

    memory_id: str
    operation: str
    """add, seen (known already), update, delete, or unchanged."""
    memory_type: str
    supersedes: list[str] = []
    """Older memories that hold no more because of this one."""
    pruned: list[str] = []


class AllWritten(msgspec.Struct, frozen=True):
    """The outcomes of several writes, in order."""

    memories: list[WrittenMemory]


class Relation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing relates to another."""

    memory_id: str
    source: str
    relation: str
    target: str
    fact: str | None = None
    valid_from: datetime
    valid_to: datetime | None = None


class About(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All facts about a person, thing or place."""

    searched: SearchedIn
    name: str | None = None
    type: str | None = None
    observations: list[str] = []
    relationships: list[Relation] = []
    similar: list[str] = []
    """Names that come near, if nothing has this one."""
    note: str | None = None


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a memory is there, or no longer is."""

    memory_id: str
    memory_type: str
    alive: bool
    says: str
    steps: list[str]
    """Each event of its life: when, what, by whom."""


def told(record: Memory | Receipt | Relationship, kind: type[T]) -> T:
    """Return what a model is told of a record: those of its fields that a kind of answer has."""
    return msgspec.convert(record, kind, from_attributes=True)


def shown(memory: Memory) -> ShownMemory:
    """Return what a model is told of a memory."""
    sources = [one.source for one in memory.origins if one.source is not None]
    return msgspec.structs.replace(told(memory, ShownMemory), sources=sources)
