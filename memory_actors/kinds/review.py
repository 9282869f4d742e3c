"""Review: memories that wait until somebody approves them.

An add that needs a review is decided as any other; then a `MemoryHeld` with the words takes the
place of the event that would begin the memory. A pending memory is in the state of no kind, so
nothing can see it. An approval is the same add again. Pending memories count: a decision gets the
limits without the room that they take (`left`), and usage and totals include it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog import EventRegistry, Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.origins import Origins, origins_of
from memory_actors.base.quota import Limits
from memory_actors.base.records import OnDuplicate
from memory_actors.kinds.commands import Add
from memory_actors.kinds.context.commands import AddEntry, DocumentRoom
from memory_actors.kinds.context.events import BlockInserted
from memory_actors.kinds.context.markdown import entry_text
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.entity import AddEntity
from memory_actors.kinds.entity.events import EntityAdded, RelationshipAdded
from memory_actors.kinds.entity.relationships import Relate
from memory_actors.kinds.kind import Kind, Part
from memory_actors.kinds.long_term.state import AddMemories, MemoryAdded
from memory_actors.kinds.past import Events
from memory_actors.kinds.rows import derived
from memory_actors.kinds.tombstones import PutTombstones

Words: TypeAlias = MemoryAdded | EntityAdded | RelationshipAdded | BlockInserted
Replaced: TypeAlias = Mapping[str, tuple[str, bytes]]

COUNTED: Final[Mapping[type, tuple[str, str, str]]] = {
    MemoryAdded: ("fact", "long_term_memories", "long_term_bytes"),
    EntityAdded: ("entity", "entities", "entity_bytes"),
    RelationshipAdded: ("relationship", "relationships", "entity_bytes"),
    BlockInserted: ("entry", "context_entries", "context_bytes"),
}
"""The field of `MemoryHeld` for the words of a memory, and the limits that it counts for."""
TOTALS: Final[Mapping[str, str]] = {
    "long_term_memories": "long_term.count",
    "long_term_bytes": "long_term.size_bytes",
    "entities": "entity.count",
    "relationships": "entity.relationships",
    "entity_bytes": "entity.size_bytes",
    "context_entries": "context.count",
    "context_bytes": "context.size_bytes",
}
"""These limits, and the totals over all users of the same."""

registry = EventRegistry()

# --- events


@registry.event("review.held", keys=lambda event: (event.memory_id,))
class MemoryHeld(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory waits for a review; one of the last four fields has its words."""

    memory_id: str
    kind: str
    until_us: int
    """The time at which the wait ends without an approval."""
    counted: dict[str, int]
    """The share of each limit that it takes, by the name of the limit."""
    expires_at_us: int | None = None
    """The time at which the memory expires, once it is approved."""
    on_duplicate: OnDuplicate = "keep"
    section: str = ""
    """The section of an entry."""
    replaces: tuple[str, bytes] | None = None
    """Id and digest of the fact that holds no more, once this one is approved."""
    fact: MemoryAdded | None = None
    entity: EntityAdded | None = None
    relationship: RelationshipAdded | None = None
    entry: BlockInserted | None = None

    @property
    def words(self) -> Words:
        """The event that would have begun the memory."""
        words = self.fact or self.entity or self.relationship or self.entry
        assert words is not None, "one of them is set"
        return words

    @property
    def facts(self) -> tuple[str, ...]:
        """The texts that are refused once it is rejected; names alone are not."""
        words = self.words
        if isinstance(words, EntityAdded):
            return tuple(one.text for one in words.observations)
        if isinstance(words, RelationshipAdded):
            return () if words.fact is None else (words.fact,)
        return (entry_text(words.raw) if isinstance(words, BlockInserted) else words.content,)

    @property
    def size_bytes(self) -> int:
        """Bytes of the text."""
        return max(self.counted.values())


@registry.event("review.closed", keys=lambda event: event.memory_ids)
class ReviewClosed(msgspec.Struct, frozen=True, kw_only=True):
    """Memories wait no longer."""

    memory_ids: tuple[str, ...]
    outcome: str
    """approved, rejected, expired, purged (or forgotten), or undone (with the extraction that had
    found them)."""


# --- state


