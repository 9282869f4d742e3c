"""The commands of episodic memory, and what each of them decides: also who leaves for a new one."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple, NoReturn

from immutables import Map
from msgspec.structs import replace

from eventlog import Dropped, Recorded
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.kinds import compacting
from memory_actors.kinds.compacting import (
    Summary,
    is_there,
    originals_as_read,
    refuse_beside_originals,
    refuse_rewording,
    summary_to_undo,
)
from memory_actors.kinds.defaults import deciding
from memory_actors.kinds.episodic.events import (
    EpisodeCompactionUndone,
    EpisodeDeleted,
    EpisodeFinished,
    EpisodeRestored,
    EpisodesCompressed,
    EpisodesPruned,
    EpisodeStarted,
    EpisodeSummaryAdded,
    EpisodeUpdated,
    Event,
    RowEvent,
    StepAdded,
    SummaryEvent,
)
from memory_actors.kinds.episodic.last_rows import LIVES, returning
from memory_actors.kinds.episodic.state import (
    Episodic,
    Row,
    find,
    leaving,
    markers,
)
from memory_actors.kinds.kind import Add, Command, Delete, Restore, Update, refuse_id
from memory_actors.kinds.rows import oldest, update_of

NAME = "episodic"

# --- commands


class StartEpisode(Add, frozen=True, kw_only=True):
    """Start an episode."""

    episode: EpisodeStarted
    auto_prune: bool = False
    """Leave to prune: the oldest running one where none is finished, or finished ones by size."""


class PutEpisode(StartEpisode, frozen=True, kw_only=True):
    """Put an episode as it is elsewhere, with what it has left behind."""

    episode: EpisodeRestored
    steps: tuple[StepAdded, ...] = ()
    """In the order of their numbers."""
    end: EpisodeFinished | None = None
    """None: it is running."""


class AddStep(Command, frozen=True, kw_only=True):
    """Add a step to a running episode."""

    step: StepAdded
    """Its number is decided."""


class FinishEpisode(Command, frozen=True, kw_only=True):
    """End a running episode, with words about it or without."""

    end: EpisodeFinished


class UpdateEpisode(Update, frozen=True, kw_only=True):
    """Replace an episode's goal (the content), its metadata, or both, whether it runs or not."""


class DeleteEpisode(Delete, frozen=True, kw_only=True):
    """Delete an episode."""


class RestoreEpisodes(Restore, frozen=True, kw_only=True):
    """Bring back episodes that were evicted, pruned, deleted or compressed, as they were."""


class CompressEpisodes(compacting.Compress, frozen=True, kw_only=True):
    """Put a summary in the place of ended episodes, if they are still what it was made of."""

    summary: EpisodesCompressed


class UndoEpisodeCompaction(compacting.UndoAnyCompaction, frozen=True, kw_only=True):
    """Take a summary away and bring back its originals."""


class AddEpisodeSummary(compacting.AddAnySummary, frozen=True, kw_only=True):
    """Add a summary as another store has made it."""

    summary: EpisodeSummaryAdded


# --- begin


