"""The living long-term memories, summaries among them, and how events change them.

What an event says of a memory that is not there is passed over: see kinds/compression.py for why.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from eventlog import Recorded
from memory_actors.kinds.compression import (
    Compactable,
    CompactedDraft,
    Summaries,
    summary_fields,
)
from memory_actors.kinds.long_term import duplicates
from memory_actors.kinds.long_term.duplicates import Duplicates
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
    MemoryUpdated,
    SummaryEvent,
    Superseded,
)
from memory_actors.kinds.rows import Held, updated_row

SUPERSEDED_MAX = 8  # of a memory: the last ones say how things stand


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
    """When it was true last, if it was said again; else 0."""
    superseded: tuple[Superseded, ...] = ()
    """What was found to say otherwise since, in the order of the log."""
    settled: bool = False
    """Whether it was said to hold all the same."""


M = TypeVar("M", Row, MemoryRestored)


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
            draft.put(_new_row(event, recorded))
        elif isinstance(event, MemoryUpdated | MemorySeen | MemorySuperseded | MemoryReinstated):
            row = draft.rows.get(event.memory_id)
            if row is not None:
                draft.put(_changed(row, event, recorded))
        elif isinstance(event, MemoryDeleted | CompactionUndone):
            draft.discard((event.memory_id,))
        elif isinstance(event, SummaryEvent):
            if isinstance(event, MemoriesCompressed):
                draft.discard(event.compressed_from_ids)
            draft.put(_summary_row(event, recorded))
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
            duplicates.put(self.duplicates, row)

    def drop(self, memory_id: str) -> Row:
        """Take a row away and return it."""
        self._forget(memory_id)
        return super().drop(memory_id)

    def _forget(self, memory_id: str) -> None:
        row = self.rows.get(memory_id)
        if row is not None and not row.original_count:
            duplicates.drop(self.duplicates, row)

    def discard(self, memory_ids: Sequence[str]) -> None:
        """Take rows away where they are there."""
        for memory_id in memory_ids:
            if memory_id in self.rows:
                self.drop(memory_id)

    def folded(self) -> LongTerm:
        """Return what has become of the state."""
        return LongTerm(self.finish(), self.pruned, self.summaries, self.duplicates.finish())


def _new_row(event: MemoryAdded, recorded: Recorded[Event]) -> Row:
    again = event if isinstance(event, MemoryRestored) else None
    return Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
        created_at_us=recorded.recorded_at_us if again is None else again.created_at_us,
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        digest=event.digest,
        session_id=event.session_id,
        role=event.role,
        began=recorded.version,
        pinned=event.pinned,
        keep=again is not None and again.keep,
        same=event.same,
        times_seen=event.times_seen,
        last_seen_us=event.last_seen_us,
        superseded=() if again is None else again.superseded,
        settled=again is not None and again.settled,
    )


def _changed(
    row: Row,
    event: MemoryUpdated | MemorySeen | MemorySuperseded | MemoryReinstated,
    recorded: Recorded[Any],
) -> Row:
    """Return a row after an event about it alone."""
    if isinstance(event, MemoryUpdated):
        return updated_row(row, event, recorded, **_reworded(event))
    if isinstance(event, MemorySeen):
        return _seen_row(row, event)
    return standing(row, event, recorded.recorded_at_us)


def _reworded(event: MemoryUpdated) -> dict[str, Any]:
    """Return what of a row changes with its text: what it says now was said once."""
    return {
        "digest": event.digest, "same": event.same, "times_seen": 1, "last_seen_us": 0,
        "superseded": (), "settled": False,
    }  # fmt: skip


def _seen_row(row: Row, event: MemorySeen) -> Row:
    last_us = max(row.last_seen_us, row.occurred_at_us, event.occurred_at_us)
    return msgspec.structs.replace(row, times_seen=row.times_seen + 1, last_seen_us=last_us)


def standing(memory: M, event: MemorySuperseded | MemoryReinstated, at_us: int) -> M:
    """Return a memory that something newer speaks against, or that holds all the same."""
    if isinstance(event, MemoryReinstated):
        return msgspec.structs.replace(memory, superseded=(), settled=True)
    mark = Superseded(by=event.superseded_by_id, digest=event.digest, at_us=at_us)
    marks = (*memory.superseded, mark)[-SUPERSEDED_MAX:]
    return msgspec.structs.replace(memory, superseded=marks)


def _summary_row(event: SummaryEvent, recorded: Recorded[Event]) -> Row:
    fields = summary_fields(event, recorded)
    return Row(**fields, digest=event.digest, session_id=None, role=None, began=recorded.version)


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
