"""The state of structured memory: the living documents, folded from events, and as a snapshot."""

from collections.abc import Iterable

import msgspec
from immutables import Map

from eventlog import Recorded
from memory_actors.kinds.rows import Groups, Held, put_in, take_from
from memory_actors.kinds.structured.document import (
    DocumentDeleted,
    DocumentPut,
    DocumentUpdated,
    Event,
    Row,
    evolved,
)


class Structured(msgspec.Struct, frozen=True):
    """The living documents, and how many were pruned so far."""

    held: Held[Row] = Held()
    collections: Groups = Map()
    """Memory ids by collection and key."""
    pruned: int = 0


# --- evolve


def evolve(state: Structured, recorded: Recorded[Event]) -> Structured:
    """Fold one event into the state."""
    return fold(state, (recorded,))


def fold(state: Structured, events: Iterable[Recorded[Event]]) -> Structured:
    """Fold many events into the state."""
    draft = _Draft(state)
    for recorded in events:
        draft.apply(recorded)
    return draft.finish()


class _Draft:
    """A state that changes in place, for one fold."""

    def __init__(self, state: Structured):
        self.held = state.held.draft()
        self.collections = state.collections.mutate()
        self.pruned = state.pruned

    def apply(self, recorded: Recorded[Event]) -> None:
        """Fold one event."""
        event = recorded.data
        if isinstance(event, DocumentPut | DocumentUpdated):
            row = evolved(self.held.rows.get(event.memory_id), recorded)
            self.held.put(row)
            put_in(self.collections, row.collection, row.key, row.memory_id)
        elif isinstance(event, DocumentDeleted):
            self._drop(event.memory_id)
        else:
            for memory_id in event.memory_ids:
                self._drop(memory_id)
            self.pruned += len(event.memory_ids)

    def _drop(self, memory_id: str) -> None:
        row = self.held.drop(memory_id)
        take_from(self.collections, row.collection, row.key)

    def finish(self) -> Structured:
        """Return what has become of the state."""
        return Structured(self.held.finish(), self.collections.finish(), self.pruned)


# --- snapshot


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their values' versions."""

    rows: list[Row] = []
    pruned: int = 0


def dump(state: Structured) -> Dump:
    """Return the state as plain rows."""
    return Dump(state.held.in_order(), state.pruned)


def load(dumped: Dump) -> Structured:
    """Return the state back."""
    collections = Groups().mutate()
    for row in dumped.rows:
        put_in(collections, row.collection, row.key, row.memory_id)
    return Structured(Held.of(dumped.rows), collections.finish(), dumped.pruned)
