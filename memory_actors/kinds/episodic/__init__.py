"""Episodic memory: what an agent set out to do, the steps it took, and what came of it.

Steps and episodes are limited. The first step, the last and those with an error stay longest. A new
episode of an agent replaces its oldest finished one, failed ones last, for they teach the most.
Running episodes leave only with permission, pinned ones never.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Any, NoReturn

from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.origins import merged, origins_of
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import UNSAID
from memory_actors.kinds import compacting
from memory_actors.kinds.commands import Add, Command, Delete, Restore, Update, is_known, plain
from memory_actors.kinds.compacting import summary_again
from memory_actors.kinds.effects import Decision, Event
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
    RowEvent,
    StepAdded,
    StepMarker,
    StepTexts,
    SummaryEvent,
    TextEvent,
    goal_of,
    registry,
)
from memory_actors.kinds.episodic.state import (
    EpisodeRow,
    EpisodeRows,
    Episodic,
    leaving,
    markers,
    without_steps,
)
from memory_actors.kinds.kind import Bound, Decide, Nature, tentative
from memory_actors.kinds.passages import version_of
from memory_actors.kinds.past import Life, Past, TaintedPast
from memory_actors.kinds.rows import derived, oldest

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


UpdateEpisode = plain(Update, "UpdateEpisode")
DeleteEpisode = plain(Delete, "DeleteEpisode")
RestoreEpisodes = plain(Restore, "RestoreEpisodes")
CompressEpisodes = plain(compacting.Compress, "CompressEpisodes")
UndoEpisodeCompaction = plain(compacting.UndoCompression, "UndoEpisodeCompaction")
AddEpisodeSummary = plain(compacting.PutSummary, "AddEpisodeSummary")


# --- the kind


class EpisodicKind(EpisodeRows):
    """The episodes of a user, by agent."""

    NAME = "episodic"
    NATURE = Nature(names_origins_by_text=True)
    NOUN = "episode"
    MISSING = (
        "it was never there, deleted, evicted, or compressed into a summary; `why` tells what "
        "became of it"
    )
    UPDATE, DELETE, RESTORE = UpdateEpisode, DeleteEpisode, RestoreEpisodes
    COMPRESS, UNDO, ADD_SUMMARY = CompressEpisodes, UndoEpisodeCompaction, AddEpisodeSummary
    DELETED, PRUNED, UNDONE = EpisodeDeleted, EpisodesPruned, EpisodeCompactionUndone
    UPDATED = EpisodeUpdated
    SUMMARIES = (EpisodesCompressed, EpisodeSummaryAdded)
    BOUNDS = (Bound("episodes", "episodes"), Bound("bytes", "episodic_bytes", "bytes"))
    """The number is that of each agent."""
    registry = registry

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            StartEpisode: self._start,
            PutEpisode: self._put,
            AddStep: self._add_step,
            FinishEpisode: self._finish,
        }

    def _start(self, command: StartEpisode, state: Episodic, limits: Limits) -> Decision:
        if self._known(command, state):
            return []
        events, size_bytes = [command.episode], command.episode.size_bytes
        return self._in_its_room(command, events, size_bytes, state, limits)

    def _in_its_room(
        self,
        command: StartEpisode,
        events: Sequence[Any],
        size_bytes: int,
        state: Episodic,
        limits: Limits,
    ) -> Decision:
        """Return the events of an episode that begins, with what leaves for it."""
        rows = state.rows
        evicted, pruned = self._room_by_count(command, state, limits)
        gone = {*evicted, *pruned}
        freed = sum(rows[memory_id].size_bytes for memory_id in gone)
        over = state.size_bytes - freed + size_bytes - limits.episodic_bytes
        if over > 0:
            left = (row for row in rows.values() if row.memory_id not in gone)
            others = (row for row in left if not row.running)
            victims = oldest(others, len(rows), 0, over) if command.auto_prune else None
            if victims is None:
                refuse_bytes(self.NAME, state.size_bytes, limits, "episodic_bytes", new=size_bytes)
            pruned += victims
        if isinstance(command, PutEpisode):  # an episode that comes back evicts none by itself
            evicted, pruned = (), evicted + pruned
        begun = [replace(events[0], evicted_ids=evicted), *events[1:]]
        return [EpisodesPruned(memory_ids=pruned, cause="quota"), *begun] if pruned else begun

    def _known(self, command: StartEpisode, state: Episodic) -> bool:
        episode, key = command.episode, attrgetter("agent_id", "digest")
        row, like = self.find(state, episode.memory_id), (EpisodeStarted, EpisodeRow)
        return is_known(command, episode.memory_id, row, like, key, key(episode))

    def _put(self, command: PutEpisode, state: Episodic, limits: Limits) -> Decision:
        if self._known(command, state):
            return []
        told = [command.episode, *command.steps, *([] if command.end is None else [command.end])]
        life = self.last(command.episode.memory_id, tentative(told, command.now_us, 1))
        row, events = self.back(life, limits)
        self._refuse_steps(len(row.steps), limits)
        return self._in_its_room(command, events, row.size_bytes, state, limits)

    def _add_step(self, command: AddStep, state: Episodic, limits: Limits) -> Decision:
        step = command.step
        row = self._running(state, step.memory_id)
        gone = leaving(row.steps, limits.episode_steps)
        self._refuse_steps(len(row.steps) - len(gone) + 1, limits)
        self.make_room(state, limits, 0, step.size_bytes, instead_of=gone)
        return [replace(step, number=row.next_number, evicted=markers(gone))]

    def _finish(self, command: FinishEpisode, state: Episodic, limits: Limits) -> Decision:
        self._running(state, command.end.memory_id)
        self.make_room(state, limits, 0, command.end.size_bytes)
        return [command.end]

    def _running(self, state: Episodic, memory_id: str) -> EpisodeRow:
        row = self.living(state, memory_id)
        if not row.running:
            raise InvalidInputError(
                f"episode {memory_id!r} is finished ({row.status}): start another"
            )
        return row

    # --- room

    def _room_by_count(
        self, command: StartEpisode, state: Episodic, limits: Limits
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the evicted episodes, one at most, and the pruned ones that make room for one."""
        agent_id = command.episode.agent_id
        ids = state.groups.get(agent_id, Map())
        over = len(ids) + 1 - limits.episodes
        if over <= 0:
            return (), ()
        unpinned = (row for row in map(state.rows.__getitem__, ids) if not row.pinned)
        gone = nsmallest(over, unpinned, key=_order_of_leaving)
        victims = tuple(row.memory_id for row in gone)
        if len(victims) == over == 1 and not gone[0].running:
            return victims, ()
        if not command.auto_prune or len(victims) < over:
            self._refuse_count(agent_id, len(ids), limits)
        return (), victims

    def check_room(
        self,
        coming: Sequence[Any],
        state: Episodic,
        limits: Limits,
        instead_of: Sequence[EpisodeRow] = (),
    ) -> None:
        """Refuse what does not fit as a whole in the place of others.

        Above a limit that was lowered, no more than before fits.
        """
        fewer = Counter(row.agent_id for row in instead_of)
        for agent_id, count in Counter(one.agent_id for one in coming).items():
            used = len(state.groups.get(agent_id, ()))
            if used + count - fewer[agent_id] > max(limits.episodes, used):
                self._refuse_count(agent_id, used, limits, count)
        for one in coming:
            self._refuse_steps(len(getattr(one, "steps", ())), limits)
        size_bytes = sum(one.size_bytes for one in coming)
        self.make_room(state, limits, 0, size_bytes, instead_of=instead_of)

    def _refuse_count(self, agent_id: str, used: int, limits: Limits, new: int = 1) -> NoReturn:
        noun = f"episodes of agent {agent_id!r}"
        refuse_count(self.NAME, noun, used, limits, "episodes", new=new)

    def _refuse_steps(self, count: int, limits: Limits) -> None:
        """Refuse steps where none may be kept: otherwise older ones make room."""
        if count > limits.episode_steps:
            noun = "steps of an episode"
            refuse_count(self.NAME, noun, count - 1, limits, "episode_steps", new=count)

    # --- compaction

    def compressible(self, row: EpisodeRow) -> bool:
        """Say whether an episode may be compressed; how old it is is for others to see."""
        return not row.running and super().compressible(row)

    def whose(self, one: Any) -> str:
        """Return the agent: an episode is its own."""
        agent_id: str = one.agent_id
        return agent_id

    def compressed(
        self, rows: Sequence[EpisodeRow], fields: Mapping[str, Any]
    ) -> EpisodesCompressed:
        """Return the event that puts a summary with these fields in the place of episodes."""
        failed = all(row.status == "failed" for row in rows)
        return EpisodesCompressed(**fields, agent_id=rows[0].agent_id, failed=failed)

    def is_own(self, event: object) -> bool:
        """Say whether an event has a text of one episode, and lets no other one go."""
        return isinstance(event, TextEvent) and not getattr(event, "evicted_ids", ())

    # --- the way back, and purges

    # An episode that a source ended runs again without its words; one that it began goes. A step of
    # a purged source leaves its number, which is never used twice.

    def back(self, life: Life[EpisodeRow], limits: Limits) -> tuple[EpisodeRow, list[RowEvent]]:
        """Return the last row of an episode, and the events that make it again.

        It has no more steps than it may keep now. The events are its goal, its steps and its end;
        each names whose words it has.
        """
        row, events = life.row, life.by_version
        began = life.events[0].data
        if isinstance(began, SummaryEvent):
            return row, [summary_again(EpisodeSummaryAdded, began, row)]
        row = without_steps(row, markers(leaving(row.steps[:-1], limits.episode_steps)))
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

    def cleaned(self, past: TaintedPast) -> Past:
        """Return the events about an episode without the words of a source."""
        gone, kept = _tainted_steps(past), past.cleaned(EpisodeStarted)
        return [_without_markers(one, gone) for one in _each_step_once(kept)]

    def told_again(self, past: TaintedPast, limits: Limits) -> list[RowEvent] | None:
        """Return the events that bring an episode back with what others have said of it."""
        events = super().told_again(past, limits)
        return None if events is None else [_without_words(events[0], past), *events[1:]]

    def without(
        self, past: TaintedPast, row: EpisodeRow, _state: Episodic, limits: Limits
    ) -> list[Event] | None:
        """Return the events that leave an episode what others have said of it."""
        events = self.told_again(past, limits)
        return None if events is None else [EpisodeDeleted(memory_id=row.memory_id), *events]

    # --- reads

    def used(self, state: Episodic, agent_id: str | None) -> tuple[int, ...]:
        """Return the episodes of an agent, or of the one with the most, and the bytes of all."""
        groups = state.groups
        chosen = groups.values() if agent_id is None else [groups.get(agent_id, Map())]
        return max(map(len, chosen), default=0), state.size_bytes


def _order_of_leaving(row: EpisodeRow) -> tuple[int, int, int]:
    return ("done", "failed", "running").index(row.status), row.occurred_at_us, row.version


def _said_again(recorded: AnyRecorded, **fields: object) -> RowEvent:
    again: RowEvent = replace(recorded.data, origins=origins_of(recorded), **fields)
    return again


# --- without the words of a source


def _without_words(first: RowEvent, past: TaintedPast) -> RowEvent:
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


KIND = EpisodicKind()
