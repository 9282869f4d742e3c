"""Entities and relationships without the words of a source.

An entity that the source began keeps its name where others have observed something of it, or relate
to it: they have used the name themselves. A relationship that the source said goes, and what it
ended is true again.
"""

from typing import Any, TypeAlias

from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds.entity.events import (
    EntityAdded,
    EntityDeleted,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    RelationshipAdded,
    RelationshipDeleted,
    RelationshipRestored,
)
from memory_actors.kinds.entity.graph import RelationshipRow, touching
from memory_actors.kinds.entity.state import LIVES, Entities, EntityRow, as_it_was
from memory_actors.kinds.rows import derived
from memory_actors.kinds.tainted import TaintedPast

Restored: TypeAlias = EntityRestored | RelationshipRestored


def without(
    past: TaintedPast, row: EntityRow | RelationshipRow, state: Entities, _limits: Limits
) -> list[Restored] | None:
    """Return the event that leaves an entity, or a relationship, what others have said of it."""
    if isinstance(row, RelationshipRow):
        return _relationship_without(past)
    related = bool(touching(state.graph, (row.memory_id,)))
    begin = next((e.data for e in past.events if isinstance(e.data, EntityAdded)), None)
    empty: dict[str, Any] = {"observations": (), "size_bytes": row.name_bytes}
    events = past.cleaned(EntityAdded, _observes, **empty)
    if not events and related and begin is not None:
        alone = {**empty, "metadata": {}, "origins": (), "created_at_us": row.created_at_us}
        return [derived(EntityRestored, begin, **alone)]
    try:
        return [as_it_was(LIVES.last(past.memory_id, events))]
    except NotFoundError:
        return None


def _observes(event: Any) -> bool:
    if isinstance(event, EntityObserved):
        return bool(event.observations or event.metadata)
    return isinstance(event, EntityAdded | EntityUpdated)


def _relationship_without(past: TaintedPast) -> list[Restored] | None:
    said = [one.data for one in past.clean if isinstance(one.data, RelationshipAdded)]
    if all(event.memory_id != past.memory_id for event in said):
        return None
    return [as_it_was(LIVES.last(past.memory_id, past.clean))]


def deleted(
    row: EntityRow | RelationshipRow, state: Entities
) -> list[EntityDeleted | RelationshipDeleted]:
    """Return the event that takes an entity away with its relationships, or one relationship."""
    if isinstance(row, RelationshipRow):
        return [RelationshipDeleted(memory_id=row.memory_id)]
    ids = tuple(touching(state.graph, (row.memory_id,)))
    return [EntityDeleted(memory_id=row.memory_id, relationship_ids=ids)]
