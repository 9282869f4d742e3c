"""Entities and relationships as they are now: rows without observations and facts, and their fold.

Each observation knows the label of its text. The stored bytes of an entity are the sum of all
events about it since it began.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.kinds.effects import Event
from memory_actors.kinds.entity.events import (
    EntitiesPruned,
    EntityAdded,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    Observation,
    ObservationRemoved,
    RelationshipAdded,
    RelationshipEnded,
    RelationshipRestored,
    RelationshipUpdated,
    registry,
)
from memory_actors.kinds.entity.graph import (
    GraphDraft,
    RelationshipGraph,
    RelationshipRow,
    name_key,
    touching,
)
from memory_actors.kinds.keyed import Keyed, KeyedDraft, KeyedKind
from memory_actors.kinds.kind import Events, Life, Pruned, Row, oldest_first
from memory_actors.kinds.passages import index_of, label, version_of
from memory_actors.kinds.rows import Draft, Place, derived, kept, new_row, oldest

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
    """Digest of the text of its name."""
    observations: tuple[ObservationRow, ...]
    pinned: bool

    @property
    def name_bytes(self) -> int:
        """Bytes of name and type."""
        return self.size_bytes - sum(observation.size_bytes for observation in self.observations)


AnyRow: TypeAlias = EntityRow | RelationshipRow


class Entities(Keyed[EntityRow], frozen=True):
    """The living entities with their relationships, and how many of both were pruned so far.

    The groups of the entities are their names; the keys there are types.
    """

    graph: RelationshipGraph = RelationshipGraph()

    def find(self, memory_id: str) -> AnyRow | None:
        """Return the row of a living entity or relationship."""
        return self.held.rows.get(memory_id) or self.graph.held.rows.get(memory_id)

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of names, types, observations and facts."""
        return self.held.size_bytes + self.graph.held.size_bytes


