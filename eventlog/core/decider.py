"""A decider: the pure heart of an event-sourced aggregate.

`decide` turns a command and a state into events; `evolve` folds one recorded event into a state.
Both are pure: time, ids and randomness arrive inside the command, so that a replay needs none of
them. `decide` may refuse by raising and returns `()` for a command that is satisfied already;
`evolve` is total: it must accept every event that was ever recorded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from eventlog.core.records import Recorded

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
    """The same as `evolve` on one event after another, where that can be had cheaper."""
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
