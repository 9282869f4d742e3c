"""Room for entities and relationships: what a decision needs, and what may go for it.

The oldest tenth of the entities goes, each with its relationships; or that of the relationships.
Pinned ones stay, with both endpoints of a pinned relationship.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.kinds.entity.events import EntitiesPruned
from memory_actors.kinds.entity.graph import touching
from memory_actors.kinds.entity.state import Entities, EntityRow
from memory_actors.kinds.kind import oldest_first
from memory_actors.kinds.rows import oldest

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


def make_room(
    state: Entities, limits: Limits, need: Room, victims: Victims | None
) -> list[EntitiesPruned]:
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
