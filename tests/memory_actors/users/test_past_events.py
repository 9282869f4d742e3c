"""The events about some memories: each read once, a page at a time."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from support.in_memory_log import InMemoryLog

from eventlog import EventRegistry
from memory_actors.search import reading
from memory_actors.search.reading import events_about, first_events

pytestmark = pytest.mark.anyio

registry = EventRegistry()


@registry.event("noted", keys=lambda event: event.ids)
class Noted(msgspec.Struct, frozen=True):
    ids: tuple[str, ...]


class CountingLog(InMemoryLog):
    """Keeps which versions were read together."""

    def __init__(self) -> None:
        super().__init__(registry)
        self.reads: list[Sequence[int]] = []

    async def read_versions(self, stream: str, versions: Sequence[int], **more: Any) -> Any:
        self.reads.append(versions)
        return await super().read_versions(stream, versions, **more)


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch) -> CountingLog:
    """Five events: versions 1 and 4 about both memories, 2 about a, 3 and 5 about b."""
    monkeypatch.setattr(reading, "EVENTS_AT_ONCE", 2)
    log = CountingLog()
    events = [Noted(("a", "b")), Noted(("a",)), Noted(("b",)), Noted(("b", "a")), Noted(("b",))]
    await log.append("s", events, 0)
    return log


async def test_every_event_about_each_memory_is_read_once_in_pages(log: CountingLog) -> None:
    found = await events_about(log, "s", ["a", "b", "never"])
    versions = {memory_id: [one.version for one in each] for memory_id, each in found.items()}
    assert versions == {"a": [1, 2, 4], "b": [1, 3, 4, 5], "never": []}
    assert log.reads == [[1, 2], [3, 4], [5]]


async def test_only_first_events_of_used_ids_are_read(log: CountingLog) -> None:
    """Only the first events are read of ids that were used."""
    assert await first_events(log, "s", ["b", "never"]) == {"b": Noted(("a", "b"))}
    assert log.reads == [[1]]
