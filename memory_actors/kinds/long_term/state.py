"""The living long-term memories, summaries among them, and how events change them.

What an event says of a memory that is not there is passed over: see kinds/compacting.py for why.

Two memories say the same if their texts are the same after `phrasing.normalised`, with who says
them, in the same session and with the same metadata: else each knows something that the other does
not. Nor are those duplicates that come from elsewhere: each source is trusted, or purged, by itself
(the state of origins is not this kind's, so a command brings it along). A memory is found by a key
made of all that must be the same, which is compared in full afterwards.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds import passages
from memory_actors.kinds.compacting import (
    Compactable,
    CompactedDraft,
    Summaries,
    summary_again,
    summary_row,
)
from memory_actors.kinds.last_rows import Life, Lives
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    Event,
    MemoriesCompressed,
    MemoriesPruned,
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
from memory_actors.kinds.packed import NO_KEY, Form, Packed, PackedRows
from memory_actors.kinds.rows import Held, derived, new_row, updated_row
from memory_actors.kinds.tainted import TaintedPast

_KEY_BYTES = 8
SUPERSEDED_MAX = 8  # of a memory: the last ones say how things stand
AboutOne: TypeAlias = (
    MemoryUpdated | MemorySeen | MemorySuperseded | MemoryUnmarked | MemoryReinstated
)
"""Changes one living memory."""

# --- which say the same

Identity: TypeAlias = tuple[bytes, str | None, bytes]
"""The digest of the text, the session, the metadata as JSON."""


def identity(one: Any) -> Identity:
    """Return what is the same of those that say the same as a row, or a `MemoryAdded`."""
    told = msgspec.json.encode(one.metadata, order="sorted") if one.metadata else b""
    return one.same or one.digest, one.session_id, told


def duplicate_key(one: Any) -> int:
    """Return a number that is the same of those that say the same, and seldom of others."""
    said, session_id, told = identity(one)
    where = zlib.crc32(session_id.encode()) if session_id else 0
    where = zlib.crc32(told, where) if told else where
    return int.from_bytes(said[:_KEY_BYTES]) ^ where or 1


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


def _key(row: Row) -> int:
    return NO_KEY if row.original_count else duplicate_key(row)


ROWS = Form(Row, _key)


class LongTerm(msgspec.Struct, frozen=True):
    """The living memories, and how many were pruned so far."""

    held: Held[Row] = Held(PackedRows(ROWS))
    pruned: int = 0
    summaries: Summaries = Summaries()

    def named(self, one: Any) -> list[str]:
        """Return the memories that may say the same as a row, or a `MemoryAdded`, by their ids."""
        return self.rows.with_key(duplicate_key(one))

    @property
    def rows(self) -> PackedRows[Row]:
        """The rows by id."""
        assert isinstance(self.held.rows, PackedRows)
        return self.held.rows


initial = LongTerm()


def fold(state: LongTerm, events: Iterable[Recorded[Event]]) -> LongTerm:
    """Fold many events into the state."""
    draft = _Draft(state)
    for recorded in events:
        _FOLD[type(recorded.data)](draft, recorded.data, recorded)
    return draft.folded()


class _Draft(CompactedDraft[Row]):
    """The rows of a state that change in place."""

    __slots__ = ("pruned",)

    def __init__(self, state: LongTerm):
        super().__init__(state.held, state.summaries)
        self.pruned = state.pruned

    def folded(self) -> LongTerm:
        """Return what has become of the state."""
        return LongTerm(self.finish(), self.pruned, self.summaries)


def _add(draft: _Draft, event: MemoryAdded, recorded: Recorded[Event]) -> None:
    parts = passages.digests(event.content, event.role)
    draft.put(new_row(Row, recorded, began=recorded.version, digests=parts))


def _change(draft: _Draft, event: AboutOne, recorded: Recorded[Event]) -> None:
    row = draft.rows.get(event.memory_id)
    if row is not None:
        draft.put(_changed(row, event, recorded))


def _delete(draft: _Draft, event: MemoryDeleted | CompactionUndone, _: Recorded[Event]) -> None:
    draft.discard(event.memory_id)


def _prune(draft: _Draft, event: MemoriesPruned, _recorded: Recorded[Event]) -> None:
    for memory_id in event.memory_ids:
        draft.discard(memory_id)
    draft.pruned += len(event.memory_ids)


def _compress(draft: _Draft, event: MemoriesCompressed, recorded: Recorded[Event]) -> None:
    for memory_id in event.compressed_from_ids:
        draft.discard(memory_id)
    _summarise(draft, event, recorded)


def _summarise(draft: _Draft, _event: SummaryEvent, recorded: Recorded[Event]) -> None:
    draft.put(summary_row(Row, recorded, session_id=None, role=None, began=recorded.version))


_FOLD: Mapping[type, Callable[[_Draft, Any, Recorded[Any]], None]] = {
    MemoryAdded: _add,
    MemoryRestored: _add,
    MemoryUpdated: _change,
    MemorySeen: _change,
    MemorySuperseded: _change,
    MemoryUnmarked: _change,
    MemoryReinstated: _change,
    MemoryDeleted: _delete,
    CompactionUndone: _delete,
    MemoriesPruned: _prune,
    MemoriesCompressed: _compress,
    SummaryAdded: _summarise,
}


def _changed(row: Row, event: AboutOne, recorded: Recorded[Any]) -> Row:
    """Return a row after an event about it alone."""
    if isinstance(event, MemoryUpdated):
        # What it says now was said once.
        parts = () if event.content is None else passages.digests(event.content, row.role)
        said = {"times_seen": 1, "last_seen_us": 0, "superseded": (), "settled": False}
        said |= {"digest": event.digest, "same": event.same, "digests": parts}
        return updated_row(row, event, recorded, **said)
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
    """The state as it is held, in one piece."""

    rows: Packed = Packed()
    size_bytes: int = 0
    stored_bytes: int = 0
    pruned: int = 0
    summaries: tuple[str, ...] = ()
    originals: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def dump(state: LongTerm) -> Dump:
    """Return the state as plain data."""
    held, sums = state.held, state.summaries
    told = {"summaries": tuple(sorted(sums.ids)), "pruned": state.pruned}
    return derived(Dump, held, sums, rows=state.rows.packed(), **told)


def load(dumped: Dump) -> LongTerm:
    """Return the state back."""
    rows = PackedRows.unpacked(ROWS, dumped.rows)
    summaries = derived(Summaries, dumped, ids=Map(dict.fromkeys(dumped.summaries)))
    return LongTerm(derived(Held, dumped, rows=rows), dumped.pruned, summaries)


def in_one_piece(state: LongTerm) -> LongTerm:
    """Return the same state with all rows packed, which take less room so. Slow: for a thread."""
    return replace(state, held=replace(state.held, rows=state.rows.in_one_piece()))


def over(now: LongTerm, then: LongTerm, packed: LongTerm) -> LongTerm:
    """Return a state as changes of a packed one, which is the one that there was `then`."""
    return replace(now, held=replace(now.held, rows=now.rows.over(then.rows, packed.rows)))


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
    return [derived(MemoryUpdated, then, same=b"", pinned=None)]


def returning(past: TaintedPast, _limits: Limits) -> list[Restored] | None:
    """Return the event that brings an original back with what others have said of it."""
    then = _left(past)
    return None if then is None else [then]


def _left(past: TaintedPast) -> Restored | None:
    try:
        return as_it_was(LIVES.last(past.memory_id, past.cleaned(MemoryAdded)))
    except NotFoundError:
        return None
