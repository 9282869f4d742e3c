"""Summaries in the place of episodes: one agent's that have ended, never of two."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_actors.base.quota import Limits
from memory_actors.kinds import compression
from memory_actors.kinds.compression import are_as_read, is_there, summary_to_undo
from memory_actors.kinds.episodic.commands import (
    AddEpisodeSummary,
    CompressEpisodes,
    UndoEpisodeCompaction,
)
from memory_actors.kinds.episodic.episode import (
    CompactionUndone,
    EpisodesCompressed,
    Event,
    Row,
    SummaryEvent,
)
from memory_actors.kinds.episodic.restore import Returning, returning
from memory_actors.kinds.episodic.room import Coming, refuse_without_room
from memory_actors.kinds.episodic.state import Episodic
from memory_actors.kinds.kind import Restore


def compressible(row: Row) -> bool:
    """Say whether an episode may be compressed; how old it is is for others to see."""
    return not row.running and compression.compressible(row)


def compressed(rows: Sequence[Row], fields: Mapping[str, Any]) -> EpisodesCompressed:
    """Return the event that puts a summary with these fields in the place of episodes."""
    failed = all(row.status == "failed" for row in rows)
    return EpisodesCompressed(**fields, agent_id=rows[0].agent_id, failed=failed)


def compress(command: CompressEpisodes, state: Episodic, limits: Limits) -> Sequence[Event]:
    """Replace the originals by the summary, if every one of them is as it was read.

    :raises QuotaExceededError: there would be more bytes than before, and no room for them.
    """
    if not are_as_read(command, state.held.rows):
        return []
    summary = command.summary
    gone = [state.held.rows[memory_id] for memory_id, _ in command.originals]
    if not all(compressible(row) and row.agent_id == summary.agent_id for row in gone):
        return []
    refuse_without_room([Coming.summary(summary)], state, limits, gone)
    return [summary]


def undo(command: UndoEpisodeCompaction, state: Episodic, limits: Limits) -> Sequence[Event]:
    """Take a summary away and bring back those originals that do not live.

    :raises NotFoundError: there is no such summary, or an original is not in the log any more.
    :raises QuotaExceededError: there is no room for all of them.
    """
    summary = summary_to_undo(command, state.held.rows)
    back = all_returning(command, state, limits)
    refuse_without_room([Coming.of(one.row) for one in back], state, limits, [summary])
    undone = CompactionUndone(memory_id=command.memory_id)
    return [undone, *(event for one in back for event in one.events)]


def add_summary(command: AddEpisodeSummary, state: Episodic, limits: Limits) -> Sequence[Event]:
    """Add a summary of another store, unless it was added before.

    :raises QuotaExceededError: there is no room for it.
    :raises InvalidInputError: its id stands for another memory.
    """
    if is_there(command, state.held.rows.get(command.summary.memory_id), SummaryEvent):
        return []
    refuse_without_room([Coming.summary(command.summary)], state, limits)
    return [command.summary]


def all_returning(command: Restore, state: Episodic, limits: Limits) -> list[Returning]:
    """Return those of some episodes that do not live, each once, as its last events left it.

    :raises NotFoundError: one never was, or retention dropped what it was.
    """
    gone = dict.fromkeys(one for one in command.memory_ids if one not in state.held.rows)
    return [returning(one, command.past.get(one, ()), limits.episode_steps) for one in gone]
