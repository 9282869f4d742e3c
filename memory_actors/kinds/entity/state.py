"""Entities and relationships as they are now: rows without observations and facts, and their fold.

An entity's texts are spread over the events that told them: each observation knows its label and
its digest. A relationship's text is in one event. What an entity's row says of stored bytes is the
sum of all events about it since it was there.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.kinds.entity.events import (
    EntitiesPruned,
    EntityAdded,
    EntityDeleted,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    Event,
    Observation,
    ObservationRemoved,
    RelationshipAdded,
    RelationshipDeleted,
    RelationshipEnded,
    RelationshipRestored,
    RelationshipUpdated,
)
from memory_actors.kinds.entity.graph import Graph, RelationshipRow, name_key
from memory_actors.kinds.kind import Events, Life, Row, index_of, label, tentative, version_of
from memory_actors.kinds.rows import Draft, Held, derived, kept, new_row

# --- state


class ObservationRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An observation without its text."""

    label: int
    digest: bytes
    size_bytes: int


class EntityRow(Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """An entity without the texts of its observations; `version` is of the event with its name."""

    name: str
    type: str
    digest: bytes
    """Of the text of its name."""
    observations: tuple[ObservationRow, ...]
    pinned: bool

    @property
    def name_bytes(self) -> int:
        """Bytes of name and type."""
        return self.size_bytes - sum(observation.size_bytes for observation in self.observations)


class Entities(msgspec.Struct, frozen=True):
    """The living entities with their relationships, and how many of both were pruned so far."""

    held: Held[EntityRow] = Held()
    """Its groups are the names; the keys there are types."""
    graph: Graph = Graph()
    pruned: int = 0

    def find(self, memory_id: str) -> EntityRow | RelationshipRow | None:
        """Return the row of a living entity or relationship."""
        return self.held.rows.get(memory_id) or self.graph.held.rows.get(memory_id)

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of names, types, observations and facts."""
        return self.held.size_bytes + self.graph.held.size_bytes

    @property
    def stored_bytes(self) -> int:
        """Bytes that the events of the living take in the log."""
        return self.held.stored_bytes + self.graph.held.stored_bytes


initial = Entities()

# --- fold


def fold(state: Entities, events: Iterable[Recorded[Event]]) -> Entities:
    """Fold many events into the state."""
    draft = _Draft(state)
    for recorded in events:
        _FOLD[type(recorded.data)](draft, recorded.data, recorded)
    return draft.finish()


def tentatively(state: Entities, events: Iterable[Event]) -> Entities:
    """Return what the state would be after events that have no place in the log yet."""
    return fold(state, tentative(events))


class _Draft:
    """A state that changes in place."""

    __slots__ = ("graph", "held", "pruned")

    def __init__(self, state: Entities):
        self.held = Draft(state.held, place)
        self.graph = state.graph.draft()
        self.pruned = state.pruned

    def finish(self) -> Entities:
        return Entities(self.held.finish(), self.graph.finish(), self.pruned)

    def drop(self, memory_id: str) -> None:
        if memory_id not in self.held.rows:
            self.graph.drop(memory_id)
            return
        self.held.drop(memory_id)


def place(row: EntityRow) -> tuple[str, str]:
    """Return what an entity is found by: its name and its type, however they are spelled."""
    return name_key(row.name), name_key(row.type)


def _entity_added(draft: _Draft, event: EntityAdded, recorded: Recorded[Event]) -> None:
    observations = _observed(event.observations, recorded)
    draft.held.put(new_row(EntityRow, recorded, observations=observations))


def _observed(
    observations: Iterable[Observation], recorded: Recorded[Event]
) -> tuple[ObservationRow, ...]:
    """Return the rows of observations: the first is passage 1 of its event."""
    return tuple(
        ObservationRow(label(recorded.version, index), observation.digest, observation.size_bytes)
        for index, observation in enumerate(observations, start=1)
    )


def _entity_observed(draft: _Draft, event: EntityObserved, recorded: Recorded[Event]) -> None:
    row = draft.held.rows[event.memory_id]
    new = _observed(event.observations, recorded)
    changed = replace(
        row,
        size_bytes=row.size_bytes + sum(observation.size_bytes for observation in new),
        stored_bytes=row.stored_bytes + recorded.stored_bytes,
        compressed=row.compressed or recorded.compressed,
        observations=(*row.observations, *new),
        metadata=row.metadata if event.metadata is None else event.metadata,
        pinned=row.pinned or event.pinned,
    )
    draft.held.put(changed)


def _unobserved(draft: _Draft, event: ObservationRemoved, recorded: Recorded[Event]) -> None:
    row = draft.held.rows[event.memory_id]
    kept = tuple(held for held in row.observations if held.digest != event.digest)
    draft.held.put(_with_observations(row, kept, recorded))


def _entity_updated(draft: _Draft, event: EntityUpdated, recorded: Recorded[Event]) -> None:
    row = draft.held.rows[event.memory_id]
    observations = row.observations
    if event.content is not None:
        only = ObservationRow(label(recorded.version, 1), event.digest, event.size_bytes)
        observations = (only,)
    draft.held.put(_with_observations(kept(row, event), observations, recorded))


def _with_observations(
    row: EntityRow, observations: tuple[ObservationRow, ...], recorded: Recorded[Event]
) -> EntityRow:
    return replace(
        row,
        size_bytes=row.name_bytes + sum(observation.size_bytes for observation in observations),
        stored_bytes=row.stored_bytes + recorded.stored_bytes,
        compressed=row.compressed or recorded.compressed,
        observations=observations,
    )


def _entity_deleted(draft: _Draft, event: EntityDeleted, _recorded: Recorded[Event]) -> None:
    for memory_id in (*event.relationship_ids, event.memory_id):
        draft.drop(memory_id)


def _entities_pruned(draft: _Draft, event: EntitiesPruned, _recorded: Recorded[Event]) -> None:
    for memory_id in event.memory_ids:
        draft.drop(memory_id)
    draft.pruned += len(event.memory_ids)


def _relationship_added(draft: _Draft, event: RelationshipAdded, recorded: Recorded[Event]) -> None:
    for memory_id in event.closed_ids:
        _end(draft, memory_id, event.valid_from_us, 0)
    row = new_row(RelationshipRow, recorded, occurred_at_us=event.valid_from_us)
    draft.graph.put(row)


def _end(draft: _Draft, memory_id: str, valid_to_us: int, stored_bytes: int) -> None:
    row = draft.graph.held.rows.get(memory_id)
    if row is not None:  # the fold of one memory alone does not know the others
        stored = row.stored_bytes + stored_bytes
        draft.graph.put(replace(row, valid_to_us=valid_to_us, stored_bytes=stored))


def _relationship_ended(draft: _Draft, event: RelationshipEnded, recorded: Recorded[Event]) -> None:
    _end(draft, event.memory_id, event.valid_to_us, recorded.stored_bytes)


def _relationship_updated(
    draft: _Draft, event: RelationshipUpdated, recorded: Recorded[Event]
) -> None:
    row = draft.graph.held.rows[event.memory_id]
    changed = replace(
        row,
        stored_bytes=row.stored_bytes + recorded.stored_bytes,
        compressed=row.compressed or recorded.compressed,
        metadata=row.metadata if event.metadata is None else event.metadata,
        pinned=row.pinned if event.pinned is None else event.pinned,
    )
    if event.content is not None:
        changed = replace(
            changed,
            version=recorded.version,
            size_bytes=event.size_bytes,
            digest=event.digest,
        )
    draft.graph.put(changed)


def _relationship_deleted(
    draft: _Draft, event: RelationshipDeleted, _recorded: Recorded[Event]
) -> None:
    draft.drop(event.memory_id)


_FOLD: Mapping[type, Callable[[_Draft, Any, Recorded[Any]], None]] = {
    EntityAdded: _entity_added,
    EntityRestored: _entity_added,
    EntityObserved: _entity_observed,
    ObservationRemoved: _unobserved,
    EntityUpdated: _entity_updated,
    EntityDeleted: _entity_deleted,
    EntitiesPruned: _entities_pruned,
    RelationshipAdded: _relationship_added,
    RelationshipRestored: _relationship_added,
    RelationshipUpdated: _relationship_updated,
    RelationshipEnded: _relationship_ended,
    RelationshipDeleted: _relationship_deleted,
}

# --- snapshot


class Dumped(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their names' and texts' versions."""

    entities: list[EntityRow] = []
    relationships: list[RelationshipRow] = []
    pruned: int = 0
    ended_us: dict[str, dict[str, int]] = {}
    """Source id -> relation key -> the latest end, as in the graph."""


# --- look-ups


def named(state: Entities, name: str, entity_type: str) -> EntityRow | None:
    """Return the entity of this name and type, however they are spelled."""
    return state.held.named(name_key(name), name_key(entity_type))


def find_named(state: Entities, name: str, entity_type: str | None = None) -> tuple[EntityRow, ...]:
    """Return the entities of this name, however it is spelled; of one type or of any.

    Oldest first; at most one if the type is given.
    """
    if entity_type is not None:
        row = named(state, name, entity_type)
        return () if row is None else (row,)
    return tuple(
        sorted(state.held.of_group(name_key(name)), key=lambda row: (row.version, row.memory_id))
    )


# --- an entity or a relationship that has gone


def as_it_was(life: Life[EntityRow | RelationshipRow]) -> EntityRestored | RelationshipRestored:
    """Return the event by which one comes back."""
    row, events = life.row, life.by_version
    if isinstance(row, EntityRow):
        told = tuple(
            derived(Observation, held, text=observation_at(held.label, events))
            for held in row.observations
        )
        return derived(EntityRestored, row, observations=told)
    began = life.events[0].data
    return derived(
        RelationshipRestored,
        row,
        began,
        closed_ids=(),
        origins=(),
        fact=fact_in(events[row.version].data),
        valid_from_us=row.valid_from_us,
    )


def observation_at(passage_label: int, events: Events) -> str:
    """Return the text of an observation: of an update, or of those that came together."""
    event = events[version_of(passage_label)].data
    text = getattr(event, "content", None)
    return str(event.observations[index_of(passage_label) - 1].text if text is None else text)


def fact_in(event: Any) -> str | None:
    """Return the fact in an event of a relationship: of an update, its content."""
    return getattr(event, "fact", None) or getattr(event, "content", None)
