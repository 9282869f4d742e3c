"""Episodic memory: what an agent set out to do, the steps it took, and what came of it.

An episode is running until it is finished, done or failed. Of its steps it keeps a limited number:
the first, the last and those with an error stay longest. Each agent has a limited number of
episodes: the next one takes the place of its oldest finished one, those that failed last, for they
teach the most. What is running goes only with leave, and what is pinned never.

Compaction may put summaries in the place of an agent's old episodes that have ended.

Around it: `commands.py`, what can be asked; `episode.py`, the events and the row of one episode;
`state.py`, all of a user's; `text.py`, what one says; `room.py`, what leaves for a new one;
`restore.py`, how one comes back; `compression.py`, how many become a summary.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from eventlog import Dropped, Recorded
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import QuotaUse
from memory_actors.kinds.compression import Summary, refuse_beside_originals, refuse_rewording
from memory_actors.kinds.episodic import commands, compression, episode, room, text
from memory_actors.kinds.episodic import state as episode_state
from memory_actors.kinds.episodic.commands import (
    AddEpisodeSummary,
    AddStep,
    CompressEpisodes,
    DeleteEpisode,
    FinishEpisode,
    PutEpisode,
    RestoreEpisodes,
    StartEpisode,
    UndoEpisodeCompaction,
    UpdateEpisode,
)
from memory_actors.kinds.episodic.compression import add_summary, all_returning, compress, undo
from memory_actors.kinds.episodic.episode import (
    EpisodeDeleted,
    EpisodeFinished,
    EpisodeRestored,
    EpisodesPruned,
    EpisodeStarted,
    EpisodeUpdated,
    Event,
    Row,
    StepAdded,
    TextEvent,
    leaving,
    markers,
)
from memory_actors.kinds.episodic.restore import returning
from memory_actors.kinds.episodic.room import (
    Coming,
    refuse_growth,
    refuse_steps,
    refuse_without_room,
    room_by_bytes,
    room_by_count,
)
from memory_actors.kinds.episodic.state import Episodic
from memory_actors.kinds.kind import (
    Command,
    Tally,
    none_at_hand,
    refuse_id,
    same_json,
    timeless,
)

NAME = room.NAME

# --- events, state, evolve

registry = episode.registry
initial = Episodic()
evolve = episode_state.evolve
fold = episode_state.fold
COMMANDS = commands.COMMANDS

# --- decide


def decide(command: Command, state: Episodic, limits: Limits) -> Sequence[Event]:
    """Turn a command into events.

    :raises QuotaExceededError: no room, and no leave to make some.
    :raises InvalidInputError: an id that stands for another memory; an episode that is finished.
    :raises NotFoundError: no such episode.
    """
    if isinstance(command, PutEpisode):
        return _put(command, state, limits)
    if isinstance(command, StartEpisode):
        return _start(command, state, limits)
    if isinstance(command, AddStep):
        return _add_step(command, state, limits)
    if isinstance(command, FinishEpisode):
        return _finish(command, state, limits)
    if isinstance(command, UpdateEpisode):
        return _update(command, state, limits)
    if isinstance(command, RestoreEpisodes):
        return _restore(command, state, limits)
    if isinstance(command, CompressEpisodes):
        return compress(command, state, limits)
    if isinstance(command, UndoEpisodeCompaction):
        return undo(command, state, limits)
    if isinstance(command, AddEpisodeSummary):
        return add_summary(command, state, limits)
    assert isinstance(command, DeleteEpisode)
    _living(state, command.memory_id)
    return [EpisodeDeleted(memory_id=command.memory_id)]


def _start(command: StartEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    if _known(command, state):
        return []
    evicted, pruned = room_by_count(command, state, limits)
    pruned += room_by_bytes(command, state, limits, gone={*evicted, *pruned})
    started = EpisodeStarted(
        memory_id=command.memory_id,
        agent_id=command.agent_id,
        goal=command.goal,
        size_bytes=command.size_bytes,
        digest=command.digest,
        occurred_at_us=command.occurred_at_us,
        metadata=command.metadata,
        session_id=command.session_id,
        pinned=command.pinned,
        evicted_ids=evicted,
    )
    return [EpisodesPruned(memory_ids=pruned, cause="quota"), started] if pruned else [started]


def _known(command: StartEpisode, state: Episodic) -> bool:
    """Say whether this very episode was started before, even if it has gone since."""
    first, row = command.used.get(command.memory_id), find(state, command.memory_id)
    if first is None and row is None:
        return False
    if isinstance(first, Dropped) and row is None:
        return True  # what it said is gone: nobody can tell, and an id is never used again
    known = first if isinstance(first, EpisodeStarted) else row
    if known is None or isinstance(first, Summary):
        refuse_id(command.memory_id)
    if (known.agent_id, known.digest) != (command.agent_id, command.digest):
        refuse_id(command.memory_id)
    return True


def _put(command: PutEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    if _known(command, state):
        return []
    there = returning(command.memory_id, _past(command), limits.episode_steps)
    refuse_steps(len(there.row.steps), limits)
    whole = msgspec.structs.replace(command, size_bytes=there.row.size_bytes)
    evicted, pruned = room_by_count(whole, state, limits)
    pruned += room_by_bytes(whole, state, limits, gone={*evicted, *pruned})
    events = [msgspec.structs.replace(there.events[0], evicted_ids=evicted), *there.events[1:]]
    return [EpisodesPruned(memory_ids=pruned, cause="quota"), *events] if pruned else events


def _past(command: PutEpisode) -> list[Recorded[Any]]:
    """Return the events that would have led to an episode that is put."""
    began = EpisodeRestored(
        memory_id=command.memory_id,
        agent_id=command.agent_id,
        goal=command.goal,
        size_bytes=command.size_bytes,
        digest=command.digest,
        occurred_at_us=command.occurred_at_us,
        metadata=command.metadata,
        session_id=command.session_id,
        pinned=command.pinned,
        created_at_us=command.now_us,
        evicted=command.evicted,
        steps_evicted=command.steps_evicted,
    )
    events = [began, *command.steps, *([] if command.end is None else [command.end])]
    return [
        Recorded("", version, version, command.now_us, "", event, 0, 0, b"")
        for version, event in enumerate(events, start=1)
    ]


def _add_step(command: AddStep, state: Episodic, limits: Limits) -> Sequence[Event]:
    row = _running(state, command.memory_id)
    gone = leaving(row.steps, limits.episode_steps)
    refuse_steps(len(row.steps) - len(gone) + 1, limits)
    freed = sum(step.size_bytes for step in gone)
    refuse_growth(command.size_bytes, freed, state, limits)
    return [
        StepAdded(
            memory_id=command.memory_id,
            number=row.next_number,
            action=command.action,
            size_bytes=command.size_bytes,
            digest=command.digest,
            sha256=command.sha256,
            observation=command.observation,
            outcome=command.outcome,
            error=command.error,
            evicted=markers(gone),
        )
    ]


def _finish(command: FinishEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    _running(state, command.memory_id)
    refuse_growth(command.size_bytes, 0, state, limits)
    return [
        EpisodeFinished(
            memory_id=command.memory_id,
            failed=command.failed,
            result=command.result,
            size_bytes=command.size_bytes,
            digest=command.digest,
        )
    ]


def _update(command: UpdateEpisode, state: Episodic, limits: Limits) -> Sequence[Event]:
    row = _living(state, command.memory_id)
    goal = None if command.digest == row.goal.digest else command.content
    metadata = None if same_json(command.metadata, row.metadata) else command.metadata
    if goal is None:
        return [] if metadata is None else [_updated(command, metadata=metadata)]
    refuse_rewording(row)
    refuse_growth(command.size_bytes, row.goal.size_bytes, state, limits)
    changed = {"content": goal, "size_bytes": command.size_bytes, "digest": command.digest}
    return [_updated(command, metadata=metadata, **changed)]


def _updated(command: UpdateEpisode, **changed: Any) -> EpisodeUpdated:
    return EpisodeUpdated(memory_id=command.memory_id, **changed)


def _restore(command: RestoreEpisodes, state: Episodic, limits: Limits) -> Sequence[Event]:
    back = all_returning(command, state, limits)
    events = [event for one in back for event in one.events]
    refuse_beside_originals(events, state.held.rows)
    refuse_without_room([Coming.of(one.row) for one in back], state, limits)
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


# --- snapshot


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their goals' versions."""

    rows: list[Row] = []
    evicted: int = 0
    pruned: int = 0


