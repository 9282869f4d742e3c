"""Episodes without the words of a source.

A step of the source leaves its number behind, and no words: numbers are never used twice. An
episode that the source ended runs again; one that the source began goes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds.episodic import last_rows
from memory_actors.kinds.episodic.events import (
    EpisodeDeleted,
    EpisodeRestored,
    EpisodeStarted,
    Event,
    RowEvent,
    StepAdded,
    StepMarker,
)
from memory_actors.kinds.episodic.state import Episodic, Row
from memory_actors.kinds.tainted import TaintedPast


def without(past: TaintedPast, row: Row, _state: Episodic, limits: Limits) -> list[Event] | None:
    """Return the events that leave an episode what others have said of it."""
    events = returning(past, limits)
    return None if events is None else [EpisodeDeleted(memory_id=row.memory_id), *events]


def returning(past: TaintedPast, limits: Limits) -> list[RowEvent] | None:
    """Return the events that bring an original back with what others have said of it."""
    steps = {
        one.data.number: one.data
        for one in past.events
        if isinstance(one.data, StepAdded) and past.tainted(one)
    }
    events = _each_step_once(past.cleaned(EpisodeStarted))
    left = [_without_markers(one, set(steps)) for one in events]
    try:
        there = last_rows.returning(
            last_rows.LIVES.last(past.memory_id, left), limits.episode_steps
        )
    except NotFoundError:
        return None
    first, *others = there.events
    if isinstance(first, EpisodeRestored) and steps:
        first = _with_numbers(first, list(steps.values()))
    return [first, *others]


def _each_step_once(events: Sequence[Recorded[Any]]) -> Iterator[Recorded[Any]]:
    """Yield events without steps that were said again when an episode came back."""
    seen = set[int]()
    for one in events:
        if isinstance(one.data, EpisodeStarted):
            seen.clear()
        elif isinstance(one.data, StepAdded):
            if one.data.number in seen:
                continue
            seen.add(one.data.number)
        yield one


def _without_markers(recorded: Recorded[Any], numbers: set[int]) -> Recorded[Any]:
    """Return an event that does not name those steps as evicted: their words are in that, too."""
    evicted = getattr(recorded.data, "evicted", ())
    kept = tuple(one for one in evicted if one.number not in numbers)
    if len(kept) == len(evicted):
        return recorded
    return replace(recorded, data=replace(recorded.data, evicted=kept))


def _with_numbers(event: EpisodeRestored, steps: list[StepAdded]) -> EpisodeRestored:
    wordless = [StepMarker(step.number, step.sha256, "") for step in steps]
    evicted = sorted((*event.evicted, *wordless), key=lambda one: one.number)
    counted = event.steps_evicted + len(steps)
    return replace(event, evicted=tuple(evicted), steps_evicted=counted)
