"""Replay: fold a stream into a state, a batch at a time, in a worker thread."""

from typing import Any, TypeVar

import anyio.to_thread

from eventlog.core.decider import Decider
from eventlog.core.errors import EventLogError, KeyGone, LogClosed, LogUnavailable, StorageFailed
from eventlog.core.port import EventStore
from eventlog.core.records import OnDropped

BATCH_EVENTS = 4096  # fewer hops between loop and thread; some 15 ms of work, off the loop
INLINE_EVENTS_MAX = 64  # folded on the loop: cheaper than a hop to a thread

State = TypeVar("State")


class PoisonedStream(EventLogError):
    """An event of a stream cannot be folded. `state` is what the events before it made."""

    def __init__(self, stream: str, version: int, state: Any, cause: Exception):
        super().__init__(f"event {version + 1} of stream {stream!r} cannot be folded: {cause!r}")
        self.stream = stream
        self.version = version
        self.state = state


async def replay(
    log: EventStore,
    decider: Decider[Any, Any, State],
    stream: str,
    *,
    state: State | None = None,
    after: int = 0,
    until: int | None = None,
    dropped: OnDropped = "raise",
) -> tuple[State, int]:
    """Return the state of a stream and its version, from `state` at version `after` on.

    With `dropped="mark"` events whose payloads retention has dropped are folded too, with `Dropped`
    for their data: the decider must know what to make of that.

    :raises PoisonedStream: an event could not be read or folded.
    :raises KeyGone: the stream is encrypted, and its key is gone.
    """
    folded = decider.initial if state is None else state
    version = after
    while until is None or version < until:
        limit = BATCH_EVENTS if until is None else min(BATCH_EVENTS, until - version)
        folded, count = await _fold_batch(log, decider, stream, folded, version, limit, dropped)
        version += count
        if count < limit:
            break
    return folded, version


async def _fold_batch(
    log: EventStore,
    decider: Decider[Any, Any, State],
    stream: str,
    state: State,
    after: int,
    limit: int,
    dropped: OnDropped,
) -> tuple[State, int]:
    try:
        events = await log.read_stream(stream, after, limit, dropped=dropped)
        if len(events) <= INLINE_EVENTS_MAX:
            return decider.fold(events, state), len(events)
        return await anyio.to_thread.run_sync(decider.fold, events, state), len(events)
    except (KeyGone, LogClosed, LogUnavailable, StorageFailed):  # of all events alike
        raise
    except Exception as error:
        if limit == 1:
            raise PoisonedStream(stream, after, state, error) from error
        return await _fold_one_by_one(log, decider, stream, state, after, limit, dropped)


async def _fold_one_by_one(
    log: EventStore,
    decider: Decider[Any, Any, State],
    stream: str,
    state: State,
    after: int,
    limit: int,
    dropped: OnDropped,
) -> tuple[State, int]:
    """Find the event that a batch failed on."""
    for done in range(limit):
        state, count = await _fold_batch(log, decider, stream, state, after + done, 1, dropped)
        if count == 0:
            return state, done
    return state, limit
