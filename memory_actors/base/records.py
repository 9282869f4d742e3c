"""Memories as callers hand them in and get them back. All frozen; times are aware and in UTC."""

from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from eventlog.core.records import Returned

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T", bound=msgspec.Struct)


class Trust(StrEnum):
    """The trust in a source. Every parameter that takes one also takes its string."""

    UNTRUSTED = "untrusted"
    """Anybody may have written it: a web page, a mail, the output of a tool."""
    UNKNOWN = "unknown"
    """Nobody said."""
    TRUSTED = "trusted"
    """The user or the operator vouches for it."""


class Right(StrEnum):
    """The right of a subject in a scope, from the least up; each includes those before it."""

    READ = "read"
    WRITE = "write"
    MANAGE = "manage"
    """Also the grants, and the tier."""


LEVELS = tuple(Trust)
"""From the least trusted up."""


class Origin(Returned, frozen=True):
    """A source that had a say in a memory, and its trust."""

    source: str | None = None
    """A URL, a tool, a person: as it was given; None: nobody said."""
    trust: Trust = Trust.UNKNOWN


UNSAID = Origin()
"""The origin of a memory without a named source."""


def least(origins: tuple[Origin, ...]) -> Trust:
    """Return the trust of what these have said together: that of the least trusted."""
    return min((one.trust for one in origins), key=LEVELS.index) if origins else Trust.UNKNOWN


class Sourced(Returned, frozen=True, kw_only=True):
    """The origins of a memory, as it tells them."""

    origins: tuple[Origin, ...] = ()
    """The sources it comes from, where somebody said; of a summary, those of its originals."""
    trust: Trust = Trust.UNKNOWN
    """The trust of the least trusted of its origins."""


Time: TypeAlias = date | str | float
"""A datetime (a naive one means UTC), a date (its beginning in UTC), ISO 8601, or the number of
seconds since 1970."""
AsOf: TypeAlias = int | date | str | None
"""A position of the log, a time (ISO 8601 will do), or None for now."""

IS_COMPRESSED = "is_compressed"
"""Said in the metadata of a memory whose content is stored compressed; not a caller's to set."""

JsonObject: TypeAlias = dict[str, Any]
"""JSON: strings as keys; values of str, int (64 bit), finite float, bool, None, list and dict."""
Metadata: TypeAlias = Mapping[str, Any]
"""A `JsonObject`, or any other mapping of the same values."""


OnDuplicate: TypeAlias = Literal["keep", "skip", "count"]
"""The fate of a fact that is there already: a memory of its own, nothing, or one that was seen
once more."""
Review: TypeAlias = Literal["untrusted", "extracted", "all"]
"""The memories that wait for a review: of untrusted sources, found by an extractor, or all."""
Order: TypeAlias = Literal["score", "kind"]
"""Of hits: the best first, or kind by kind, working memory first, the best of each first."""
Direction: TypeAlias = Literal["out", "in", "both"]
"""Of a relationship: from the source to the target, the other way, or whichever."""


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
    """The plan of a user: it sets the limits of their memory."""

    LOCAL = "local"
    """The default: no price, and room for 100,000 facts."""
    FREE = "free"
    PRO = "pro"
    ENTERPRISE = "enterprise"


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One memory to add with `add_many`."""

    content: str
    metadata: Metadata | None = None
    occurred_at: Time | None = None
    """The time it was true, in any form of `Time`; None means now."""
    session_id: str | None = None
    """None means the handle's."""
    role: str | None = None
    memory_id: str | None = None
    """An id of your own makes adding it again harmless; None generates one."""
    pinned: bool = False
    """A pinned memory is never pruned."""
    key: str | None = None
    """Working: the key; structured: the document's; entity: the name; context: the section."""
    times_seen: int = 1
    """Long-term: how often it was said, as another store has counted."""
    last_seen_at: Time | None = None
    """Long-term: when it was said last, if that is not `occurred_at`."""


class Receipt(Returned, frozen=True, kw_only=True):
    """The result of a write."""

    memory_id: str
    operation: str
    """add, add_with_prune, seen (it was there already, and counts once more), update, delete,
    restore, pending (it waits for a review), approve, reject, unchanged (it was so already), or
    forgotten (it is refused: `forgotten` tells)."""
    memory_type: str
    latency_ms: float
    quota_remaining: int
    """The number of this kind that still fits (short_term: in a session; episodic: of an agent)."""
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
    masked: Mapping[str, int] = {}
    """How often each label was masked in what was written (`Settings.redact`)."""


class Memory(Sourced, frozen=True, kw_only=True):
    """One memory as it is now."""

    memory_id: str
    content: str
    memory_type: str
    metadata: JsonObject
    """Yours, and `is_compressed: True` when the log stores the content compressed. A filter finds
    the others by `{"is_compressed": False}`."""
    created_at: datetime
    """The time the log got it."""
    occurred_at: datetime
    """The time it was true."""
    session_id: str | None = None
    role: str | None = None
    key: str | None = None
    """Working memory: its key."""
    pinned: bool = False
    """True if it is never pruned."""
    size_bytes: int = 0
    """Bytes of the content in UTF-8."""
    stored_bytes: int = 0
    """Bytes its events take in the log."""
    data: Any = None
    """Its content as JSON: the value of a key, the document, the parts of an entity, a relationship
    or an episode, what a summary was made of. None if `content` says everything.
    """
    source: str = "memory"
    """`compressed` for a summary that compaction put in the place of memories."""
    ttl_s: float | None = None
    """For a message that `short_term.messages` returns: the seconds it had left when it was read.
    Each message that is added renews the time of its whole session.
    """
    times_seen: int = 1
    """Long-term: how often it was said in the same words."""
    last_seen_at: datetime | None = None
    """Long-term: when it was said last."""
    agent_id: str | None = None
    """The agent that wrote it first."""
    expires_at: datetime | None = None
    """The end of its time to live; None: it stays."""


