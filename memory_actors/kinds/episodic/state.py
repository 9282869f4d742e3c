"""All episodes of a user: the state of episodic memory, and how it follows its events.

What an event says of an episode that is not there is passed over: see kinds/compression.py for why.
"""

from collections.abc import Iterable, Sequence

import msgspec
from immutables import Map

from eventlog import Recorded
from memory_actors.kinds.compression import CompactedDraft, Summaries
from memory_actors.kinds.episodic.episode import (
    CompactionUndone,
    EpisodeDeleted,
    EpisodesCompressed,
    EpisodesPruned,
    EpisodeStarted,
    EpisodeSummaryAdded,
    Event,
    Row,
    evolved,
)
from memory_actors.kinds.rows import Groups, Held, put_in, take_from

_BEGINNINGS = (EpisodeStarted, EpisodesCompressed, EpisodeSummaryAdded)
"""Events that an episode, or a summary of some, begins with or comes back with."""

# --- state


class Episodic(msgspec.Struct, frozen=True):
    """The living episodes, whose they are, and how many left so far."""

    held: Held[Row] = Held()
    agents: Groups = Map()
    """Memory ids by agent; the key is the id."""
    agents_by_count: Map[int, int] = Map()
    """How many agents have so many episodes: the fullest is known without asking each."""
    fullest: int = 0
    """Episodes of the agent that has the most."""
    evicted: int = 0
    pruned: int = 0
    summaries: Summaries = Summaries()

    @classmethod
    def of(cls, rows: Iterable[Row], evicted: int, pruned: int) -> "Episodic":
        """Return these episodes."""
        draft = _Draft(cls(evicted=evicted, pruned=pruned))
        for row in rows:
            draft.join(row.agent_id, row.memory_id)
            draft.held.put(row)
        return draft.finish()


# --- evolve


def evolve(state: Episodic, recorded: Recorded[Event]) -> Episodic:
    """Fold one event into the state."""
    return fold(state, (recorded,))


def fold(state: Episodic, events: Iterable[Recorded[Event]]) -> Episodic:
    """Fold many events into the state."""
    draft = _Draft(state)
    for recorded in events:
        draft.apply(recorded)
    return draft.finish()


class _Draft:
    """A state that changes in place, for one fold."""

    def __init__(self, state: Episodic):
        self.held = CompactedDraft(state.held, state.summaries)
        self.agents = state.agents.mutate()
        self.agents_by_count = state.agents_by_count.mutate()
        self.fullest = state.fullest
        self.evicted = state.evicted
        self.pruned = state.pruned

    def apply(self, recorded: Recorded[Event]) -> None:
        """Fold one event."""
        event = recorded.data
        if isinstance(event, EpisodeDeleted | CompactionUndone):
            self._discard((event.memory_id,))
        elif isinstance(event, EpisodesPruned):
            self._discard(event.memory_ids)
            self.pruned += len(event.memory_ids)
        else:
            self._make_way(event)
            row = self.held.rows.get(event.memory_id)
            if row is not None or isinstance(event, _BEGINNINGS):
                self.held.put(evolved(row, recorded))

    def _make_way(self, event: Event) -> None:
        """Let go what an event takes the place of, and give its agent the new one."""
        if isinstance(event, EpisodeStarted):
            self._discard(event.evicted_ids)
            self.evicted += len(event.evicted_ids)
        if isinstance(event, EpisodesCompressed):
            self._discard(event.compressed_from_ids)
        if isinstance(event, _BEGINNINGS):
            self.join(event.agent_id, event.memory_id)

    def _discard(self, memory_ids: Sequence[str]) -> None:
        """Take episodes away where they are there."""
        for memory_id in memory_ids:
            if memory_id in self.held.rows:
                agent_id = self.held.drop(memory_id).agent_id
                count = len(self.agents[agent_id])
                take_from(self.agents, agent_id, memory_id)
                self._count(count, count - 1)

    def join(self, agent_id: str, memory_id: str) -> None:
        """Give an agent one more episode."""
        put_in(self.agents, agent_id, memory_id, memory_id)
        count = len(self.agents[agent_id])
        self._count(count - 1, count)

    def _count(self, before: int, after: int) -> None:
        """Take note that an agent has one episode more, or one less."""
        by_count = self.agents_by_count
        if before:
            others = by_count.pop(before) - 1
            if others:
                by_count[before] = others
        if after:
            by_count[after] = by_count.get(after, 0) + 1
        if after > self.fullest or (before == self.fullest and before not in by_count):
            self.fullest = after

    def finish(self) -> Episodic:
        """Return what has become of the state."""
        return Episodic(
            held=self.held.finish(),
            agents=self.agents.finish(),
            agents_by_count=self.agents_by_count.finish(),
            fullest=self.fullest,
            evicted=self.evicted,
            pruned=self.pruned,
            summaries=self.held.summaries,
        )
