"""Subscriptions: every event once, in order: first the past, then live as it comes.

A subscriber that must not miss or repeat anything across restarts stores its position with its own
results in one transaction (`save_checkpoint`, or the `checkpoint` of an append) and starts again
from `load_checkpoint`. The position that is stored is what it has done, so a crash in between
repeats at most work whose results were not stored either.
"""

from collections.abc import AsyncIterator
from typing import Any

from eventlog.errors import LogClosed
from eventlog.port import EventStore
from eventlog.records import OnDropped, Recorded


async def subscribe(
    log: EventStore,
    after: int = 0,
    *,
    stream: str | None = None,
    batch: int = 512,
    dropped: OnDropped = "raise",
) -> AsyncIterator[Recorded[Any]]:
    """Yield every event behind position `after`, then each new one; end when the log closes.

    With `stream`, only that stream's. Only durable events are seen. `dropped` says what to do where
    retention has dropped a payload: see `EventStore.read_stream`.
    """
    if batch < 1:
        raise ValueError(f"batch is {batch}: read at least one event at a time")
    position = after
    while True:
        try:
            events = await log.read_all(position, batch, dropped=dropped)
        except LogClosed:
            return
        for event in events:
            if stream is None or event.stream == stream:
                yield event
        if events:
            position = events[-1].position
        elif not await log.wait_beyond(position):
            return
