"""From rows of a state to memories as callers see them: texts are read from the log here."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from eventlog import EventStore, Recorded
from eventlog.records import to_datetime
from memory_actors.kinds import long_term, short_term, working
from memory_actors.records import Memory, MemoryType
from memory_actors.validation import IS_COMPRESSED, json_copy

Row = working.Row | short_term.Row | long_term.Row


class Found(NamedTuple):
    """A living row and the kind it is of."""

    kind: MemoryType
    row: Any
    """A `Row` of that kind."""


async def texts(log: EventStore, stream: str, rows: Sequence[Found]) -> list[str]:
    """Return the contents of rows, in their order."""
    recorded = await _events(log, stream, rows)
    return [_content(found, recorded.get(found.row.version)) for found in rows]


async def memories(log: EventStore, stream: str, rows: Sequence[Found]) -> list[Memory]:
    """Return rows as memories, in their order."""
    recorded = await _events(log, stream, rows)
    return [_memory(found, recorded.get(found.row.version)) for found in rows]


async def _events(
    log: EventStore, stream: str, rows: Sequence[Found]
) -> Mapping[int, Recorded[Any]]:
    """Return the events that hold the texts; working memory has its own in the state."""
    versions = [found.row.version for found in rows if found.kind is not MemoryType.WORKING]
    return {event.version: event for event in await log.read_versions(stream, versions)}


def _content(found: Found, recorded: Recorded[Any] | None) -> str:
    if recorded is not None:
        return str(recorded.data.content)
    value = found.row.value
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _memory(found: Found, recorded: Recorded[Any] | None) -> Memory:
    row = found.row
    metadata = json_copy(row.metadata, "metadata")
    if recorded is not None and recorded.compressed:
        metadata[IS_COMPRESSED] = True
    return Memory(
        memory_id=row.memory_id,
        content=_content(found, recorded),
        memory_type=found.kind.value,
        metadata=metadata,
        created_at=to_datetime(row.created_at_us),
        occurred_at=to_datetime(getattr(row, "occurred_at_us", row.created_at_us)),
        session_id=getattr(row, "session_id", None),
        role=getattr(row, "role", None),
        key=getattr(row, "key", None),
        pinned=getattr(row, "pinned", False),
        size_bytes=row.size_bytes,
        stored_bytes=row.stored_bytes,
    )
