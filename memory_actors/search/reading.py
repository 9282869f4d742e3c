"""From rows of a state to memories as callers see them: texts are read from the log here.

A summary may stand for thousands of memories, each with events of its own. Therefore the loop
yields between look-ups, and events are read a page at a time, once each even if they name several
memories.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from eventlog import Dropped, EventStore, Recorded
from eventlog.core.records import AnyRecorded, OnDropped, to_datetime
from memory_actors.base.client_call import CALL
from memory_actors.base.records import HistoryEntry, Memory, least
from memory_actors.kinds.kind import Found
from memory_actors.kinds.past import Events
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.review import MemoryHeld
from memory_actors.kinds.rows import Row, is_summary, last_true_us
from memory_actors.kinds.structured import DocumentRow, value_of

OPTIONAL = tuple(field.name for field in msgspec.structs.fields(Memory) if not field.required)
"""The fields of a memory that a row may have under the same name."""
READ_AT_ONCE = 128  # memories made before the loop gets its turn: 2 ms


async def texts(log: EventStore, stream: str, found: Sequence[Found]) -> Events:
    """Return the events that hold the texts of rows."""
    versions = {version for one in found for version in one.kind.sources(one.row)}
    if not versions:
        return {}
    read = await log.read_versions(stream, sorted(versions))
    return {recorded.version: recorded for recorded in read}


async def memories(
    log: EventStore, stream: str, found: Sequence[Found], provenance: Provenance
) -> list[Memory]:
    """Return rows as memories, in their order."""
    return [Memory(**told) for told in await fields(log, stream, found, provenance)]


async def fields(
    log: EventStore, stream: str, found: Sequence[Found], provenance: Provenance
) -> list[dict[str, Any]]:
    """Return the fields of rows as memories, in their order."""
    events = await texts(log, stream, found)
    read: list[dict[str, object]] = []
    for start in range(0, len(found), READ_AT_ONCE):
        read += [
            _memory_fields(one, events, provenance) for one in found[start : start + READ_AT_ONCE]
        ]
        if start + READ_AT_ONCE < len(found):
            await asyncio.sleep(0)
    return read


def memory(found: Found, events: Events, provenance: Provenance) -> Memory:
    """Return a row as a memory, its texts from these events."""
    return Memory(**_memory_fields(found, events, provenance))


def _memory_fields(found: Found, events: Events, provenance: Provenance) -> dict[str, Any]:
    kind, row = found
    data = kind.data(row, events)
    if data is not None:
        data = msgspec.json.decode(msgspec.json.encode(data))  # a copy: it is the caller's
    own = _own(row.__class__)
    told = {name: getattr(row, name) for name in own}
    told |= common_fields(row, provenance)
    told["content"] = kind.content(row, events)
    told["memory_type"] = kind.NAME
    told["metadata"] = msgspec.to_builtins(row.shown_metadata)  # a copy: it is the caller's
    told["data"] = data
    told["source"] = "compressed" if is_summary(row) else "memory"
    told.setdefault("agent_id", provenance.agents.get(row.memory_id))
    if (at_us := provenance.expires.get(row.memory_id)) is not None:
        told["expires_at"] = to_datetime(at_us)
    if "times_seen" in own:
        again_us = last_true_us(row)
        again = told["occurred_at"] if again_us == row.occurred_at_us else to_datetime(again_us)
        told["last_seen_at"] = again
    return told


@cache
def _own(row: type) -> tuple[str, ...]:
    """Return the fields of a memory that rows of a type have under the same name."""
    return tuple(name for name in OPTIONAL if hasattr(row, name))


def common_fields(row: Row, provenance: Provenance) -> dict[str, object]:
    """Return the fields that the record of any row has: its id, its times and its origins."""
    origins = provenance.of(row.memory_id)
    return {
        "memory_id": row.memory_id,
        "created_at": to_datetime(row.created_at_us),
        "occurred_at": to_datetime(row.occurred_at_us),
        "origins": origins,
        "trust": least(origins),
    }


def history(events: Sequence[Recorded[object]]) -> list[HistoryEntry]:
    """Return events as callers see them."""
    return [
        HistoryEntry(
            position=recorded.position,
            version=recorded.version,
            recorded_at=recorded.recorded_at,
            event=recorded.tag,
            data=_event_fields(recorded.data),
            cause={name: said for name, said in recorded.meta.items() if name != CALL},
        )
        for recorded in events
    ]


def _event_fields(event: object) -> dict[str, object]:
    """Return the fields of an event, or why they are gone: dropped since a time, or no key."""
    if isinstance(event, Dropped) and event.key_gone:
        return {"key_gone": True}
    if isinstance(event, Dropped):
        return {"dropped_since": event.since.isoformat()}
    fields: dict[str, object] = msgspec.to_builtins(event)
    if isinstance(event, MemoryHeld):  # `pending` shows its words, and nothing else does
        return {name: fields[name] for name in ("memory_id", "kind", "until_us")}
    return fields


CACHED_JSON_BYTES_MAX = 4 << 20  # of JSON; decoded it takes about six times as much
DECODED_FACTOR = 6
DOCUMENTS_AT_ONCE = 512  # documents read at a time: the loop gets its turn in between


class Values:
    """Document values by the version of their event, which never changes."""

    def __init__(self, log: EventStore, stream: str):
        self._log = log
        self._stream = stream
        self._held: dict[int, tuple[object, int]] = {}
        self._json_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Memory held, roughly."""
        return DECODED_FACTOR * self._json_bytes

    async def of(self, rows: Sequence[DocumentRow]) -> list[object]:
        """Return the values of documents, in their order. Not to be changed."""
        held = self._held
        values = {row.version: held[row.version][0] for row in rows if row.version in held}
        missing = [row for row in rows if row.version not in values]
        for start in range(0, len(missing), DOCUMENTS_AT_ONCE):
            page = missing[start : start + DOCUMENTS_AT_ONCE]
            read = await self._log.read_versions(self._stream, [row.version for row in page])
            events = {recorded.version: recorded for recorded in read}
            for row in page:
                values[row.version] = value_of(row, events)
                # If there is room: throwing others out for it would help no later query.
                room = CACHED_JSON_BYTES_MAX - self._json_bytes
                if row.version not in held and row.size_bytes <= room:
                    held[row.version] = values[row.version], row.size_bytes
                    self._json_bytes += row.size_bytes
        return [values[row.version] for row in rows]

    def forget(self, version: int) -> None:
        """Let go of a value that is no longer current."""
        _, size_bytes = self._held.pop(version, (None, 0))
        self._json_bytes -= size_bytes


