"""How an episode that has gone comes back: as it was, in events that carry its texts again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from eventlog import Recorded
from memory_actors.errors import NotFoundError
from memory_actors.kinds.episodic.episode import (
    EpisodeFinished,
    EpisodeRestored,
    Row,
    RowEvent,
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

    :raises NotFoundError: no event made this episode.
    """
    # An event of another episode may be in its past too: the one that took its place.
    own = [event for event in past if _makes(event.data, memory_id)]
    row: Row | None = None
    for recorded in own:
        row = evolved(row, recorded)
    if row is None:
        raise NotFoundError(f"no episode {memory_id!r} to restore: it was never there")
    row = without_steps(row, markers(leaving(row.steps[:-1], steps_max)))
    return Returning(row, _events(row, own))


def _makes(event: Any, memory_id: str) -> bool:
    return isinstance(event, RowEvent) and event.memory_id == memory_id


def _events(row: Row, past: Sequence[Recorded[RowEvent]]) -> list[RowEvent]:
    by_version = {recorded.version: recorded.data for recorded in past}
    steps = [by_version[version_of(step.label)] for step in row.steps]
    # What these steps evicted in their time is in `_restored` already.
    kept = [msgspec.structs.replace(step, evicted=()) for step in steps]
    ends = [event for event in by_version.values() if isinstance(event, EpisodeFinished)]
    restored = _restored(row, goal_of(by_version[row.version]))
    return [restored, *kept] if row.running else [restored, *kept, ends[-1]]


def _restored(row: Row, goal: str) -> EpisodeRestored:
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
    )
