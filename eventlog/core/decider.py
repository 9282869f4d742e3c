"""A decider: the pure heart of an event-sourced aggregate.

`decide` turns a command and a state into events; `evolve` folds one recorded event into a state.
Both are pure: time, ids and randomness arrive inside the command, so that a replay needs none of
them. `decide` may refuse by raising and returns `()` for a command that is satisfied already;
`evolve` is total: it must accept every event that was ever recorded. `replay` folds a stream into a
state, a batch at a time, in a worker thread; where the store can, in the one that reads.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio.to_thread

from eventlog.core.capabilities import FoldingStore
from eventlog.core.errors import KeyGone, LogClosed, LogUnavailable, PoisonedStream, StorageFailed
from eventlog.core.port import EventStore
from eventlog.core.records import OnDropped, Recorded

BATCH_EVENTS = 4096  # fewer hops between loop and thread; some 15 ms of work, off the loop
INLINE_EVENTS_MAX = 64  # folded on the loop: cheaper than a hop to a thread

Command = TypeVar("Command")
Event = TypeVar("Event")
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Decider(Generic[Command, Event, State]):
    """The parts of an aggregate, and the fold that follows from them."""

    initial: State
    decide: Callable[[Command, State], Sequence[Event]]
    evolve: Callable[[State, Recorded[Event]], State]
    evolve_many: Callable[[State, Iterable[Recorded[Event]]], State] | None = None
    """A cheaper way to `evolve` over one event after another, if there is one."""
    follow_up: Callable[[State, State], Sequence[Event]] | None = None
    """(state before, state after a decision) -> events that the change itself calls for, such as a
    threshold that was passed. Pure; they are appended with the decision. It is not asked again
    about the state they lead to."""

    def fold(self, events: Iterable[Recorded[Event]], state: State | None = None) -> State:
        """Return `state` (the initial one if None) after `events`, in order."""
        folded = self.initial if state is None else state
        if self.evolve_many is not None:
            return self.evolve_many(folded, events)
        evolve = self.evolve
        for event in events:
            folded = evolve(folded, event)
        return folded


async def replay(
    log: EventStore,
    decider: Decider[Any, object, State],
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
    decider: Decider[object, object, State],
    stream: str,
    state: State,
    after: int,
    limit: int,
    dropped: OnDropped,
) -> tuple[State, int]:
    try:
        if isinstance(log, FoldingStore):
            return await log.fold_stream(stream, decider.fold, state, after, limit, dropped=dropped)
        events = await log.read_stream(stream, after, limit, dropped=dropped)
        if len(events) <= INLINE_EVENTS_MAX:
            return decider.fold(events, state), len(events)
        return await anyio.to_thread.run_sync(decider.fold, events, state), len(events)
    except (KeyGone, LogClosed, LogUnavailable, StorageFailed):  # of all events alike
        raise
    except Exception as error:
        if limit == 1:
            raise PoisonedStream(stream, after, state, error) from error
    for done in range(limit):  # one by one, to find the event that the batch failed on
        state, count = await _fold_batch(log, decider, stream, state, after + done, 1, dropped)
        if count == 0:
            return state, done
    return state, limit
