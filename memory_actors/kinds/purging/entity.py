"""Entities and relationships without the words of a source.

An entity that the source began keeps its name where others have observed something of it, or
relate to it: they have used the name themselves. A relationship that the source said goes, and what
it ended is true again.
"""

from typing import Any

import msgspec

from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds.entity.events import (
    EntityAdded,
    EntityDeleted,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    Event,
    RelationshipAdded,
    RelationshipDeleted,
    RelationshipRestored,
)
from memory_actors.kinds.entity.graph import Relationship, touching
from memory_actors.kinds.entity.state import LIVES, Entities, Entity, as_it_was
from memory_actors.kinds.purging.cleaning import Life


def without(
    life: Life, row: Entity | Relationship, state: Entities, _limits: Limits
) -> list[Event] | None:
    """Return what makes one what others have left of it; None if nothing is left."""
    if isinstance(row, Relationship):
        return _relationship(life)
    related = bool(touching(state.graph, (row.memory_id,)))
    begin = next((e.data for e in life.past if isinstance(e.data, EntityAdded)), None)
    empty = {"observations": (), "size_bytes": row.name_bytes}
    events = life.cleaned(EntityAdded, _observes, **empty)
    if not events and related and begin is not None:
        return [_name_alone(begin, row)]
    try:
        return [as_it_was(LIVES.last(life.memory_id, events))]
    except NotFoundError:
        return None


def _name_alone(begin: EntityAdded, row: Entity) -> Event:
    fields = msgspec.structs.asdict(begin) | {
        "observations": (), "size_bytes": row.name_bytes, "metadata": {}, "origins": (),
        "created_at_us": row.created_at_us,
    }  # fmt: skip
    return EntityRestored(**fields)


def _observes(event: Any) -> bool:
    if isinstance(event, EntityAdded):
        return True
    return isinstance(event, EntityUpdated) or (
        isinstance(event, EntityObserved) and bool(event.observations or event.metadata)
    )


def _relationship(life: Life) -> list[Event] | None:
    said = [one.data for one in life.clean if isinstance(one.data, RelationshipAdded)]
    if all(event.memory_id != life.memory_id for event in said):
        return None
    then = as_it_was(LIVES.last(life.memory_id, life.clean))
    assert isinstance(then, RelationshipRestored), "a relationship stays one"
    return [msgspec.structs.replace(then, closed_ids=())]


def deleted(row: Entity | Relationship, state: Entities) -> list[Event]:
    """Return what takes one away: an entity with its relationships."""
    if isinstance(row, Relationship):
        return [RelationshipDeleted(memory_id=row.memory_id)]
    ids = tuple(touching(state.graph, (row.memory_id,)))
    return [EntityDeleted(memory_id=row.memory_id, relationship_ids=ids)]
