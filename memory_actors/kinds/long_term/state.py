"""The living long-term memories, summaries among them, and how events change them.

What an event says of a memory that is not there is passed over: see kinds/compression.py for why.

Two memories say the same if their texts are the same after `phrasing.normalised`, with who says
them, in the same session and with the same metadata: else each knows something that the other does
not. Nor are those duplicates that come from elsewhere: each source is trusted, or purged, by itself
(the state of origins is not this kind's, so a command brings it along). A memory is found by a hash
of all that must be the same, which is compared in full afterwards. It takes some 100 bytes a
memory. Python salts its hashes, so they stay in the process.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from immutables import Map, MapMutation
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds.compression import (
    Compactable,
    CompactedDraft,
    Summaries,
    summary_again,
    summary_row,
)
from memory_actors.kinds.lives import Life, Lives
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    Event,
    MemoriesCompressed,
    MemoryAdded,
    MemoryDeleted,
    MemoryReinstated,
    MemoryRestored,
    MemorySeen,
    MemorySuperseded,
    MemoryUnmarked,
    MemoryUpdated,
    SummaryAdded,
    SummaryEvent,
    Superseded,
    registry,
)
from memory_actors.kinds.rows import Held, derived, new_row, updated_row
from memory_actors.kinds.tainted import TaintedPast

SUPERSEDED_MAX = 8  # of a memory: the last ones say how things stand
AboutOne: TypeAlias = (
    MemoryUpdated | MemorySeen | MemorySuperseded | MemoryUnmarked | MemoryReinstated
)
"""Changes one living memory."""

# --- which say the same

Duplicates: TypeAlias = Map[int, str | tuple[str, ...]]
"""By hash: the id of a memory, or of several, in order, that were all kept."""


Identity: TypeAlias = tuple[bytes, str | None, bytes]
"""The digest of the text, the session, the metadata as JSON."""


def identity(one: Any) -> Identity:
    """Return what is the same of those that say the same as a row, or a `MemoryAdded`."""
    told = msgspec.json.encode(one.metadata, order="sorted") if one.metadata else b""
    return one.same or one.digest, one.session_id, told


def named(known: Duplicates, one: Any) -> Iterator[str]:
    """Yield the memories that may say the same, in the order of their ids."""
    ids = known.get(hash(identity(one)), ())
    yield from (ids,) if isinstance(ids, str) else ids


def _note(draft: MapMutation[int, str | tuple[str, ...]], one: Any) -> None:
    """Take note of a memory."""
    key, memory_id = hash(identity(one)), one.memory_id
    ids = draft.get(key)
    if ids is None:
        draft[key] = memory_id
    else:
        draft[key] = tuple(sorted((memory_id, ids) if isinstance(ids, str) else (memory_id, *ids)))


def _forget(draft: MapMutation[int, str | tuple[str, ...]], one: Any) -> None:
    """Forget a memory."""
    key = hash(identity(one))
    ids = draft[key]
    left = () if isinstance(ids, str) else tuple(known for known in ids if known != one.memory_id)
    if left:
        draft[key] = left if len(left) > 1 else left[0]
    else:
        del draft[key]


# --- state


class Row(Compactable, frozen=True, kw_only=True, array_like=True, gc=False):
    """A memory without its text."""

    digest: bytes
    session_id: str | None
    role: str | None
    began: int
    """Version of the event that added it, or brought it back: its place in its session."""
    same: bytes = b""
    """Digest of the text normalised, where that is another one than `digest`."""
    times_seen: int = 1
    last_seen_us: int = 0
    """The time at which it was true last, if it was said again; else 0."""
    superseded: tuple[Superseded, ...] = ()
    """Marks of newer memories that say otherwise, in the order of the log."""
    settled: bool = False
    """True if it was said to hold all the same."""


class LongTerm(msgspec.Struct, frozen=True):
    """The living memories, and how many were pruned so far."""

    held: Held[Row] = Held()
    pruned: int = 0
    summaries: Summaries = Summaries()
    duplicates: Duplicates = Duplicates()


initial = LongTerm()


def evolve(state: LongTerm, recorded: Recorded[Event]) -> LongTerm:
    """Fold one event into the state."""
    return fold(state, (recorded,))


def fold(state: LongTerm, events: Iterable[Recorded[Event]]) -> LongTerm:
    """Fold many events into the state."""
    draft = _Draft(state)
    for recorded in events:
        event = recorded.data
        if isinstance(event, MemoryAdded):
            draft.put(new_row(Row, recorded, began=recorded.version))
        elif isinstance(event, AboutOne):
            row = draft.rows.get(event.memory_id)
            if row is not None:
                draft.put(_changed(row, event, recorded))
        elif isinstance(event, MemoryDeleted | CompactionUndone):
            draft.discard((event.memory_id,))
        elif isinstance(event, SummaryEvent):
            if isinstance(event, MemoriesCompressed):
                draft.discard(event.compressed_from_ids)
            draft.put(
                summary_row(Row, recorded, session_id=None, role=None, began=recorded.version)
            )
        else:
            draft.discard(event.memory_ids)
            draft.pruned += len(event.memory_ids)
    return draft.folded()


class _Draft(CompactedDraft[Row]):
    """The rows of a state that change in place."""

    __slots__ = ("duplicates", "pruned")

    def __init__(self, state: LongTerm):
        super().__init__(state.held, state.summaries)
        self.pruned = state.pruned
        self.duplicates = state.duplicates.mutate()

    def put(self, row: Row) -> None:
        """Add a row, or replace the one with its id."""
        self._forget(row.memory_id)
        super().put(row)
        if not row.original_count:
            _note(self.duplicates, row)

    def drop(self, memory_id: str) -> Row:
        """Take a row away and return it."""
        self._forget(memory_id)
        return super().drop(memory_id)

    def _forget(self, memory_id: str) -> None:
        row = self.rows.get(memory_id)
        if row is not None and not row.original_count:
            _forget(self.duplicates, row)

    def discard(self, memory_ids: Sequence[str]) -> None:
        """Take rows away where they are there."""
        for memory_id in memory_ids:
            if memory_id in self.rows:
                self.drop(memory_id)

    def folded(self) -> LongTerm:
        """Return what has become of the state."""
        return LongTerm(self.finish(), self.pruned, self.summaries, self.duplicates.finish())


def _changed(row: Row, event: AboutOne, recorded: Recorded[Any]) -> Row:
    """Return a row after an event about it alone."""
    if isinstance(event, MemoryUpdated):
        # What it says now was said once.
        said = {"times_seen": 1, "last_seen_us": 0, "superseded": (), "settled": False}
        return updated_row(row, event, recorded, digest=event.digest, same=event.same, **said)
    if isinstance(event, MemorySeen):
        last_us = max(row.last_seen_us, row.occurred_at_us, event.occurred_at_us)
        return replace(row, times_seen=row.times_seen + 1, last_seen_us=last_us)
    if isinstance(event, MemoryReinstated):
        return replace(row, superseded=(), settled=True)
    if isinstance(event, MemoryUnmarked):
        of = event.superseded_by_id, event.digest
        left = tuple(mark for mark in row.superseded if (mark.by, mark.digest) != of)
        return replace(row, superseded=left)
    mark = Superseded(by=event.superseded_by_id, digest=event.digest, at_us=recorded.recorded_at_us)
    return replace(row, superseded=(*row.superseded, mark)[-SUPERSEDED_MAX:])


# --- snapshot


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their texts' versions."""

    rows: list[Row] = []
    pruned: int = 0


