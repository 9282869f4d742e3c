"""Subscriptions: every event once, in order: first the past, then live as it comes.

A subscriber that must not miss or repeat anything across restarts stores its position with its own
results in one transaction (`save_checkpoint`, or the `checkpoint` of an append) and starts again
from `load_checkpoint`. The position that is stored is what it has done, so a crash in between
repeats at most work whose results were not stored either.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from eventlog.core.capabilities import LocatingStore
from eventlog.core.errors import LogClosed
from eventlog.core.port import EventStore
from eventlog.core.records import AnyRecorded, OnDropped, Recorded


def subscribe(
    log: EventStore,
    after: int = 0,
    *,
    stream: str | None = None,
    batch: int = 512,
    dropped: OnDropped = "raise",
) -> AsyncIterator[AnyRecorded]:
    """Yield every event behind position `after`, then each new one; end when the log closes.

    With `stream`, only that stream's: no other one is read, so nothing in another can end it. Only
    durable events are seen. `dropped` says what to do where retention has dropped a payload: see
    `EventStore.read_stream`.

    :raises ValueError: a batch that is none.
    """
    if batch < 1:
        raise ValueError(f"batch is {batch}: read at least one event at a time")
    after = max(after, 0)
    if stream is None:
        return _of_all(log, after, batch, dropped)
    return _of_stream(log, stream, after, batch, dropped)


async def _of_all(
    log: EventStore, position: int, batch: int, dropped: OnDropped
) -> AsyncIterator[AnyRecorded]:
    with suppress(LogClosed):
        while True:
            events = await log.read_all(position, batch, dropped=dropped)
            for event in events:
                yield event
            if events:
                position = events[-1].position
            elif not await log.wait_beyond(position):
                return


async def _of_stream(
    log: EventStore, stream: str, after: int, batch: int, dropped: OnDropped
) -> AsyncIterator[AnyRecorded]:
    seen = after  # a position of the log: what was appended up to there is not waited for
    with suppress(LogClosed):
        version = await version_at(log, stream, after)
        while True:
            events = await log.read_stream(stream, version, batch, dropped=dropped)
            for event in events:
                if event.position > after:  # the log may not have come that far
                    yield event
            version = events[-1].version if events else version
            while (await log.head(stream)).version == version:
                seen = await log.wait_beyond(seen)
                if not seen:
                    return


# --- where in a stream: one step where the store can, else a search by halves, some twenty reads


async def version_at(log: EventStore, stream: str, position: int) -> int:
    """Return the version of a stream's last event at or before a position, 0 if there is none."""
    if position <= 0:
        return 0
    if isinstance(log, LocatingStore):
        return await log.version_at(stream, position=position)
    return await _halved(log, stream, lambda event: event.position <= position)


async def version_at_time(log: EventStore, stream: str, recorded_at_us: int) -> int:
    """Return the version of a stream's last event recorded by a time, 0 if there is none."""
    if isinstance(log, LocatingStore):
        return await log.version_at(stream, recorded_at_us=recorded_at_us)
    return await _halved(log, stream, lambda event: event.recorded_at_us <= recorded_at_us)


async def _halved(log: EventStore, stream: str, passes: Callable[[Recorded[object]], bool]) -> int:
    """Return the last version that passes, 0 if none does.

    Versions that pass must precede those that do not. Payloads that are gone are `Dropped`.
    """
    passed, until = 0, (await log.head(stream)).version + 1
    while until - passed > 1:
        middle = (passed + until) // 2
        (event,) = await log.read_versions(stream, [middle], dropped="mark")
        passed, until = (middle, until) if passes(event) else (passed, middle)
    return passed