def dump(state: Episodic) -> Dump:
    """Return the state as plain rows."""
    return Dump(state.held.in_order(), state.evicted, state.pruned)


def load(dumped: Dump) -> Episodic:
    """Return the state back."""
    return Episodic.of(dumped.rows, dumped.evicted, dumped.pruned)


# --- reads

at = timeless


def tally(state: Episodic) -> Tally:
    """Return counts and bytes."""
    held, told = state.held, state.summaries.tallied()
    return Tally(len(held), held.size_bytes, held.stored_bytes, state.evicted, state.pruned, **told)


def quotas(state: Episodic, limits: Limits, agent_id: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is; the episodes are an agent's, or those of the fullest one."""
    count = state.fullest if agent_id is None else len(state.agents.get(agent_id, ()))
    return (
        QuotaUse("episodes", "count", count, limits.episodes),
        QuotaUse("bytes", "bytes", state.held.size_bytes, limits.episodic_bytes),
    )


def rows(state: Episodic) -> Iterable[Row]:
    """Return the living episodes."""
    return state.held.rows.values()


def rows_of(state: Episodic, agent_id: str) -> Iterable[Row]:
    """Return the living episodes of one agent."""
    return map(state.held.rows.__getitem__, state.agents.get(agent_id, ()))


def find(state: Episodic, memory_id: str) -> Row | None:
    """Return a living episode's row."""
    return state.held.rows.get(memory_id)


at_hand = none_at_hand
indexed_rows = rows
passages = text.passages
passage_text = text.passage_text
sources = text.sources
content = text.content
data = text.data


def chain(row: Row) -> str | None:
    """Return the episode: its steps help to find each other. A summary stands alone."""
    return None if row.original_count else row.memory_id


# --- compaction

compressed = compression.compressed
compressible = compression.compressible
told = text.told


def whose(row: Row) -> str:
    """Return the agent: an episode is its own."""
    return row.agent_id


def summaries(state: Episodic) -> Iterable[Row]:
    """Return the living summaries."""
    return map(state.held.rows.__getitem__, state.summaries.ids)


def is_own(event: Any) -> bool:
    """Say whether an event has a text of one episode, and lets no other one go."""
    return isinstance(event, TextEvent) and not getattr(event, "evicted_ids", ())
