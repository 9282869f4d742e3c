"""Entities and what relates them: a graph of people, things and places, and of when it was so.

An entity is a name, a type and observations; it is found by its name and by each observation. A
relationship says one thing of two entities, from a time on; it is found by its fact.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from eventlog import Recorded
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Entity, Relationship
from memory_actors.kinds.commands import Command, Restore
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.entity.decide import (
    OBSERVATIONS_BYTES_MAX,
    OBSERVATIONS_MAX,
    AddEntity,
    DeleteEntity,
    EntityDecisions,
    RemoveObservation,
    RestoreEntities,
    UpdateEntity,
)
from memory_actors.kinds.entity.events import (
    EntityAdded,
    EntityDeleted,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    Observation,
    RelationshipAdded,
    RelationshipDeleted,
    RelationshipRestored,
    registry,
)
from memory_actors.kinds.entity.graph import RelationshipGraph, RelationshipRow, touching
from memory_actors.kinds.entity.relationships import (
    DeleteRelationship,
    EndRelationship,
    Relate,
    RelationshipDecisions,
    UpdateRelationship,
    known_as,
    placed,
)
from memory_actors.kinds.entity.state import (
    AnyRow,
    Entities,
    EntityRow,
    as_it_was,
    fact_in,
    find_named,
    named,
    observation_at,
)
from memory_actors.kinds.kind import Decide, Nature, Tally
from memory_actors.kinds.passages import (
    Passage,
    fact_text,
    index_of,
    label,
    name_text,
    observation_text,
    version_of,
)
from memory_actors.kinds.past import Events, Life, TaintedPast
from memory_actors.kinds.rows import derived, oldest_first, record_data

Restored: TypeAlias = EntityRestored | RelationshipRestored


class EntityKind(EntityDecisions, RelationshipDecisions):
    """The entities of a user, and their relationships."""

    NATURE = Nature(is_reviewed=True)
    NOUN = "entity or relationship"
    UPDATE, DELETE, RESTORE = UpdateEntity, DeleteEntity, RestoreEntities

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            AddEntity: self._add,
            UpdateEntity: self._update,
            RemoveObservation: self._remove_observation,
            Relate: self._relate,
            EndRelationship: self._end,
            UpdateRelationship: self._update_relationship,
            DeleteRelationship: self._delete_relationship,
            RestoreEntities: self._restore,
        }

    def _restore(self, command: Restore, state: Entities, limits: Limits) -> Decision:
        """Bring all back or none; entities first, so that relationships find their endpoints."""
        gone = [as_it_was(life) for life in self.gone(command, state)]
        entities = [it for it in gone if isinstance(it, EntityRestored)]
        related = [it for it in gone if isinstance(it, RelationshipRestored)]
        size_bytes = sum(it.size_bytes for it in gone)
        self.make_room(state, limits, len(entities), len(related), size_bytes)
        events: list[Event] = []
        for entity in entities:
            other = named(state, entity.name, entity.type)
            if other is not None:
                raise InvalidInputError(
                    f"entity {entity.memory_id!r} cannot come back: {other.memory_id!r} has its "
                    "name and type by now. Add the observations to that one, or delete it first"
                )
            events.append(entity)
            state = self.after(state, [entity])
        for relationship in related:
            for end_id in (relationship.source_id, relationship.target_id):
                if end_id not in state.rows:
                    raise NotFoundError(
                        f"relationship {relationship.memory_id!r} has an endpoint in {end_id!r}, "
                        "which has gone: restore that one too, in the same call"
                    )
            events.append(placed(relationship, state.graph))
            state = self.after(state, events[-1:])
        return events

    # --- purges
    #
    # An entity that the source began keeps its name where others have observed something of it, or
    # relate to it: they have used the name themselves. A relationship that the source said goes,
    # and what it ended is true again.

    def without(
        self, past: TaintedPast, row: AnyRow, state: Entities, _limits: Limits
    ) -> list[Restored] | None:
        """Return the event that leaves an entity, or a relationship, what others have said."""
        if isinstance(row, RelationshipRow):
            said = [one.data for one in past.clean if isinstance(one.data, RelationshipAdded)]
            if all(event.memory_id != past.memory_id for event in said):
                return None
            return [as_it_was(self.last(past.memory_id, past.clean))]
        related = bool(touching(state.graph, (row.memory_id,)))
        begin = next((e.data for e in past.events if isinstance(e.data, EntityAdded)), None)
        empty: dict[str, Any] = {"observations": (), "size_bytes": row.name_bytes}
        events = past.cleaned(EntityAdded, _observes, **empty)
        if not events and related and begin is not None:
            alone = {**empty, "metadata": {}, "origins": (), "created_at_us": row.created_at_us}
            return [derived(EntityRestored, begin, **alone)]
        try:
            return [as_it_was(self.last(past.memory_id, events))]
        except NotFoundError:
            return None

    def deleted(self, row: AnyRow, state: Entities) -> Decision:
        """Return the event by which an entity goes with its relationships, or one relationship."""
        if isinstance(row, RelationshipRow):
            return [RelationshipDeleted(memory_id=row.memory_id)]
        ids = tuple(touching(state.graph, (row.memory_id,)))
        return [EntityDeleted(memory_id=row.memory_id, relationship_ids=ids)]

    # --- reads

    def find(self, state: Entities, memory_id: str) -> AnyRow | None:
        """Return the row of a living entity or relationship."""
        return state.find(memory_id)

    def tally(self, state: Entities) -> Tally:
        """Return counts and bytes."""
        return Tally(
            len(state.rows),
            state.size_bytes + state.graph.size_bytes,
            state.stored_bytes + state.graph.stored_bytes,
            pruned=state.pruned,
            relationships=len(state.graph.rows),
        )

    def rows(self, state: Entities) -> Iterable[AnyRow]:
        """Return the living entities, then the living relationships."""
        return itertools.chain(state.rows.values(), state.graph.rows.values())

    def exported(self, state: Entities) -> Iterable[AnyRow]:
        """Return the entities, then the relationships between them, each oldest first."""
        entities, relationships = state.rows.values(), state.graph.rows.values()
        return [*oldest_first(entities), *oldest_first(relationships)]

    def passages(self, row: AnyRow) -> Sequence[Passage]:
        """Return the name and each observation of an entity; the text of a relationship."""
        first = Passage(label(row.version), row.digest)
        if isinstance(row, RelationshipRow):
            return (first,)
        return (first, *(Passage(held.label, held.digest) for held in row.observations))

    def passage_text(self, row: AnyRow, passage_label: int, events: Events) -> str:
        """Return what was embedded; an observation says whom it is about."""
        if isinstance(row, RelationshipRow):
            return self.content(row, events)
        if not index_of(passage_label):
            return name_text(row.name, row.type)
        return observation_text(row.name, observation_at(passage_label, events))

    def sources(self, row: AnyRow) -> Sequence[int]:
        """Return the versions of the events with name and observations, or with the fact."""
        held = row.observations if isinstance(row, EntityRow) else ()
        return sorted({row.version, *(version_of(observation.label) for observation in held)})

    def content(self, row: AnyRow, events: Events) -> str:
        """Return an entity with one observation a line; a relationship as its fact, or in words."""
        if isinstance(row, RelationshipRow):
            event = events[row.version].data
            return fact_text(event.source, row.relation, event.target, fact_in(event))
        name, observations = name_text(row.name, row.type), _observations(row, events)
        return "\n".join([f"{name}:", *observations]) if observations else name

    def data(self, row: AnyRow, events: Events) -> dict[str, object]:
        """Return the parts of an entity or of a relationship; times are ISO 8601 in UTC."""
        if isinstance(row, EntityRow):
            return record_data(Entity, row, observations=_observations(row, events))
        event = events[row.version].data
        return record_data(Relationship, row, event, fact=fact_in(event))


def _observations(row: EntityRow, events: Events) -> list[str]:
    return [observation_at(held.label, events) for held in row.observations]


def _observes(event: object) -> bool:
    if isinstance(event, EntityObserved):
        return bool(event.observations or event.metadata)
    return isinstance(event, EntityAdded | EntityUpdated)


KIND = EntityKind()
