"""The living long-term memories, summaries among them, and how events change them.

Retention may have dropped payloads of events, and a fold passes over those (see user_state.py).
Only events about compressed originals are ever archived, and only those before the compression. So
what a later event says of a memory that is not there was about such an original, which is gone by
the end in any case, and is passed over too.
"""

from collections.abc import Iterable, Sequence

import msgspec
from immutables import Map

from eventlog import Recorded
from memory_actors.kinds import kind
from memory_actors.kinds.held import Draft, Held
from memory_actors.kinds.kind import updated_row
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    Event,
    MemoriesCompressed,
    MemoryAdded,
    MemoryDeleted,
    MemoryRestored,
    MemoryUpdated,
    Summary,
    SummaryAdded,
)


class Row(kind.Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A memory without its text."""

    digest: bytes
    session_id: str | None
    role: str | None
    pinned: bool
    keep: bool = False
    """It came back out of a summary: it is not compressed again."""
    original_count: int = 0
    """Above 0: this is a summary of so many memories."""
    bytes_before: int = 0
    """Of a summary: what its originals said, in bytes."""
    digests: tuple[bytes, ...] = ()
    """Of a summary: those of its passages."""


class Summaries(msgspec.Struct, frozen=True):
    """Which of the living memories are summaries, and what they stand for."""

    ids: Map[str, None] = Map()
    originals: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


class LongTerm(msgspec.Struct, frozen=True):
    """The living memories, and how many were pruned so far."""

    held: Held[Row] = Held()
    pruned: int = 0
    summaries: Summaries = Summaries()


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
            draft.put(_new_row(event, recorded))
        elif isinstance(event, MemoryUpdated):
            row = draft.rows.get(event.memory_id)
            if row is not None:
                draft.put(updated_row(row, event, recorded, digest=event.digest))
        elif isinstance(event, MemoryDeleted | CompactionUndone):
            draft.discard((event.memory_id,))
        elif isinstance(event, Summary):
            if isinstance(event, MemoriesCompressed):
                draft.discard(event.compressed_from_ids)
            draft.put(_summary_row(event, recorded))
        else:
            draft.discard(event.memory_ids)
            draft.pruned += len(event.memory_ids)
    return draft.folded()


class _Draft(Draft[Row]):
    """The rows of a state that change in place, with what its summaries add up to."""

    __slots__ = ("bytes_after", "bytes_before", "ids", "originals", "pruned")

    def __init__(self, state: LongTerm):
        super().__init__(state.held)
        self.pruned = state.pruned
        self.ids, self.originals = state.summaries.ids, state.summaries.originals
        self.bytes_before = state.summaries.bytes_before
        self.bytes_after = state.summaries.bytes_after

    def put(self, row: Row) -> None:
        """Add a row, or replace the one with its id."""
        old = self.rows.get(row.memory_id)
        if old is not None and old.original_count:
            self._count(old, -1)
        super().put(row)
        if row.original_count:
            self._count(row, +1)

    def discard(self, memory_ids: Sequence[str]) -> None:
        """Take rows away where they are there."""
        for memory_id in memory_ids:
            if memory_id in self.rows:
                row = self.drop(memory_id)
                if row.original_count:
                    self._count(row, -1)

    def _count(self, row: Row, sign: int) -> None:
        memory_id = row.memory_id
        self.ids = self.ids.set(memory_id, None) if sign > 0 else self.ids.delete(memory_id)
        self.originals += sign * row.original_count
        self.bytes_before += sign * row.bytes_before
        self.bytes_after += sign * row.size_bytes

    def folded(self) -> LongTerm:
        """Return what has become of the state."""
        summaries = Summaries(self.ids, self.originals, self.bytes_before, self.bytes_after)
        return LongTerm(self.finish(), self.pruned, summaries)


def _new_row(event: MemoryAdded, recorded: Recorded[Event]) -> Row:
    again = event if isinstance(event, MemoryRestored) else None
    return Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        created_at_us=recorded.recorded_at_us if again is None else again.created_at_us,
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        digest=event.digest,
        session_id=event.session_id,
        role=event.role,
        pinned=event.pinned,
        keep=again is not None and again.keep,
    )


def _summary_row(event: Summary, recorded: Recorded[Event]) -> Row:
    created_at_us = event.created_at_us if isinstance(event, SummaryAdded) else None
    return Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        created_at_us=recorded.recorded_at_us if created_at_us is None else created_at_us,
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        digest=event.digest,
        session_id=None,
        role=None,
        pinned=False,
        original_count=event.original_count,
        bytes_before=event.bytes_before,
        digests=tuple(passage.digest for passage in event.passages),
    )


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
