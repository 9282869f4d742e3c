"""Episodes on their way back: the events by which one comes, maybe without the words of a source.

A step of a purged source leaves its number, which is never used twice. An episode that the source
ended runs again; one that it began goes.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.origins import merged, origins_of
from memory_actors.base.records import UNSAID
from memory_actors.kinds.compacting import summary_again
from memory_actors.kinds.effects import Event
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeRestored,
    EpisodeStarted,
    EpisodeSummaryAdded,
    EpisodeUpdated,
    RowEvent,
    StepAdded,
    StepMarker,
    SummaryEvent,
    goal_of,
)
from memory_actors.kinds.episodic.state import EpisodeRow, leaving, markers, without_steps
from memory_actors.kinds.passages import version_of
from memory_actors.kinds.past import Life, TaintedPast
from memory_actors.kinds.rows import derived


def returning(life: Life[EpisodeRow], steps_max: int) -> tuple[EpisodeRow, list[RowEvent]]:
    """Return the last row of an episode, and the events that make it again.

    It has no more steps than it may keep now. The events are its goal, its steps and its end; each
    names whose words it has.
    """
    row, events = life.row, life.by_version
    began = life.events[0].data
    if isinstance(began, SummaryEvent):
        return row, [summary_again(EpisodeSummaryAdded, began, row)]
    row = without_steps(row, markers(leaving(row.steps[:-1], steps_max)))
    row = replace(row, keep=row.keep or life.compressed)
    told_goal = (
        one for one in life.events if isinstance(one.data, EpisodeStarted | EpisodeUpdated)
    )
    origins = merged(origin for one in told_goal for origin in origins_of(one) or (UNSAID,))
    goal = derived(
        EpisodeRestored,
        row,
        goal=goal_of(events[row.version].data),
        size_bytes=row.goal.size_bytes,
        digest=row.goal.digest,
        origins=() if origins == (UNSAID,) else origins,
    )
    told: list[RowEvent] = [
        # The restored episode already names the steps that this step evicted.
        _said_again(events[version_of(step.label)], evicted=())
        for step in row.steps
    ]
    ends = [one for one in life.events if isinstance(one.data, EpisodeFinished)]
    if not row.running:
        told.append(_said_again(ends[-1]))
    return row, [goal, *told]


def _said_again(recorded: AnyRecorded, **fields: object) -> RowEvent:
    again: RowEvent = replace(recorded.data, origins=origins_of(recorded), **fields)
    return again


# --- without the words of a source


def cleaned(past: TaintedPast) -> list[Recorded[Event]]:
    """Return the events about an episode without the words of a source."""
    gone = _tainted_steps(past)
    return [_without_markers(one, gone) for one in _each_step_once(past.cleaned(EpisodeStarted))]


def without_words(first: RowEvent, past: TaintedPast) -> RowEvent:
    """Return the event that an episode comes back with, naming the source's steps as evicted."""
    steps = _tainted_steps(past).values()
    if not isinstance(first, EpisodeRestored) or not steps:
        return first
    wordless = [StepMarker(step.number, step.sha256, "") for step in steps]
    evicted = sorted((*first.evicted, *wordless), key=lambda one: one.number)
    counted = first.steps_evicted + len(steps)
    return replace(first, evicted=tuple(evicted), steps_evicted=counted)


def _tainted_steps(past: TaintedPast) -> dict[int, StepAdded]:
    return {
        one.data.number: one.data
        for one in past.events
        if isinstance(one.data, StepAdded) and past.tainted(one)
    }


def _each_step_once(events: Sequence[Recorded[Event]]) -> Iterator[Recorded[Event]]:
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


def _without_markers(recorded: Recorded[Event], gone: Mapping[int, object]) -> Recorded[Event]:
    """Return an event that does not name those steps as evicted: their words are in that, too."""
    evicted = getattr(recorded.data, "evicted", ())
    kept = tuple(one for one in evicted if one.number not in gone)
    if len(kept) == len(evicted):
        return recorded
    return replace(recorded, data=replace(recorded.data, evicted=kept))
