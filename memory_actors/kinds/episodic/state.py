"""All episodes of a user: the state of episodic memory, and how it follows its events."""

from collections.abc import Iterable, Sequence

import msgspec
from immutables import Map

from eventlog import Recorded
from memory_actors.kinds.episodic.episode import (
    EpisodeDeleted,
    EpisodesPruned,
    EpisodeStarted,
    Event,
    Row,
    evolved,
)
from memory_actors.kinds.held import Groups, Held, put_in, take_from

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
        self.held = state.held.draft()
        self.agents = state.agents.mutate()
        self.agents_by_count = state.agents_by_count.mutate()
        self.fullest = state.fullest
        self.evicted = state.evicted
        self.pruned = state.pruned

    def apply(self, recorded: Recorded[Event]) -> None:
        """Fold one event."""
        event = recorded.data
        if isinstance(event, EpisodeDeleted):
            self._drop((event.memory_id,))
        elif isinstance(event, EpisodesPruned):
            self.pruned += self._drop(event.memory_ids)
        else:
            if isinstance(event, EpisodeStarted):
                self.evicted += self._drop(event.evicted_ids)
                self.join(event.agent_id, event.memory_id)
            self.held.put(evolved(self.held.rows.get(event.memory_id), recorded))

    def _drop(self, memory_ids: Sequence[str]) -> int:
        for memory_id in memory_ids:
            agent_id = self.held.drop(memory_id).agent_id
            count = len(self.agents[agent_id])
            take_from(self.agents, agent_id, memory_id)
            self._count(count, count - 1)
        return len(memory_ids)

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
        )
