"""Room for episodes: by agent, by steps, by size; and what leaves where there is none."""

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest
from typing import NamedTuple, NoReturn

from immutables import Map

from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.kinds.episodic.commands import StartEpisode
from memory_actors.kinds.episodic.episode import Row, SummaryEvent
from memory_actors.kinds.episodic.state import Episodic
from memory_actors.kinds.rows import oldest

NAME = "episodic"


def room_by_count(
    command: StartEpisode, state: Episodic, limits: Limits
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what leaves the agent by itself for one more episode, and what is pruned for it.

    By itself only one goes: an agent that is above a limit which was lowered loses nothing more
    without leave.
    """
    ids = state.agents.get(command.agent_id, Map())
    over = len(ids) + 1 - limits.episodes
    if over <= 0:
        return (), ()
    unpinned = (row for row in map(state.held.rows.__getitem__, ids) if not row.pinned)
    gone = nsmallest(over, unpinned, key=_order_of_leaving)
    victims = tuple(row.memory_id for row in gone)
    if len(victims) == over == 1 and not gone[0].running:
        return victims, ()
    if not command.auto_prune or len(victims) < over:
        refuse_episode(command.agent_id, len(ids), limits)
    return (), victims


def _order_of_leaving(row: Row) -> tuple[int, int, int]:
    return ("done", "failed", "running").index(row.status), row.occurred_at_us, row.version


def room_by_bytes(
    command: StartEpisode, state: Episodic, limits: Limits, gone: set[str]
) -> tuple[str, ...]:
    """Return what has to be pruned, besides what is `gone`, for the goal to fit by size."""
    held = state.held
    freed = sum(held.rows[memory_id].size_bytes for memory_id in gone)
    over = held.size_bytes - freed + command.size_bytes - limits.episodic_bytes
    if over <= 0:
        return ()
    others = (row for row in held.rows.values() if not row.running and row.memory_id not in gone)
    victims = oldest(others, len(held), 0, over) if command.auto_prune else None
    if victims is None:
        _refuse_bytes(state, limits, command.size_bytes)
    return victims


def refuse_growth(new: int, freed: int, state: Episodic, limits: Limits) -> None:
    """Refuse to grow beyond the limit; what is above a limit that was lowered may stay so."""
    growth = new - freed
    if growth > 0 and state.held.size_bytes + growth > limits.episodic_bytes:
        _refuse_bytes(state, limits, new)


def _refuse_bytes(state: Episodic, limits: Limits, new: int) -> NoReturn:
    refuse_bytes(NAME, state.held.size_bytes, limits, "episodic_bytes", new=new)


class Coming(NamedTuple):
    """What an episode takes that comes as a whole."""

    agent_id: str
    size_bytes: int
    steps: int = 0

    @classmethod
    def of(cls, row: Row) -> "Coming":
        """Return what a row takes."""
        return cls(row.agent_id, row.size_bytes, len(row.steps))

    @classmethod
    def summary(cls, event: SummaryEvent) -> "Coming":
        """Return what a summary takes."""
        return cls(event.agent_id, event.size_bytes)


def refuse_without_room(
    coming: Sequence[Coming], state: Episodic, limits: Limits, gone: Sequence[Row] = ()
) -> None:
    """Refuse what does not fit as a whole in the place of what is `gone`.

    Above a limit that was lowered, no more than before fits.
    """
    fewer = Counter(row.agent_id for row in gone)
    for agent_id, count in Counter(one.agent_id for one in coming).items():
        used = len(state.agents.get(agent_id, ()))
        if used + count - fewer[agent_id] > max(limits.episodes, used):
            refuse_episode(agent_id, used, limits, count)
    for one in coming:
        refuse_steps(one.steps, limits)
    freed = sum(row.size_bytes for row in gone)
    refuse_growth(sum(one.size_bytes for one in coming), freed, state, limits)


def refuse_episode(agent_id: str, used: int, limits: Limits, new: int = 1) -> NoReturn:
    """Refuse more episodes of an agent."""
    refuse_count(NAME, f"episodes of agent {agent_id!r}", used, limits, "episodes", new=new)


def refuse_steps(count: int, limits: Limits) -> None:
    """Refuse steps where none may be kept: otherwise older ones make room."""
    if count > limits.episode_steps:
        noun = "steps of an episode"
        refuse_count(NAME, noun, count - 1, limits, "episode_steps", new=count)
