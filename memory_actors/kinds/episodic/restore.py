"""How an episode that has gone comes back: as it was, in events that carry its texts again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from eventlog import Dropped, Recorded
from memory_actors.base.origins import Origins, merged, origins_of
from memory_actors.base.records import UNSAID
from memory_actors.kinds.compression import coming_back, refuse_lost
from memory_actors.kinds.episodic.episode import (
    EpisodeFinished,
    EpisodeRestored,
    EpisodesCompressed,
    EpisodeStarted,
    EpisodeSummaryAdded,
    EpisodeUpdated,
    Row,
    RowEvent,
    SummaryEvent,
    evolved,
    leaving,
    markers,
    without_steps,
)
from memory_actors.kinds.episodic.text import goal_of
from memory_actors.kinds.kind import version_of


class Returning(NamedTuple):
    """An episode on its way back."""

    row: Row
    """As it was when it went."""
    events: list[RowEvent]
    """Its goal, the steps it keeps, its end."""


def returning(memory_id: str, past: Sequence[Recorded[Any]], steps_max: int) -> Returning:
    """Return an episode as its last events left it, with no more steps than it may keep now.

    :raises NotFoundError: no event made this episode, or retention dropped what it was.
    """
    life = _last_life(memory_id, past)
    row: Row | None = None
    for recorded in life.events:
        row = evolved(row, recorded)
    if row is None:
        refuse_lost(memory_id, life.dropped)
    first = life.events[0]
    if isinstance(first.data, SummaryEvent):
        fields = coming_back(first.data, first.recorded_at_us) | {"metadata": row.metadata}
        return Returning(row, [EpisodeSummaryAdded(**fields)])
    row = without_steps(row, markers(leaving(row.steps[:-1], steps_max)))
    row = msgspec.structs.replace(row, keep=row.keep or life.compressed)
    return Returning(row, _events(row, life.events))


class _Life(NamedTuple):
    """What the log has of an episode, or of a summary, since it was last there."""

    events: list[Recorded[Any]]
    """Those that made it what it was, from its beginning."""
    compressed: bool
    """A summary took its place, if not of late."""
    dropped: Dropped | None
    """The last of its events that retention dropped."""


def _last_life(memory_id: str, past: Sequence[Recorded[Any]]) -> _Life:
    own: list[Recorded[Any]] = []
    compressed, dropped = False, None
    for recorded in past:
        event = recorded.data
        if isinstance(event, Dropped):
            own, dropped = [], event
        elif getattr(event, "memory_id", None) != memory_id:
            # Another episode took its place, or a summary did.
            compressed = compressed or isinstance(event, EpisodesCompressed)
        elif isinstance(event, EpisodeStarted | SummaryEvent):
            own = [recorded]
        elif own and isinstance(event, RowEvent):
            own.append(recorded)
    return _Life(own, compressed, dropped)


def _events(row: Row, past: Sequence[Recorded[Any]]) -> list[RowEvent]:
    by_version = {recorded.version: recorded.data for recorded in past}
    steps = [by_version[version_of(step.label)] for step in row.steps]
    # What these steps evicted in their time is in `_restored` already.
    said = {recorded.version: origins_of(recorded) for recorded in past}
    kept = [
        msgspec.structs.replace(event, evicted=(), origins=said[version_of(step.label)])
        for step, event in zip(row.steps, steps, strict=True)
    ]
    ends = [
        msgspec.structs.replace(recorded.data, origins=said[recorded.version])
        for recorded in past
        if isinstance(recorded.data, EpisodeFinished)
    ]
    restored = _restored(row, goal_of(by_version[row.version]), _of_goal(past))
    return [restored, *kept] if row.running else [restored, *kept, ends[-1]]


def _of_goal(past: Sequence[Recorded[Any]]) -> Origins:
    """Return the origins of an episode's goal and metadata; () if nobody said."""
    told = (one for one in past if isinstance(one.data, EpisodeStarted | EpisodeUpdated))
    origins = merged(origin for one in told for origin in origins_of(one) or (UNSAID,))
    return () if origins == (UNSAID,) else origins


def _restored(row: Row, goal: str, origins: Origins) -> EpisodeRestored:
    return EpisodeRestored(
        memory_id=row.memory_id,
        agent_id=row.agent_id,
        goal=goal,
        size_bytes=row.goal.size_bytes,
        digest=row.goal.digest,
        occurred_at_us=row.occurred_at_us,
        metadata=row.metadata,
        session_id=row.session_id,
        pinned=row.pinned,
        created_at_us=row.created_at_us,
        evicted=row.evicted,
        steps_evicted=row.steps_evicted,
        keep=row.keep,
        origins=origins,
    )
