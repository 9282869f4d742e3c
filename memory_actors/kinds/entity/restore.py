"""Entities and relationships that come back, as the last events about them left them.

A relationship that comes back takes its place among those that were said since, as a new one would:
it may end some, and be ended by others.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from eventlog import Recorded
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds.entity.commands import RestoreEntities
from memory_actors.kinds.entity.decide_relationship import placed
from memory_actors.kinds.entity.events import (
    EntityAdded,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    Event,
    Observation,
    ObservationRemoved,
    RelationshipAdded,
    RelationshipEnded,
    RelationshipRestored,
    RelationshipUpdated,
)
from memory_actors.kinds.entity.room import Room, make_room
from memory_actors.kinds.entity.state import Entities, find, named, tentatively

Gone = EntityRestored | RelationshipRestored


def restore(command: RestoreEntities, state: Entities, limits: Limits) -> Sequence[Event]:
    """Bring all of them back or none; entities first, so that relationships find their ends."""
    ids = [i for i in dict.fromkeys(command.memory_ids) if find(state, i) is None]
    gone = [as_it_was(memory_id, command.past.get(memory_id, ())) for memory_id in ids]
    entities = [it for it in gone if isinstance(it, EntityRestored)]
    relationships = [it for it in gone if isinstance(it, RelationshipRestored)]
    need = Room(len(entities), len(relationships), sum(it.size_bytes for it in gone))
    make_room(state, limits, need, None)
    events: list[Event] = []
    for entity in entities:
        _check_name(entity, state)
        events.append(entity)
        state = tentatively(state, [entity])
    for relationship in relationships:
        _check_ends(relationship, state)
        events.append(placed(relationship, state.graph))
        state = tentatively(state, events[-1:])
    return events


def _check_name(entity: EntityRestored, state: Entities) -> None:
    other = named(state, entity.name, entity.type)
    if other is not None:
        raise InvalidInputError(
            f"entity {entity.memory_id!r} cannot come back: {other.memory_id!r} has its name and "
            "type by now. Add the observations to that one, or delete it first"
        )


def _check_ends(relationship: RelationshipRestored, state: Entities) -> None:
    for entity_id in (relationship.source_id, relationship.target_id):
        if entity_id not in state.held.rows:
            raise NotFoundError(
                f"relationship {relationship.memory_id!r} has an end in {entity_id!r}, which has "
                "gone: restore that one too, in the same call"
            )


# --- how it was


def as_it_was(memory_id: str, past: Sequence[Recorded[Any]]) -> Gone:
    """Return an entity or a relationship as its last events left it.

    :raises NotFoundError: it was never there.
    """
    it: Gone | None = None
    for recorded in past:
        event = recorded.data
        if isinstance(event, EntityAdded):
            it = _entity(event, recorded)
        elif isinstance(event, RelationshipAdded) and event.memory_id == memory_id:
            it = _relationship(event, recorded)
        elif isinstance(it, EntityRestored):
            it = _entity_after(it, event)
        elif isinstance(it, RelationshipRestored):
            it = _relationship_after(it, event)
    if it is None:
        raise NotFoundError(f"no entity or relationship {memory_id!r} to restore: never there")
    return it


def _entity(event: EntityAdded, recorded: Recorded[Any]) -> EntityRestored:
    if isinstance(event, EntityRestored):
        return event
    fields = msgspec.structs.asdict(event)
    return EntityRestored(**fields, created_at_us=recorded.recorded_at_us)


def _entity_after(it: EntityRestored, event: Any) -> EntityRestored:
    match event:
        case EntityObserved():
            observations: tuple[Observation, ...] = (*it.observations, *event.observations)
            it = msgspec.structs.replace(it, pinned=it.pinned or event.pinned)
        case ObservationRemoved():
            observations = tuple(o for o in it.observations if o.digest != event.digest)
        case EntityUpdated(content=str() as content):
            only = Observation(text=content, size_bytes=event.size_bytes, digest=event.digest)
            observations = (only,)
        case _:
            observations = it.observations
    metadata = getattr(event, "metadata", None)
    return msgspec.structs.replace(
        it,
        observations=observations,
        size_bytes=it.size_bytes + _bytes(observations) - _bytes(it.observations),
        metadata=it.metadata if metadata is None else metadata,
    )


def _bytes(observations: Sequence[Observation]) -> int:
    return sum(observation.size_bytes for observation in observations)


def _relationship(event: RelationshipAdded, recorded: Recorded[Any]) -> RelationshipRestored:
    if isinstance(event, RelationshipRestored):
        return event
    fields = msgspec.structs.asdict(event)
    return RelationshipRestored(**fields, created_at_us=recorded.recorded_at_us)


def _relationship_after(it: RelationshipRestored, event: Any) -> RelationshipRestored:
    match event:
        case RelationshipAdded():  # another one, that ended this one
            return msgspec.structs.replace(it, valid_to_us=event.valid_from_us)
        case RelationshipEnded():
            return msgspec.structs.replace(it, valid_to_us=event.valid_to_us)
        case RelationshipUpdated():
            return _relationship_updated(it, event)
    return it


def _relationship_updated(
    it: RelationshipRestored, event: RelationshipUpdated
) -> RelationshipRestored:
    it = msgspec.structs.replace(
        it,
        metadata=it.metadata if event.metadata is None else event.metadata,
        pinned=it.pinned or event.pinned,
    )
    if event.content is None:
        return it
    return msgspec.structs.replace(
        it, fact=event.content, size_bytes=event.size_bytes, digest=event.digest
    )
