"""The events about some memories, read back from the log.

A summary may stand for thousands of memories, each with events of its own. Therefore the loop
yields between look-ups, and events are read a page at a time, once each even if they name several
memories.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from eventlog import EventStore, Recorded
from eventlog.core.records import OnDropped

PAGE = 256  # events read at a time
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
) -> AsyncIterator[list[Recorded[Any]]]:
    """Yield events in order, a page at a time."""
    ordered = sorted(set(versions))
    for start in range(0, len(ordered), PAGE):
        yield await log.read_versions(stream, ordered[start : start + PAGE], dropped=dropped)


async def events_about(
    log: EventStore, stream: str, memory_ids: Iterable[str]
) -> dict[str, list[Recorded[Any]]]:
    """Return every event about each memory."""
    return await _read(log, stream, await versions_about(log, stream, memory_ids))


async def first_events(log: EventStore, stream: str, memory_ids: Iterable[str]) -> dict[str, Any]:
    """Return the event that each memory began with, of those ids that were ever used."""
    about = await versions_about(log, stream, memory_ids)
    firsts = {memory_id: each[:1] for memory_id, each in about.items() if each}
    read = await _read(log, stream, firsts)
    return {memory_id: first.data for memory_id, (first,) in read.items()}


async def _read(log: EventStore, stream: str, about: About) -> dict[str, list[Recorded[Any]]]:
    versions = (version for each in about.values() for version in each)
    events = {one.version: one async for page in pages(log, stream, versions) for one in page}
    return {memory_id: [events[version] for version in each] for memory_id, each in about.items()}
