"""Entities and what relates them: a graph of people, things and places, and of when it was so.

An entity is a name, a type and what was observed of it. A relationship goes from one entity to
another, says one thing, and is true from a time on until, maybe, another. Both are memories: each
has an id, is listed, read and found by meaning. An entity is found by its name and by each of its
observations; a relationship by its fact.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from memory_actors.base.quota import Limits
from memory_actors.base.records import Entity, QuotaUse, Relationship
from memory_actors.kinds import kind
from memory_actors.kinds.defaults import by_rows, no_chain, none_at_hand, oldest_first, timeless
from memory_actors.kinds.entity.decide import (
    COMMANDS,
    OBSERVATIONS_BYTES_MAX,
    OBSERVATIONS_MAX,
    AddEntity,
    DeleteEntity,
    DeleteRelationship,
    EndRelationship,
    Relate,
    RemoveObservation,
    RestoreEntities,
    UpdateEntity,
    UpdateRelationship,
    decide,
)
from memory_actors.kinds.entity.events import Event, Observation, RelationshipAdded, registry
from memory_actors.kinds.entity.graph import RelationshipRow
from memory_actors.kinds.entity.purging import deleted, without
from memory_actors.kinds.entity.relationships import known_as
from memory_actors.kinds.entity.room import NAME
from memory_actors.kinds.entity.state import (
    Dump,
    Entities,
    EntityRow,
    dump,
    fact_in,
    find,
    find_named,
    fold,
    initial,
    load,
    named,
    observation_at,
)
from memory_actors.kinds.kind import Events, Nature, Passage, Tally, index_of, version_of
from memory_actors.kinds.phrasing import fact_text, name_text, observation_text
from memory_actors.kinds.rows import record_data

Row = EntityRow | RelationshipRow

NATURE = Nature()

# --- reads

at = timeless
at_hand = none_at_hand
chain = no_chain


def tally(state: Entities) -> Tally:
    """Return counts and bytes."""
    return Tally(
        len(state.held),
        state.size_bytes,
        state.stored_bytes,
        pruned=state.pruned,
        relationships=len(state.graph.held),
    )


held_bytes = by_rows(tally)


def quotas(state: Entities, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is."""
    return (
        QuotaUse("entities", "count", len(state.held), limits.entities),
        QuotaUse("relationships", "count", len(state.graph.held), limits.relationships),
        QuotaUse("bytes", "bytes", state.size_bytes, limits.entity_bytes),
    )


def rows(state: Entities) -> Iterable[Row]:
    """Return the living entities, then the living relationships."""
    return itertools.chain(state.held.rows.values(), state.graph.held.rows.values())


indexed_rows = rows
worded = find


def exported(state: Entities) -> Iterable[Row]:
    """Return the entities, then the relationships between them, each oldest first."""
    entities, relationships = state.held.rows.values(), state.graph.held.rows.values()
    return [*oldest_first(entities), *oldest_first(relationships)]


def said(state: Entities, relationship: RelationshipAdded) -> RelationshipRow | None:
    """Return the relationship that says the same as a new one: in the end its receipt's one."""
    return known_as(relationship, state.graph)


def passages(row: Row) -> Sequence[Passage]:
    """Return the name and each observation of an entity; the text of a relationship."""
    first = Passage(kind.label(row.version), row.digest)
    if isinstance(row, RelationshipRow):
        return (first,)
    return (first, *(Passage(held.label, held.digest) for held in row.observations))


def passage_text(row: Row, passage_label: int, events: Events) -> str:
    """Return what was embedded; an observation says whom it is about."""
    if isinstance(row, RelationshipRow):
        return content(row, events)
    if not index_of(passage_label):
        return name_text(row.name, row.type)
    return observation_text(row.name, observation_at(passage_label, events))


def sources(row: Row) -> Sequence[int]:
    """Return the versions of the events with name and observations, or with the fact."""
    held = row.observations if isinstance(row, EntityRow) else ()
    return sorted({row.version, *(version_of(observation.label) for observation in held)})


def content(row: Row, events: Events) -> str:
    """Return an entity with one observation a line; a relationship as its fact, or in words."""
    if isinstance(row, RelationshipRow):
        event = events[row.version].data
        return fact_text(event.source, row.relation, event.target, fact_in(event))
    name, observations = name_text(row.name, row.type), _observations(row, events)
    return "\n".join([f"{name}:", *observations]) if observations else name


def data(row: Row, events: Events) -> dict[str, Any]:
    """Return the parts of an entity or of a relationship; times are ISO 8601 in UTC."""
    if isinstance(row, EntityRow):
        return record_data(Entity, row, observations=_observations(row, events))
    event = events[row.version].data
    return record_data(Relationship, row, event, fact=fact_in(event))


def _observations(row: EntityRow, events: Events) -> list[str]:
    return [observation_at(held.label, events) for held in row.observations]