class Hit(Memory, frozen=True, kw_only=True):
    """One memory that a query found."""

    score: float
    """In [0, 1], comparable across queries: the chance that it answers. It depends on the memory
    and the query, not on how well others fit: use it for a threshold (`min_score`)."""
    answered: float = 0.0
    """The chance that the first hits of this search answer at all, the same in all of them."""
    passage: str = ""
    """The part of a long content that was found, below its heading; else the content."""
    signals: dict[str, float] | None = None
    """With `explain`: what each signal adds to the score, before it is brought to [0, 1]."""
    near_duplicates: tuple[str, ...] = ()
    """Ids of others that were found and say the same: they are no hits of their own."""
    superseded_by: str | None = None
    """The newest memory that says otherwise of the same."""
    scope: str | None = None
    """The user or scope that it is of, where several were asked: see `UserMemory.reads`."""
    held_until: datetime | None = None
    """The time of the first memory that says otherwise."""


class Hits(list[Hit]):
    """The memories that a query found, the best first: a list that notebooks draw."""

    @property
    def answered(self) -> float:
        """The chance, 0 to 1, that the first hits answer at all: low means "nothing is known"."""
        return self[0].answered if self else 0.0

    def to_pandas(self) -> "pd.DataFrame":
        """Return a data frame with a row for each hit, and a column for each signal.

        :raises MissingExtraError: pandas is not installed.
        """
        from memory_actors.base import notebook

        return notebook.frame(
            {**hit.to_dict(), **{f"signal_{name}": value for name, value in signals.items()}}
            for hit in self
            for signals in (hit.signals or {},)
        )

    def _repr_html_(self) -> str:
        from memory_actors.base import notebook  # with html: 10 ms that no program needs

        return notebook.hits_html(self)


class HistoryEntry(Returned, frozen=True, kw_only=True):
    """One event that touched a memory."""

    position: int
    """Place in the whole log."""
    version: int
    """Place in the user's stream."""
    recorded_at: datetime
    event: str
    """The event's tag, for example `long_term.added`."""
    data: JsonObject
    """The event's fields."""
    cause: dict[str, str]
    """The command that led to it, and the agent and session it came from."""


class Entity(Sourced, frozen=True, kw_only=True):
    """A person, a thing, a place, and what was observed of it."""

    memory_id: str
    name: str
    type: str
    observations: tuple[str, ...]
    metadata: JsonObject
    created_at: datetime
    occurred_at: datetime
    pinned: bool


class Relationship(Sourced, frozen=True, kw_only=True):
    """A relation of one entity to another, and the time in which it holds."""

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
    metadata: JsonObject
    created_at: datetime
    pinned: bool


class Neighbour(Returned, frozen=True, kw_only=True):
    """An entity that is reached from another one."""

    entity: Entity
    distance: int
    """The number of relationships between, from 1."""
    path: tuple[Relationship, ...]
    """The relationships from the start to this entity."""


class Step(Returned, frozen=True, kw_only=True):
    """One step of an episode."""

    number: int
    """From 1, in order, never used twice."""
    action: str
    observation: str | None = None
    outcome: str | None = None
    error: str | None = None


class EvictedStep(Returned, frozen=True, kw_only=True):
    """The trace of a step that made room for later ones of its episode."""

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
    """The steps that are kept: the first, the last, those with an error, and the newest others."""
    evicted: tuple[EvictedStep, ...]
    """The last of those that left."""
    steps_evicted: int
    """The number of steps that left."""
    metadata: JsonObject
    session_id: str | None
    created_at: datetime
    occurred_at: datetime
    pinned: bool
    original_count: int = 0
    """Above 0: its goal is a summary of so many episodes, and it has no steps."""


class Document(Sourced, frozen=True, kw_only=True):
    """One JSON document."""

    memory_id: str
    collection: str
    key: str
    value: JsonObject
    metadata: JsonObject
    created_at: datetime
    occurred_at: datetime
    pinned: bool
    size_bytes: int
    """Bytes of the value as JSON."""


class QuotaUse(Returned, frozen=True):
    """The use of one limit."""

    quota: str
    """The thing that is limited: memories, bytes, keys, …"""
    unit: str
    """count or bytes."""
    used: int
    """Used by the user, or by the fullest session or agent if each has the limit."""
    limit: int
    evicts: bool = False
    """True if it makes room by itself: it fills up by design and refuses nothing, so it raises no
    alert."""

    @property
    def percent(self) -> float:
        """Used of the limit, in percent; over 100 after a downgrade."""
        if not self.limit:
            return 100.0 if self.used else 0.0
        return 100.0 * self.used / self.limit


def as_record(kind: type[T], memory: Memory) -> T:
    """Return a memory as a record of its kind: the fields of any memory, then those of its data.

    The data win: the `source` of a relationship is a name.
    """
    fields = [name for name in kind.__struct_fields__ if name in Memory.__struct_fields__]
    return msgspec.convert(
        {**{name: getattr(memory, name) for name in fields}, **memory.data}, kind
    )
