"""The events of one user or of all, as callers see them: those that are there, then live."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from eventlog import EventStore, Recorded, subscribe
from eventlog.core.subscription import version_at
from memory_actors.base.reports import LogEntry
from memory_actors.base.streams import is_user_stream, stream_of, user_of
from memory_actors.kinds.effects import Event
from memory_actors.search.reading import history

PAGE = 512  # events read at a time


class EntryFilter(NamedTuple):
    """A checked request for events."""

    user_id: str | None
    after: int
    since_us: int | None
    until_us: int | None
    follow: bool

    def has(self, recorded: Recorded[Event]) -> bool:
        """Say whether an event of a stream is among them."""
        if self.user_id is None:
            its = is_user_stream(recorded.stream)
        else:
            its = recorded.stream == stream_of(self.user_id)
        its = its and recorded.position > self.after
        recorded_us = recorded.recorded_at_us
        begun = self.since_us is None or recorded_us >= self.since_us
        return its and begun and (self.until_us is None or recorded_us < self.until_us)


async def entries(log: EventStore, wanted: EntryFilter) -> AsyncIterator[LogEntry]:
    """Yield the events that are wanted, in the order of the log."""
    await log.flush()  # working memory is acknowledged before it is in the log
    stream = None if wanted.user_id is None else stream_of(wanted.user_id)
    if wanted.follow:
        source = subscribe(log, wanted.after, stream=stream, dropped="mark")
    else:
        source = _there(log, stream, wanted.after)
    async for recorded in source:
        if wanted.has(recorded):
            (told,) = history([recorded])
            yield LogEntry(user_id=user_of(recorded.stream), **msgspec.structs.asdict(told))


async def _there(log: EventStore, stream: str | None, after: int) -> AsyncIterator[Recorded[Event]]:
    if stream is not None:
        version = await version_at(log, stream, after)
        while page := await log.read_stream(stream, version, PAGE, dropped="mark"):
            for recorded in page:
                yield recorded
            version = page[-1].version
        return
    while page := await log.read_all(after, PAGE, dropped="mark"):
        for recorded in page:
            yield recorded
        after = page[-1].position
