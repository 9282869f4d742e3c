"""Episodes that have gone, and the events by which they come back."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.origins import Origins, merged, origins_of
from memory_actors.base.records import UNSAID
from memory_actors.kinds.compacting import summary_again
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeRestored,
    EpisodeStarted,
    EpisodeSummaryAdded,
    EpisodeUpdated,
    RowEvent,
    SummaryEvent,
    goal_of,
    registry,
)
from memory_actors.kinds.episodic.state import (
    Row,
    find,
    fold,
    initial,
    leaving,
    markers,
    without_steps,
)
from memory_actors.kinds.kind import version_of
from memory_actors.kinds.last_rows import Life, Lives
from memory_actors.kinds.rows import derived

LIVES = Lives("memory", registry, initial, fold, find)


class Returning(NamedTuple):
    """An episode on its way back."""

    row: Row
    """Its last row, with no more steps than it may keep now."""
    events: list[RowEvent]
    """Its goal, the steps it keeps, its end; each names whose words it has."""


def returning(life: Life[Row], steps_max: int) -> Returning:
    """Return an episode as its last events left it, with no more steps than it may keep now."""
    row, events = life.row, life.by_version
    began = life.events[0].data
    if isinstance(began, SummaryEvent):
        return Returning(row, [summary_again(EpisodeSummaryAdded, began, row)])
    row = without_steps(row, markers(leaving(row.steps[:-1], steps_max)))
    row = replace(row, keep=row.keep or life.compressed)
    goal = derived(
        EpisodeRestored,
        row,
        goal=goal_of(events[row.version].data),
        size_bytes=row.goal.size_bytes,
        digest=row.goal.digest,
        origins=_origins_of_goal(life.events),
    )
    told: list[RowEvent] = [
        # What this step evicted in its time, the restored episode names already.
        _said_again(events[version_of(step.label)], evicted=())
        for step in row.steps
    ]
    ends = [one for one in life.events if isinstance(one.data, EpisodeFinished)]
    if not row.running:
        told.append(_said_again(ends[-1]))
    return Returning(row, [goal, *told])


def _said_again(recorded: Recorded[Any], **fields: Any) -> RowEvent:
    again: RowEvent = replace(recorded.data, origins=origins_of(recorded), **fields)
    return again


def _origins_of_goal(life: Sequence[Recorded[Any]]) -> Origins:
    """Return the origins of an episode's goal and metadata; () if nobody said."""
    told = (one for one in life if isinstance(one.data, EpisodeStarted | EpisodeUpdated))
    origins = merged(origin for one in told for origin in origins_of(one) or (UNSAID,))
    return () if origins == (UNSAID,) else origins