class Pending(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A memory that waits, without its words."""

    version: int
    kind: str
    until_us: int
    counted: dict[str, int]
    origins: Origins


class Review(msgspec.Struct, frozen=True):
    """The pending memories by id, and what they take of the limits."""

    pending: Map[str, Pending] = Map()
    counted: Map[str, int] = Map()
    next_expiry_us: int = 0
    """No wait ends before this; 0 when none does."""

    def check(self, memory_ids: Iterable[str]) -> None:
        """See that all these memories wait.

        :raises NotFoundError: one does not.
        """
        for memory_id in memory_ids:
            if memory_id not in self.pending:
                raise NotFoundError(
                    f"no pending memory {memory_id!r}: `pending` lists those there are"
                )


class ReviewDump(msgspec.Struct, frozen=True):
    """The pending memories, in the order of their ids."""

    pending: dict[str, Pending] = {}


# --- commands


class Reject(PutTombstones, frozen=True, kw_only=True):
    """Reject pending memories, all or none, and refuse what they say from now on."""

    memory_ids: tuple[str, ...]


# --- decide


def held(
    command: Add,
    events: Sequence[Event],
    replaced: Replaced = MappingProxyType({}),
    growth_bytes: int = 0,
) -> Decision:
    """Return the events of an add that needs a review: its memories wait instead of beginning.

    `replaced` has, by the ids of facts, those that they are to replace; anything but facts would
    make its kind grow by `growth_bytes`.
    """
    if isinstance(command, AddMemories):
        return [
            replace(_held(command, one, [one]), replaces=replaced.get(one.memory_id))
            if isinstance(one, MemoryAdded)
            else one
            for one in events
        ]
    if isinstance(command, AddEntity):
        return [_held(command, command.entity, events, growth_bytes)] if events else []
    if isinstance(command, Relate):
        return [_held(command, command.relationship, events, growth_bytes)] if events else []
    assert isinstance(command, AddEntry), f"{type(command).__name__} cannot wait"
    entries = [one for one in events if isinstance(one, BlockInserted) and one.heading is None]
    return [_held(command, one, entries, growth_bytes) for one in entries]


def _held(command: Add, words: Words, events: Sequence[Event], growth_bytes: int = 0) -> MemoryHeld:
    """Return the event of a wait; without it, these events would have happened."""
    field, number, size = COUNTED[type(words)]
    begins = any(type(one) is type(words) for one in events)  # else an entity is there already
    assert command.held_until_us is not None
    again: OnDuplicate = "keep"
    if isinstance(command, AddMemories) and words.memory_id not in command.distinct:
        again = command.on_duplicate
    return MemoryHeld(
        memory_id=words.memory_id,
        kind=TOTALS[size].partition(".")[0],
        until_us=command.held_until_us,
        counted={size: words.size_bytes if isinstance(words, MemoryAdded) else growth_bytes}
        | ({number: 1} if begins else {}),
        expires_at_us=command.expires_at_us,
        on_duplicate=again,
        section=getattr(command, "section", ""),
        **cast("Any", {field: words}),
    )


def pending_row(kind: Kind, held: Recorded[MemoryHeld]) -> tuple[Any, Events]:
    """Return the row that a pending memory would have, and the event with its texts."""
    words = replace(held, data=held.data.words)
    row = kind.find(kind.fold(kind.initial, [words]), held.data.memory_id)
    return row, {held.version: words}


def approving(held: MemoryHeld, origins: Origins, now_us: int, room: DocumentRoom) -> Add:
    """Return the add that approves a pending memory."""
    on = {"now_us": now_us, "approves": held.memory_id, "expires_at_us": held.expires_at_us}
    words: Any = held.words
    if held.fact is not None:
        how = {"on_duplicate": held.on_duplicate, "origins": origins, "skip_forgotten": False}
        return derived(AddMemories, memories=(words,), **how, **on)
    if held.entity is not None:
        return derived(AddEntity, entity=words, **on)
    if held.relationship is not None:
        return derived(Relate, relationship=words, **on)
    text, heading_id = entry_text(words.raw), f"{held.memory_id}:section"
    said = {"text": text, "section": held.section, "heading_id": heading_id, "room": room}
    return derived(AddEntry, words, **said, **on)


def ended(state: Review, memory_ids: Iterable[str], outcome: str) -> list[ReviewClosed]:
    """Return the event that ends the wait of those memories that do; none if none does."""
    ids = tuple(one for one in memory_ids if one in state.pending)
    return [ReviewClosed(memory_ids=ids, outcome=outcome)] if ids else []


def left(limits: Limits, state: Review) -> Limits:
    """Return the limits without the room that pending memories take."""
    if not state.counted:
        return limits
    less = {name: getattr(limits, name) - taken for name, taken in state.counted.items()}
    return replace(limits, **less)


# --- the part


class ReviewPart(Part[Review]):
    """The pending memories of a user."""

    NAME = "review"
    registry = registry
    Dump = ReviewDump
    initial = Review()

    def fold(self, state: Review, events: Iterable[Recorded[Event]]) -> Review:
        """Fold events into the state."""
        pending, counted = state.pending.mutate(), Counter(state.counted)
        next_us, again = state.next_expiry_us, False
        for recorded in events:
            event = recorded.data
            if isinstance(event, MemoryHeld):
                own = {"version": recorded.version, "origins": origins_of(recorded)}
                pending[event.memory_id] = derived(Pending, event, **own)
                counted.update(event.counted)
                next_us = min(next_us or event.until_us, event.until_us)
            elif isinstance(event, ReviewClosed):
                gone = [pending.pop(one) for one in event.memory_ids if one in pending]
                for one in gone:
                    counted.subtract(one.counted)
                    again = again or one.until_us <= next_us
        after = pending.finish()
        if again:
            next_us = min((one.until_us for one in after.values()), default=0)
        return Review(after, Map(+counted), next_us)

    def dump(self, state: Review) -> ReviewDump:
        """Return the state as plain data."""
        return ReviewDump(dict(sorted(state.pending.items())))

    def load(self, dumped: ReviewDump) -> Review:
        """Return the state back."""
        counted, pending = Counter[str](), dumped.pending
        for one in pending.values():
            counted.update(one.counted)
        next_us = min((one.until_us for one in pending.values()), default=0)
        return Review(Map(pending), Map(counted), next_us)


PART = ReviewPart()