class EntityDump(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their names' and texts' versions."""

    entities: list[EntityRow] = []
    relationships: list[RelationshipRow] = []
    pruned: int = 0
    ended_us: dict[str, dict[str, int]] = {}
    """Source id -> relation key -> the latest end, as in the graph."""


# --- fold


class EntitiesDraft(KeyedDraft[Any]):
    """Entities and their graph, which change in place."""

    __slots__ = ("graph",)

    def __init__(self, state: Entities, place: Place[AnyRow]):
        super().__init__(state, place)
        self.graph = GraphDraft(state.graph)

    def get(self, memory_id: str) -> AnyRow:
        """Return an entity or a relationship. No event is about one that is missing."""
        return super().get(memory_id) or self.graph.rows[memory_id]

    def put(self, row: AnyRow) -> AnyRow | None:
        """Add an entity or a relationship, or replace the one with its id."""
        return self.graph.put(row) if isinstance(row, RelationshipRow) else super().put(row)

    def discard(self, memory_id: str) -> AnyRow:
        """Take an entity or a relationship away."""
        return super().discard(memory_id) or self.graph.drop(memory_id)

    def fields(self) -> tuple[object, ...]:
        """Return the fields of the state as they have become, in their order."""
        return (*super().fields(), self.graph.finished())


class EntityRows(KeyedKind[Entities, AnyRow]):
    """Folds events into entities and relationships."""

    DRAFT = EntitiesDraft
    Dump = EntityDump
    registry = registry
    initial = Entities()

    def place(self, row: EntityRow) -> tuple[str, str]:
        """Return the key that finds an entity: name and type, however they are spelled."""
        return name_key(row.name), name_key(row.type)

    def begun(self, recorded: AnyRecorded, draft: Draft[AnyRow]) -> AnyRow:
        """Return the row of an entity, or of a relationship, which ends those it contradicts."""
        event: EntityAdded | RelationshipAdded = recorded.data
        if isinstance(event, EntityAdded):
            observed = _observed(event.observations, recorded)
            return new_row(EntityRow, recorded, observations=observed)
        since_us = event.valid_from_us
        assert isinstance(draft, EntitiesDraft)
        for row in filter(
            None, map(draft.graph.get, event.closed_ids)
        ):  # one alone knows no others
            draft.graph.put(replace(row, valid_to_us=since_us))
        return new_row(RelationshipRow, recorded, occurred_at_us=since_us)

    def changed(self, row: AnyRow, recorded: AnyRecorded) -> AnyRow:
        """Return a row after an event about it, with the bytes that this takes, too."""
        stored = row.stored_bytes + recorded.stored_bytes
        row = replace(row, stored_bytes=stored, compressed=row.compressed or recorded.compressed)
        if isinstance(row, EntityRow):
            return _changed(row, recorded)
        event: RelationshipEnded | RelationshipUpdated = recorded.data
        if isinstance(event, RelationshipEnded):
            return replace(row, valid_to_us=event.valid_to_us)
        row = kept(row, event)
        if event.content is None:
            return row
        said = {"size_bytes": event.size_bytes, "digest": event.digest}
        return replace(row, version=recorded.version, **said)

    def dump(self, state: Entities) -> EntityDump:
        """Return the state as plain rows."""
        graph = state.graph
        ended_us = {
            source: dict(sorted(by.items())) for source, by in sorted(graph.ended_us.items())
        }
        return EntityDump(state.held.in_order(), graph.held.in_order(), state.pruned, ended_us)

    def load(self, dumped: EntityDump) -> Entities:
        """Return the state back."""
        graph = RelationshipGraph.of(dumped.relationships, dumped.ended_us)
        return self.of_rows(dumped.entities, graph=graph, pruned=dumped.pruned)


def _observed(
    observations: Iterable[Observation], recorded: Recorded[Event]
) -> tuple[ObservationRow, ...]:
    return tuple(
        ObservationRow(label(recorded.version, index), observation.digest, observation.size_bytes)
        for index, observation in enumerate(observations, start=1)
    )


def _changed(row: EntityRow, recorded: AnyRecorded) -> EntityRow:
    event: EntityObserved | ObservationRemoved | EntityUpdated = recorded.data
    observations = row.observations
    if isinstance(event, EntityObserved):
        metadata = row.metadata if event.metadata is None else event.metadata
        row = replace(row, metadata=metadata, pinned=row.pinned or event.pinned)
        observations = (*observations, *_observed(event.observations, recorded))
    elif isinstance(event, ObservationRemoved):
        observations = tuple(held for held in observations if held.digest != event.digest)
    else:
        row = kept(row, event)
        if event.content is not None:
            only = ObservationRow(label(recorded.version, 1), event.digest, event.size_bytes)
            observations = (only,)
    size_bytes = row.name_bytes + sum([one.size_bytes for one in observations])
    return replace(row, size_bytes=size_bytes, observations=observations)


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


def fact_in(event: object) -> str | None:
    """Return the fact in an event of a relationship: of an update, its content."""
    return getattr(event, "fact", None) or getattr(event, "content", None)


# --- room
#
# The oldest tenth of the entities goes, each with its relationships; or that of the relationships.
# Pinned ones stay, with both endpoints of a pinned relationship.


NAME = "entity"


class Room(NamedTuple):
    """A part of each limit; what is not asked for, or given back, never lacks."""

    entities: int = 0
    relationships: int = 0
    size_bytes: int = 0
    """The bytes that are added."""
    whole_bytes: int | None = None
    """Bytes of the written memory, if it replaces another."""


Victims: TypeAlias = Callable[[Entities, Room], tuple[str, ...] | None]
"""A function from the room that lacks to the ids that go for it; or None if there is not enough."""


def make_room(state: Entities, limits: Limits, need: Room, victims: Victims | None) -> list[Pruned]:
    """Return the prune that makes room for what is needed; none where there is room.

    :raises QuotaExceededError: there is none, and none can or may be made.
    """
    lacking = Room(
        _lacking(len(state.held), need.entities, limits.entities),
        _lacking(len(state.graph.held), need.relationships, limits.relationships),
        _lacking(state.size_bytes, need.size_bytes, limits.entity_bytes),
    )
    if not any(lacking):
        return []
    going = victims(state, lacking) if victims is not None else None
    if going is None:
        if lacking.entities:
            refuse_count(NAME, "memories", len(state.held), limits, "entities", new=need.entities)
        if lacking.relationships:
            used, new = len(state.graph.held), need.relationships
            refuse_count(NAME, "relationships", used, limits, "relationships", new=new)
        new = need.size_bytes if need.whole_bytes is None else need.whole_bytes
        refuse_bytes(NAME, state.size_bytes, limits, "entity_bytes", new=new)
    return [EntitiesPruned(memory_ids=going, cause="quota")]


def _lacking(used: int, need: int, limit: int) -> int:
    return max(0, used + need - limit) if need > 0 else 0


def oldest_relationships(
    state: Entities, lacking: Room, keep: str | None = None
) -> tuple[str, ...] | None:
    """Return the oldest relationships, without the one to keep."""
    held = state.graph.held
    rows = (row for row in held.rows.values() if row.memory_id != keep)
    return oldest(rows, len(held), lacking.relationships, lacking.size_bytes)


def oldest_entities(
    state: Entities, lacking: Room, keep: str | None = None
) -> tuple[str, ...] | None:
    """Return the oldest entities, without the one to keep, and then their relationships."""
    pinned = (row for row in state.graph.held.rows.values() if row.pinned)
    kept = {keep, *(end for row in pinned for end in (row.source_id, row.target_id))}
    rows = state.held.rows.items()
    prunable = {key: row for key, row in rows if key not in kept and not row.pinned}
    if lacking.size_bytes:
        prunable = _with_relationships(state, prunable)
    going = oldest(prunable.values(), len(state.held), lacking.entities, lacking.size_bytes)
    return None if going is None else (*going, *touching(state.graph, going))


def _with_relationships(state: Entities, prunable: dict[str, EntityRow]) -> dict[str, EntityRow]:
    """Return entities with all the bytes that go when they go, the oldest first."""
    goes = dict.fromkeys(prunable, 0)
    for row in state.graph.held.rows.values():
        ends = [prunable[end] for end in (row.source_id, row.target_id) if end in prunable]
        if ends:  # it goes with the first of them
            goes[oldest_first(ends)[0].memory_id] += row.size_bytes
    return {
        key: msgspec.structs.replace(row, size_bytes=row.size_bytes + goes[key])
        for key, row in prunable.items()
    }
