"""Episodes without the words of a source.

A step of the source leaves its number behind, and no words: numbers are never used twice. An
episode that the source ended runs again; one that the source began goes.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds.episodic.events import (
    EpisodeDeleted,
    EpisodeRestored,
    EpisodeStarted,
    EpisodeUpdated,
    Event,
    Evicted,
    StepAdded,
)
from memory_actors.kinds.episodic.state import LIVES, Episodic, Row
from memory_actors.kinds.episodic.state import returning as coming_back
from memory_actors.kinds.purging.cleaning import Life


def without(life: Life, row: Row, _state: Episodic, limits: Limits) -> list[Event] | None:
    """Return what makes an episode what others have left of it; None if nothing is left."""
    events = returning(life, limits)
    return None if events is None else [EpisodeDeleted(memory_id=row.memory_id), *events]


def deleted(row: Row, _state: Episodic) -> list[Event]:
    """Return what takes an episode away."""
    return [EpisodeDeleted(memory_id=row.memory_id)]


def returning(life: Life, limits: Limits) -> list[Event] | None:
    """Return what brings an episode back without the source's words."""
    steps = {one.data.number: one.data for one in life.past if _is_tainted_step(one, life)}
    events = life.cleaned(EpisodeStarted, _gives_goal)
    try:
        left = [_without_markers(one, set(steps)) for one in _each_step_once(events)]
        there = coming_back(LIVES.last(life.memory_id, left), limits.episode_steps)
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


def _is_tainted_step(recorded: Recorded[Any], life: Life) -> bool:
    return isinstance(recorded.data, StepAdded) and life.tainted(recorded)


def _without_markers(recorded: Recorded[Any], numbers: set[int]) -> Recorded[Any]:
    """Return an event that does not name those steps as evicted: their words are in that, too."""
    event = recorded.data
    kept = tuple(one for one in getattr(event, "evicted", ()) if one.number not in numbers)
    if len(kept) == len(getattr(event, "evicted", ())):
        return recorded
    return msgspec.structs.replace(recorded, data=msgspec.structs.replace(event, evicted=kept))


def _with_numbers(event: EpisodeRestored, steps: list[StepAdded]) -> EpisodeRestored:
    wordless = [Evicted(step.number, step.sha256, "") for step in steps]
    evicted = sorted((*event.evicted, *wordless), key=lambda one: one.number)
    counted = event.steps_evicted + len(steps)
    return msgspec.structs.replace(event, evicted=tuple(evicted), steps_evicted=counted)


def _gives_goal(event: Any) -> bool:
    return isinstance(event, EpisodeStarted) or (
        isinstance(event, EpisodeUpdated) and event.content is not None
    )
