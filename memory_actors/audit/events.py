"""The events of one user or of all, as callers see them: those that are there, then live."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

from eventlog import EventStore, Recorded, subscribe
from memory_actors.reading import history
from memory_actors.records import LogEntry
from memory_actors.streams import is_user_stream, stream_of, user_of

PAGE = 512  # events read at a time


class Wanted(NamedTuple):
    """Which events are asked for, checked."""

    user_id: str | None
    after: int
    since_us: int | None
    until_us: int | None
    follow: bool

    def has(self, recorded: Recorded[Any]) -> bool:
        """Say whether an event of a stream is among them."""
        if self.user_id is None:
            its = is_user_stream(recorded.stream)
        else:
            its = recorded.stream == stream_of(self.user_id)
        its = its and recorded.position > self.after
        recorded_us = recorded.recorded_at_us
        begun = self.since_us is None or recorded_us >= self.since_us
        return its and begun and (self.until_us is None or recorded_us < self.until_us)


async def entries(log: EventStore, wanted: Wanted) -> AsyncIterator[LogEntry]:
    """Yield the events that are wanted, in the order of the log."""
    await log.flush()  # working memory is acknowledged before it is in the log
    source = subscribe(log, wanted.after, dropped="mark") if wanted.follow else _there(log, wanted)
    async for recorded in source:
        if wanted.has(recorded):
            yield _entry(recorded)


async def _there(log: EventStore, wanted: Wanted) -> AsyncIterator[Recorded[Any]]:
    """Yield the events that are there, of one stream or of all, behind the position at least."""
    if wanted.user_id is not None:
        stream, version = stream_of(wanted.user_id), 0
        while page := await log.read_stream(stream, version, PAGE, dropped="mark"):
            for recorded in page:
                yield recorded
            version = page[-1].version
        return
    after = wanted.after
    while page := await log.read_all(after, PAGE, dropped="mark"):
        for recorded in page:
            yield recorded
        after = page[-1].position


def _entry(recorded: Recorded[Any]) -> LogEntry:
    (told,) = history([recorded])
    return LogEntry(user_id=user_of(recorded.stream), **msgspec.structs.asdict(told))