EVENTS_AT_ONCE = 256  # events read at a time
LOOKUPS_AT_ONCE = 32  # 15 us each, before the loop gets its turn

About = Mapping[str, Sequence[int]]
"""The versions of the events about some memories, in order."""


async def versions_about(
    log: EventStore, stream: str, memory_ids: Iterable[str], *, before: int | None = None
) -> About:
    """Return the versions of all events about each memory, or of those before a version."""
    about = {}
    for number, memory_id in enumerate(memory_ids, start=1):
        versions = await log.versions_about(stream, memory_id)
        about[memory_id] = [one for one in versions if before is None or one < before]
        if number % LOOKUPS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return about


async def pages(
    log: EventStore, stream: str, versions: Iterable[int], dropped: OnDropped = "mark"
) -> AsyncIterator[list[AnyRecorded]]:
    """Yield events in order, a page at a time."""
    ordered = sorted(set(versions))
    for start in range(0, len(ordered), EVENTS_AT_ONCE):
        yield await log.read_versions(
            stream, ordered[start : start + EVENTS_AT_ONCE], dropped=dropped
        )


async def events_about(
    log: EventStore, stream: str, memory_ids: Iterable[str]
) -> dict[str, list[Recorded[object]]]:
    """Return every event about each memory."""
    return await _read(log, stream, await versions_about(log, stream, memory_ids))


async def first_events(log: EventStore, stream: str, memory_ids: Iterable[str]) -> dict[str, Any]:
    """Return the event that each memory began with, of those ids that were ever used."""
    about = await versions_about(log, stream, memory_ids)
    firsts = {memory_id: each[:1] for memory_id, each in about.items() if each}
    read = await _read(log, stream, firsts)
    return {memory_id: first.data for memory_id, (first,) in read.items()}


async def _read(log: EventStore, stream: str, about: About) -> dict[str, list[Recorded[object]]]:
    versions = (version for each in about.values() for version in each)
    events = {one.version: one async for page in pages(log, stream, versions) for one in page}
    return {memory_id: [events[version] for version in each] for memory_id, each in about.items()}
