"""Summaries in the place of memories: what may be compressed, how it is undone, what comes back."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from eventlog import Dropped, Recorded
from memory_actors.errors import NotFoundError
from memory_actors.kinds.long_term.commands import CompressMemories, UndoCompaction
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    Event,
    MemoryAdded,
    MemoryRestored,
    MemoryUpdated,
    Summary,
    SummaryAdded,
    SummaryPassage,
)
from memory_actors.kinds.long_term.state import LongTerm, Row
from memory_actors.phrasing import text_digest

PASSAGE_CHARACTERS_MAX = 600  # some 150 tokens: a model that reads 256 reads all of it
_HEADING = ("[Summary of ", "]: ")

Restored = MemoryRestored | SummaryAdded


def compressible(row: Row) -> bool:
    """Say whether a memory may be compressed; how old it is is for others to see."""
    return not (row.pinned or row.keep or row.original_count)


def compress(command: CompressMemories, state: LongTerm) -> Sequence[Event]:
    """Replace the originals by the summary, if every one of them is as it was read."""
    rows = state.held.rows
    found = [(rows.get(memory_id), version) for memory_id, version in command.originals]
    same = all(
        row is not None and compressible(row) and row.version == version for row, version in found
    )
    return [command.summary] if same and command.summary.memory_id not in rows else []


def undo(command: UndoCompaction, state: LongTerm) -> tuple[CompactionUndone, list[Restored]]:
    """Return what takes a summary away and what brings back those originals that do not live.

    :raises NotFoundError: there is no such summary, or an original is not in the log any more.
    """
    summary = state.held.rows.get(command.memory_id)
    if summary is None or not summary.original_count:
        raise NotFoundError(f"no compressed memory {command.memory_id!r}: it may have gone")
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
    return [_as_it_was(memory_id, past.get(memory_id, ())) for memory_id in gone]


def _as_it_was(memory_id: str, past: Sequence[Recorded[Any]]) -> Restored:
    memory: Restored | None = None
    dropped: Dropped | None = None
    for recorded in past:
        event = recorded.data
        if isinstance(event, Dropped):
            memory, dropped = None, event
        elif isinstance(event, MemoryAdded | Summary):
            memory = _coming_back(memory_id, memory, event, recorded.recorded_at_us)
        elif isinstance(event, MemoryUpdated) and memory is not None:
            memory = _with_update(memory, event)
    if memory is not None:
        return memory
    if dropped is not None:
        raise NotFoundError(
            f"memory {memory_id!r} cannot come back: retention dropped what it said on "
            f"{dropped.since:%Y-%m-%d}; its summary is what is left"
        )
    raise NotFoundError(f"no memory {memory_id!r} to restore: it was never there")


def _coming_back(
    memory_id: str, memory: Restored | None, event: MemoryAdded | Summary, recorded_at_us: int
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
    return SummaryAdded(**{"created_at_us": None, **fields} | _first_seen(event, recorded_at_us))


def _first_seen(event: Summary, recorded_at_us: int) -> dict[str, int]:
    known = event.created_at_us if isinstance(event, SummaryAdded) else None
    return {"created_at_us": recorded_at_us if known is None else known}


def _with_update(memory: Restored, event: MemoryUpdated) -> Restored:
    changed: dict[str, Any] = {} if event.metadata is None else {"metadata": event.metadata}
    if event.content is not None:
        changed |= {
            "content": event.content, "size_bytes": event.size_bytes, "digest": event.digest,
        }  # fmt: skip
    return msgspec.structs.replace(memory, **changed)


# --- what a summary is found by


def passages_of(content: str) -> tuple[SummaryPassage, ...]:
    """Return the parts of a summary that are found on their own, its heading left out.

    A summary is longer than a model reads, and one vector for a hundred memories is near to none of
    them. So it is found by its parts: each has its own vector and token states, computed from its
    text like any other, so that they can be made again from the log when derived data is lost.
    """
    return tuple(
        SummaryPassage(start, end, text_digest(content[start:end]))
        for start, end in _spans(content)
    )


def _spans(content: str) -> Iterator[tuple[int, int]]:
    start = _heading_length(content)
    while start < len(content):
        end = _end(content, start)
        if content[start:end].strip():
            yield start, end
        start = end


def _heading_length(content: str) -> int:
    opening, closing = _HEADING
    end = content.find(closing) + len(closing)
    has_one = content.startswith(opening) and end >= len(closing) and content[end:].strip()
    return end if has_one else 0


def _end(content: str, start: int) -> int:
    """Return where a part ends: after a line, a sentence or a word in its second half."""
    if len(content) - start <= PASSAGE_CHARACTERS_MAX:
        return len(content)
    half = start + PASSAGE_CHARACTERS_MAX // 2
    for mark in ("\n", ". ", " "):
        at = content.rfind(mark, half, start + PASSAGE_CHARACTERS_MAX)
        if at >= 0:
            return at + len(mark)
    return start + PASSAGE_CHARACTERS_MAX
