"""The answers of the default tools, as models get them: what they can use, and no more.

A model pays for each token, so what a memory does not have is left out.
"""

from datetime import datetime
from typing import TypeVar

import msgspec

from memory_actors.base.records import JsonObject, Memory, Receipt, Relationship, Trust
from memory_actors.integrations.mcp.tool import SYNONYMS

T = TypeVar("T", bound=msgspec.Struct)


class _AnswerPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of an answer."""


class _OfMemory(_AnswerPart, frozen=True, kw_only=True, rename=SYNONYMS):
    memory_id: str


class ShownMemory(_OfMemory, frozen=True, kw_only=True):
    """A memory. Empty fields are left out."""

    memory_type: str
    content: str
    occurred_at: datetime
    score: float | None = None
    metadata: JsonObject = {}
    session_id: str | None = None
    role: str | None = None
    agent_id: str | None = None
    key: str | None = None
    pinned: bool = False
    times_seen: int = 1
    superseded_by: str | None = None
    """A newer memory says otherwise: this one held before."""
    trust: Trust = Trust.UNKNOWN
    sources: list[str] = []


class SearchedIn(_AnswerPart, frozen=True, kw_only=True):
    """The place and the words of a search: an empty answer names them, too."""

    user: str
    kinds: list[str]
    filters: JsonObject
    query: str | None = None
    since: str | float | None = None
    until: str | float | None = None
    agent_id: str | None = None


class Memories(_AnswerPart, frozen=True, kw_only=True):
    """The memories that a search found."""

    searched: SearchedIn
    memories: list[ShownMemory]
    note: str | None = None


class WrittenMemory(_OfMemory, frozen=True, kw_only=True):
    """The outcome of a write."""

    operation: str
    """add, seen (known already), update, delete, or unchanged."""
    memory_type: str
    supersedes: list[str] = []
    """Older memories that hold no more because of this one."""
    pruned: list[str] = []


class AllWritten(msgspec.Struct, frozen=True):
    """The outcomes of several writes, in order."""

    memories: list[WrittenMemory]


class Relation(_OfMemory, frozen=True, kw_only=True):
    """One thing relates to another."""

    source: str
    relation: str
    target: str
    fact: str | None = None
    valid_from: datetime
    valid_to: datetime | None = None


class About(_AnswerPart, frozen=True, kw_only=True, rename=SYNONYMS):
    """All facts about a person, thing or place."""

    searched: SearchedIn
    memory_id: str | None = None
    name: str | None = None
    type: str | None = None
    observations: list[str] = []
    relationships: list[Relation] = []
    similar: list[str] = []
    """Names that come near, if nothing has this one."""
    note: str | None = None


class Explained(_OfMemory, frozen=True, kw_only=True):
    """Why a memory is there, or no longer is."""

    memory_type: str
    alive: bool
    says: str
    steps: list[str]
    """Each event of its life: when, what, by whom."""


def told(record: Memory | Receipt | Relationship, kind: type[T]) -> T:
    """Convert a record to the form a model gets: the fields that this kind of answer has."""
    return msgspec.convert(record, kind, from_attributes=True)


def shown(memory: Memory) -> ShownMemory:
    """Convert a memory to the form a model gets."""
    sources = [one.source for one in memory.origins if one.source is not None]
    return msgspec.structs.replace(told(memory, ShownMemory), sources=sources)