def _start(command: StartEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    if _known(command, state):
        return []
    return _in_its_room(command, [command.episode], command.episode.size_bytes, state, limits)


def _in_its_room(
    command: StartEpisode,
    events: Sequence[EpisodeStarted | RowEvent],
    size_bytes: int,
    state: Episodic,
    limits: Limits,
) -> Sequence[Event]:
    """Return the events of an episode that begins, with what leaves for it."""
    evicted, pruned = _room_by_count(command, state, limits)
    pruned += _room_by_bytes(command, size_bytes, state, limits, gone={*evicted, *pruned})
    begun = [replace(events[0], evicted_ids=evicted), *events[1:]]
    return [EpisodesPruned(memory_ids=pruned, cause="quota"), *begun] if pruned else begun


def _known(command: StartEpisode, state: Episodic) -> bool:
    """Say whether this very episode was started before, even if it has gone since."""
    episode = command.episode
    first, row = command.used.get(episode.memory_id), find(state, episode.memory_id)
    if first is None and row is None:
        return False
    if isinstance(first, Dropped) and row is None:
        return True  # what it said is gone: nobody can tell, and an id is never used again
    known = first if isinstance(first, EpisodeStarted) else row
    if known is None or isinstance(first, Summary):
        refuse_id(episode.memory_id)
    if (known.agent_id, known.digest) != (episode.agent_id, episode.digest):
        refuse_id(episode.memory_id)
    return True


def _put(command: PutEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    if _known(command, state):
        return []
    life = LIVES.last(command.episode.memory_id, _past(command))
    there = returning(life, limits.episode_steps)
    refuse_steps(len(there.row.steps), limits)
    return _in_its_room(command, there.events, there.row.size_bytes, state, limits)


def _past(command: PutEpisode) -> list[Recorded[Any]]:
    """Return the events that would have led to an episode that is put."""
    events = [command.episode, *command.steps, *([] if command.end is None else [command.end])]
    return [
        Recorded("", version, version, command.now_us, "", event, 0, 0, b"")
        for version, event in enumerate(events, start=1)
    ]


def _add_step(command: AddStep, state: Episodic, limits: Limits) -> Sequence[Event]:
    step = command.step
    row = _running(state, step.memory_id)
    gone = leaving(row.steps, limits.episode_steps)
    refuse_steps(len(row.steps) - len(gone) + 1, limits)
    _refuse_growth(step.size_bytes, sum(one.size_bytes for one in gone), state, limits)
    return [replace(step, number=row.next_number, evicted=markers(gone))]


def _finish(command: FinishEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    _running(state, command.end.memory_id)
    _refuse_growth(command.end.size_bytes, 0, state, limits)
    return [command.end]


def _update(command: UpdateEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    row = _living(state, command.memory_id)
    reworded = command.content is not None and command.digest != row.goal.digest
    if reworded:
        refuse_rewording(row)
        _refuse_growth(command.size_bytes, row.goal.size_bytes, state, limits)
    updated = update_of(EpisodeUpdated, command, row, same_content=not reworded)
    return [] if updated is None else [updated]


def _delete(command: DeleteEpisode, state: Episodic, _limits: Limits) -> Sequence[Event]:
    _living(state, command.memory_id)
    return [EpisodeDeleted(memory_id=command.memory_id)]


def _all_returning(
    command: Restore, state: Episodic, limits: Limits, instead_of: Sequence[Row] = ()
) -> list[RowEvent]:
    """Return what brings back those of some episodes that do not live, in the place of others.

    :raises NotFoundError: one never was, or retention dropped what it was.
    :raises QuotaExceededError: there is no room for all of them.
    """
    lives = LIVES.gone(command, state.held.rows)
    back = [returning(life, limits.episode_steps) for life in lives]
    events = [event for one in back for event in one.events]
    refuse_beside_originals(events, state.held.rows)
    _refuse_without_room([Coming.of(one.row) for one in back], state, limits, instead_of)
    return events


def _running(state: Episodic, memory_id: str) -> Row:
    row = _living(state, memory_id)
    if not row.running:
        raise InvalidInputError(f"episode {memory_id!r} is finished ({row.status}): start another")
    return row


def _living(state: Episodic, memory_id: str) -> Row:
    row = find(state, memory_id)
    if row is None:
        raise NotFoundError(
            f"no episode {memory_id!r}: it was never there, deleted, evicted, or compressed into a "
            "summary; `why` tells what became of it"
        )
    return row


# --- room


def _room_by_count(
    command: StartEpisode, state: Episodic, limits: Limits
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what leaves the agent by itself for one more episode, and what is pruned for it.

    By itself only one goes: an agent that is above a limit which was lowered loses nothing more
    without leave.
    """
    agent_id = command.episode.agent_id
    ids = state.agents.get(agent_id, Map())
    over = len(ids) + 1 - limits.episodes
    if over <= 0:
        return (), ()
    unpinned = (row for row in map(state.held.rows.__getitem__, ids) if not row.pinned)
    gone = nsmallest(over, unpinned, key=_order_of_leaving)
    victims = tuple(row.memory_id for row in gone)
    if len(victims) == over == 1 and not gone[0].running:
        return victims, ()
    if not command.auto_prune or len(victims) < over:
        _refuse_episode(agent_id, len(ids), limits)
    return (), victims


def _order_of_leaving(row: Row) -> tuple[int, int, int]:
    return ("done", "failed", "running").index(row.status), row.occurred_at_us, row.version


def _room_by_bytes(
    command: StartEpisode, size_bytes: int, state: Episodic, limits: Limits, gone: set[str]
) -> tuple[str, ...]:
    """Return what has to be pruned, besides what is `gone`, for an episode to fit by size."""
    held = state.held
    freed = sum(held.rows[memory_id].size_bytes for memory_id in gone)
    over = held.size_bytes - freed + size_bytes - limits.episodic_bytes
    if over <= 0:
        return ()
    others = (row for row in held.rows.values() if not row.running and row.memory_id not in gone)
    victims = oldest(others, len(held), 0, over) if command.auto_prune else None
    if victims is None:
        _refuse_bytes(state, limits, size_bytes)
    return victims


def _refuse_growth(new: int, freed: int, state: Episodic, limits: Limits) -> None:
    """Refuse to grow beyond the limit; what is above a limit that was lowered may stay so."""
    growth = new - freed
    if growth > 0 and state.held.size_bytes + growth > limits.episodic_bytes:
        _refuse_bytes(state, limits, new)


def _refuse_bytes(state: Episodic, limits: Limits, new: int) -> NoReturn:
    refuse_bytes(NAME, state.held.size_bytes, limits, "episodic_bytes", new=new)


class Coming(NamedTuple):
    """The room that an episode takes which comes as a whole."""

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


def _refuse_without_room(
    coming: Sequence[Coming], state: Episodic, limits: Limits, gone: Sequence[Row] = ()
) -> None:
    """Refuse what does not fit as a whole in the place of what is `gone`.

    Above a limit that was lowered, no more than before fits.
    """
    fewer = Counter(row.agent_id for row in gone)
    for agent_id, count in Counter(one.agent_id for one in coming).items():
        used = len(state.agents.get(agent_id, ()))
        if used + count - fewer[agent_id] > max(limits.episodes, used):
            _refuse_episode(agent_id, used, limits, count)
    for one in coming:
        refuse_steps(one.steps, limits)
    freed = sum(row.size_bytes for row in gone)
    _refuse_growth(sum(one.size_bytes for one in coming), freed, state, limits)


def _refuse_episode(agent_id: str, used: int, limits: Limits, new: int = 1) -> NoReturn:
    """Refuse more episodes of an agent."""
    refuse_count(NAME, f"episodes of agent {agent_id!r}", used, limits, "episodes", new=new)


def refuse_steps(count: int, limits: Limits) -> None:
    """Refuse steps where none may be kept: otherwise older ones make room."""
    if count > limits.episode_steps:
        noun = "steps of an episode"
        refuse_count(NAME, noun, count - 1, limits, "episode_steps", new=count)


# --- compaction


def compressible(row: Row) -> bool:
    """Say whether an episode may be compressed; how old it is is for others to see."""
    return not row.running and compacting.compressible(row)


def _compress(command: CompressEpisodes, state: Episodic, limits: Limits) -> Sequence[Event]:
    gone, summary = originals_as_read(command, state.held.rows), command.summary
    if gone is None or not all(
        compressible(row) and row.agent_id == summary.agent_id for row in gone
    ):
        return []
    _refuse_without_room([Coming.summary(summary)], state, limits, gone)
    return [summary]


def _undo(command: UndoEpisodeCompaction, state: Episodic, limits: Limits) -> Sequence[Event]:
    summary = summary_to_undo(command, state.held.rows)
    back = _all_returning(command, state, limits, instead_of=[summary])
    return [EpisodeCompactionUndone(memory_id=command.memory_id), *back]


def _add_summary(command: AddEpisodeSummary, state: Episodic, limits: Limits) -> Sequence[Event]:
    if is_there(command, find(state, command.summary.memory_id), SummaryEvent):
        return []
    _refuse_without_room([Coming.summary(command.summary)], state, limits)
    return [command.summary]


# --- decide

_DECISIONS: Mapping[type[Command], Callable[..., Sequence[Event]]] = {
    StartEpisode: _start,
    PutEpisode: _put,
    AddStep: _add_step,
    FinishEpisode: _finish,
    UpdateEpisode: _update,
    DeleteEpisode: _delete,
    RestoreEpisodes: _all_returning,
    CompressEpisodes: _compress,
    UndoEpisodeCompaction: _undo,
    AddEpisodeSummary: _add_summary,
}
COMMANDS = tuple(_DECISIONS)
decide = deciding(_DECISIONS)
"""Turn a command into events.

:raises QuotaExceededError: no room, and no leave to make some.
:raises InvalidInputError: an id that stands for another memory; an episode that is finished.
:raises NotFoundError: no such episode.
"""
