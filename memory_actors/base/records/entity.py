"""People, things, places, and what relates them."""

from datetime import datetime
from typing import Any

from eventlog.core.records import Returned
from memory_actors.base.records.source import Sourced


class Entity(Sourced, frozen=True, kw_only=True):
    """A person, a thing, a place, and what was observed of it."""

    memory_id: str
    name: str
    type: str
    observations: tuple[str, ...]
    metadata: dict[str, Any]
    created_at: datetime
    occurred_at: datetime
    pinned: bool


class Relationship(Sourced, frozen=True, kw_only=True):
    """What relates one entity to another, and from when to when it was so."""

    memory_id: str
    source_id: str
    source: str
    """Its name."""
    relation: str
    target_id: str
    target: str
    """Its name."""
    fact: str | None
    """In words, where it was given."""
    valid_from: datetime
    valid_to: datetime | None
    """No longer true at this time; None: no end is known."""
    metadata: dict[str, Any]
    created_at: datetime
    pinned: bool


class Neighbour(Returned, frozen=True, kw_only=True):
    """An entity that is reached from another one."""

    entity: Entity
    distance: int
    """How many relationships away, from 1."""
    path: tuple[Relationship, ...]
    """Those relationships, from the start."""