def dump(state: LongTerm) -> Dump:
    """Return the state as plain rows."""
    return Dump(state.held.in_order(), state.pruned)


def load(dumped: Dump) -> LongTerm:
    """Return the state back."""
    draft = _Draft(initial)
    for row in dumped.rows:
        draft.put(row)
    draft.pruned = dumped.pruned
    return draft.folded()


# --- look-ups


def find(state: LongTerm, memory_id: str) -> Row | None:
    """Return a living memory's row."""
    return state.held.rows.get(memory_id)


def age(row: Row) -> tuple[int, int]:
    """Return what orders memories by when they were last true, then by when they were said."""
    return _true_since_us(row), row.version


def _true_since_us(row: Row) -> int:
    return max(row.occurred_at_us, row.last_seen_us)


def newer_ones(row: Row, rows: Mapping[str, Row], as_of_us: int | None = None) -> list[Row]:
    """Return the living memories that say otherwise, the newest first, as known at a time.

    Of those that are true since the same time the one that was recorded last is the newest. Their
    versions do not tell: one that went and came back has a later version than it had.
    """
    found = [
        newer
        for mark in reversed(row.superseded)
        if as_of_us is None or mark.at_us <= as_of_us
        if (newer := rows.get(mark.by)) is not None and newer.digest == mark.digest
    ]
    return sorted(found, key=_true_since_us, reverse=True)


# --- a memory that has gone

LIVES = Lives("memory", registry, initial, fold, find)
Restored: TypeAlias = MemoryRestored | SummaryAdded


def as_it_was(life: Life[Row]) -> Restored:
    """Return the event by which a memory comes back, or a summary."""
    row, began = life.row, life.events[0].data
    if isinstance(began, SummaryEvent):
        return summary_again(SummaryAdded, began, row)
    content = life.by_version[row.version].data.content
    return derived(MemoryRestored, row, content=content, keep=row.keep or life.compressed)


def without(
    past: TaintedPast, row: Row, _state: LongTerm, _limits: Limits
) -> list[MemoryUpdated] | None:
    """Return the event that makes a memory say what others have said of it last."""
    then = _left(past)
    if then is None or isinstance(then, SummaryAdded):
        return None
    # Said again even where nothing changes: what is not in its log was not purged.
    if then.digest == row.digest:
        return [MemoryUpdated(memory_id=row.memory_id, metadata=then.metadata)]
    return [derived(MemoryUpdated, then, same=b"")]


def returning(past: TaintedPast, _limits: Limits) -> list[Restored] | None:
    """Return the event that brings an original back with what others have said of it."""
    then = _left(past)
    return None if then is None else [then]


def _left(past: TaintedPast) -> Restored | None:
    try:
        return as_it_was(LIVES.last(past.memory_id, past.cleaned(MemoryAdded)))
    except NotFoundError:
        return None
