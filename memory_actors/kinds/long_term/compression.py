"""Summaries in the place of memories: how one takes it, how it is undone, what comes back."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from eventlog import Dropped, Recorded
from memory_actors.kinds.compression import (
    are_as_read,
    coming_back,
    compressible,
    refuse_lost,
    summary_to_undo,
)
from memory_actors.kinds.long_term.commands import CompressMemories, UndoCompaction
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    Event,
    MemoryAdded,
    MemoryReinstated,
    MemoryRestored,
    MemorySeen,
    MemorySuperseded,
    MemoryUpdated,
    SummaryAdded,
    SummaryEvent,
)
from memory_actors.kinds.long_term.state import LongTerm, standing

Restored = MemoryRestored | SummaryAdded


def compress(command: CompressMemories, state: LongTerm) -> Sequence[Event]:
    """Replace the originals by the summary, if every one of them is as it was read."""
    rows = state.held.rows
    if not are_as_read(command, rows):
        return []
    may = all(compressible(rows[memory_id]) for memory_id, _ in command.originals)
    return [command.summary] if may else []


def undo(command: UndoCompaction, state: LongTerm) -> tuple[CompactionUndone, list[Restored]]:
    """Return what takes a summary away and what brings back those originals that do not live.

    :raises NotFoundError: there is no such summary, or an original is not in the log any more.
    """
    summary_to_undo(command, state.held.rows)
    return CompactionUndone(memory_id=command.memory_id), gone_as_it_was(
        command.memory_ids, command.past, state
    )


def gone_as_it_was(
    memory_ids: Sequence[str], past: Mapping[str, Sequence[Recorded[Any]]], state: LongTerm
) -> list[Restored]:
    """Return those of some memories that do not live, each once, as its last events left it.

    :raises NotFoundError: one never was, or its text was dropped by retention.
    """
    gone = dict.fromkeys(one for one in memory_ids if one not in state.held.rows)
    return [as_it_was(memory_id, past.get(memory_id, ())) for memory_id in gone]


def as_it_was(memory_id: str, past: Sequence[Recorded[Any]]) -> Restored:
    """Return a memory, alive or not, as these events left it.

    :raises NotFoundError: it never was, or its text was dropped by retention.
    """
    memory: Restored | None = None
    dropped: Dropped | None = None
    for recorded in past:
        event = recorded.data
        if isinstance(event, Dropped):
            memory, dropped = None, event
        elif isinstance(event, MemoryAdded | SummaryEvent):
            memory = _coming_back(memory_id, memory, event, recorded.recorded_at_us)
        elif isinstance(event, MemoryUpdated) and memory is not None:
            memory = _with_update(memory, event)
        elif isinstance(event, MemorySeen) and isinstance(memory, MemoryRestored):
            memory = _seen_again(memory, event)
        elif (
            isinstance(event, MemorySuperseded | MemoryReinstated)
            and isinstance(memory, MemoryRestored)
            and event.memory_id == memory_id
        ):
            memory = standing(memory, event, recorded.recorded_at_us)
    if memory is None:
        refuse_lost(memory_id, dropped)
    return memory


def _coming_back(
    memory_id: str, memory: Restored | None, event: MemoryAdded | SummaryEvent, recorded_at_us: int
) -> Restored | None:
    """Return a memory after an event that it began with, came back with, or was compressed by."""
    if isinstance(event, MemoryRestored):
        return event
    fields: dict[str, Any] = msgspec.structs.asdict(event)
    if isinstance(event, MemoryAdded):
        return MemoryRestored(**fields, created_at_us=recorded_at_us)
    if event.memory_id != memory_id:
        assert isinstance(memory, MemoryRestored | None), "a summary is never compressed"
        return None if memory is None else msgspec.structs.replace(memory, keep=True)
    return SummaryAdded(**coming_back(event, recorded_at_us))


def _with_update(memory: Restored, event: MemoryUpdated) -> Restored:
    changed: dict[str, Any] = {} if event.metadata is None else {"metadata": event.metadata}
    if event.content is not None:
        changed |= {
            "content": event.content, "size_bytes": event.size_bytes, "digest": event.digest,
            "same": event.same, "times_seen": 1, "last_seen_us": 0,
        }  # fmt: skip
        if isinstance(memory, MemoryRestored):
            changed |= {"superseded": (), "settled": False}
    return msgspec.structs.replace(memory, **changed)


def _seen_again(memory: MemoryRestored, event: MemorySeen) -> MemoryRestored:
    last_us = max(memory.last_seen_us, memory.occurred_at_us, event.occurred_at_us)
    return msgspec.structs.replace(memory, times_seen=memory.times_seen + 1, last_seen_us=last_us)
