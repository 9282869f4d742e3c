"""Entities and relationships as they are now: rows without observations and facts, and their fold.

Each observation knows the label of its text. The stored bytes of an entity are the sum of all
events about it since it began.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded
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
    fact_in,
    registry,
)
from memory_actors.kinds.entity.graph import (
    GraphDraft,
    RelationshipGraph,
    RelationshipRow,
    name_key,
    touching,
)
from memory_actors.kinds.kind import BaseKind, Bound, rows_dump
from memory_actors.kinds.passages import index_of, label, version_of
from memory_actors.kinds.past import Events, Life
from memory_actors.kinds.rows import (
    Draft,
    Keyed,
    Place,
    Row,
    derived,
    kept,
    new_row,
    oldest,
    oldest_first,
)

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
        return self.rows.get(memory_id) or self.graph.rows.get(memory_id)


# --- fold


class EntitiesDraft(Draft[Any]):
    """Entities and their graph, which change in place."""

    __slots__ = ("graph",)

    def __init__(self, state: Entities, place: Place[AnyRow]):
        super().__init__(state, place)
        self.graph = GraphDraft(state.graph)

    def get(self, memory_id: str) -> AnyRow:
        """Return an entity or a relationship. No event is about one that is missing."""
        row: AnyRow = super().get(memory_id) or self.graph.rows[memory_id]
        return row

    def put(self, row: AnyRow) -> AnyRow | None:
        """Add an entity or a relationship, or replace the one with its id."""
        return self.graph.put(row) if isinstance(row, RelationshipRow) else super().put(row)

    def discard(self, memory_id: str) -> AnyRow:
        """Take an entity or a relationship away."""
        return super().discard(memory_id) or self.graph.drop(memory_id)

    def fields(self) -> tuple[object, ...]:
        """Return the fields of the state as they have become, in their order."""
        return (*super().fields(), self.graph.finished())


class EntityRows(BaseKind[Entities, AnyRow]):
    """Folds events into entities and relationships, and makes room for both."""

    NAME = "entity"
    BOUNDS = (
        Bound("entities", "entities", noun="memories"),
        Bound("relationships", "relationships"),
        Bound("bytes", "entity_bytes", "bytes"),
    )
    PRUNED = EntitiesPruned
    DRAFT = EntitiesDraft
    Dump = rows_dump(
        "EntityDump",
        EntityRow,
        "pruned",
        relationships=(list[RelationshipRow], []),
        ended_us=(dict[str, dict[str, int]], {}),  # as in the graph
    )
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
        # A memory that is folded alone knows no others.
        for row in filter(None, map(draft.graph.get, event.closed_ids)):
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

    def dump(self, state: Entities) -> object:
        """Return the state as plain rows."""
        graph = state.graph
        ended_us = {
            source: dict(sorted(by.items())) for source, by in sorted(graph.ended_us.items())
        }
        relationships = graph.in_order()
        return self.Dump(state.in_order(), state.pruned, relationships, ended_us)

    def load(self, dumped: Any) -> Entities:
        """Return the state back."""
        graph = RelationshipGraph.of(dumped.relationships, dumped.ended_us)
        return self.of_rows(dumped.rows, graph=graph, pruned=dumped.pruned)

    # --- room
    #
    # The oldest tenth of the entities goes, each with its relationships; or that of the
    # relationships. Pinned ones stay, with both endpoints of a pinned relationship.

    def used(self, state: Entities, _whose: str | None) -> tuple[int, ...]:
        """Return the entities, the relationships, and the UTF-8 bytes of both."""
        graph = state.graph
        return len(state.rows), len(graph.rows), state.size_bytes + graph.size_bytes

    def oldest_relationships(
        self, state: Entities, *lacking: int, keep: str | None = None
    ) -> tuple[str, ...] | None:
        """Return the oldest relationships that make up for what lacks, without the one to keep."""
        (_, relationships, size_bytes), held = lacking, state.graph.rows
        rows = (row for row in held.values() if row.memory_id != keep)
        return oldest(rows, len(held), relationships, size_bytes)

    def oldest_entities(
        self, state: Entities, *lacking: int, keep: str | None = None
    ) -> tuple[str, ...] | None:
        """Return the oldest entities, without the one to keep, and then their relationships."""
        entities, _, size_bytes = lacking
        pinned = (row for row in state.graph.rows.values() if row.pinned)
        kept = {keep, *(end for row in pinned for end in (row.source_id, row.target_id))}
        rows = state.rows.items()
        prunable = {key: row for key, row in rows if key not in kept and not row.pinned}
        if size_bytes:
            prunable = _with_relationships(state, prunable)
        going = oldest(prunable.values(), len(state.rows), entities, size_bytes)
        return None if going is None else (*going, *touching(state.graph, going))


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
    return state.named(name_key(name), name_key(entity_type))


def find_named(state: Entities, name: str, entity_type: str | None = None) -> tuple[EntityRow, ...]:
    """Return the entities of this name, however it is spelled; of one type or of any.

    Oldest first; at most one if the type is given.
    """
    if entity_type is not None:
        row = named(state, name, entity_type)
        return () if row is None else (row,)
    return tuple(
        sorted(state.of_group(name_key(name)), key=lambda row: (row.version, row.memory_id))
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


def _with_relationships(state: Entities, prunable: dict[str, EntityRow]) -> dict[str, EntityRow]:
    """Return entities with all the bytes that go when they go, the oldest first."""
    goes = dict.fromkeys(prunable, 0)
    for row in state.graph.rows.values():
        ends = [prunable[end] for end in (row.source_id, row.target_id) if end in prunable]
        if ends:  # it goes with the first of them
            goes[oldest_first(ends)[0].memory_id] += row.size_bytes
    return {
        key: replace(row, size_bytes=row.size_bytes + goes[key]) for key, row in prunable.items()
    }
