"""`user.entities`: people, things and places, and what relates them, from when to when."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec

from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import (
    Entity,
    Memory,
    Metadata,
    Neighbour,
    Receipt,
    Relationship,
    Time,
)
from memory_actors.base.validation import (
    check_choice,
    check_count,
    check_name,
    check_optional_name,
    time_us,
)
from memory_actors.kinds import entity
from memory_actors.kinds.entity import graph
from memory_actors.kinds.entity.graph import Direction
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.user_state import UserState
from memory_actors.search.reading import Found, memories
from memory_actors.users.writers.entity import DEFAULT_TYPE, EntityWriter, resolve
from memory_actors.users.writers.scope import Scope

DIRECTIONS = ("both", "out", "in")


class EntityGraph:
    """A graph of at most 5,000 entities and 10,000 relationships by default.

    Where an entity is asked for, its id or its name will do. Times are when something was true.
    """

    def __init__(self, scope: Scope, writer: EntityWriter):
        self._scope = scope
        self._writer = writer

    # --- write

    async def add_entity(
        self,
        name: str,
        type: str = DEFAULT_TYPE,  # noqa: A002 - the field's own word
        observations: Sequence[str] = (),
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt:
        """Add an entity, or add to the one that has this name and type what is new.

        Names are the same whatever their case and blanks. Observations it has are not repeated,
        metadata is merged key by key.

        :raises QuotaExceededError: too many entities (`auto_prune` lets the oldest tenth go, with
            their relationships), or too many bytes.
        """
        return await self._writer.add_entity(
            name,
            type,
            observations,
            metadata=metadata,
            occurred_at=occurred_at,
            memory_id=memory_id,
            pinned=pinned,
            auto_prune=self._scope.prunes(auto_prune),
        )

    async def observe(self, entity_ref: str, *observations: str) -> Receipt:
        """Add observations to an entity.

        :raises NotFoundError: there is no such entity.
        """
        self._scope.check_writable()
        row = await self._entity(entity_ref)
        return await self._writer.add_entity(row.name, row.type, observations, must_exist=True)

    async def remove_observation(self, entity_ref: str, observation: str) -> Receipt:
        """Delete one observation of an entity, given as it reads.

        :raises NotFoundError: there is no such entity, or no such observation.
        """
        self._scope.check_writable()
        return await self._writer.remove_observation(await self._entity(entity_ref), observation)

    async def relate(
        self,
        source: str,
        relation: str,
        target: str,
        *,
        fact: str | None = None,
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        exclusive: bool | None = None,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt:
        """Say that one entity relates to another from a time on (None: from now).

        `exclusive` says that the source has one such relationship at a time: those that contradict
        this one then end when it begins. None looks the relation up in
        `Settings.exclusive_relations` (lives_in, works_at, …). What is true already is brought up
        to date, not said twice. `fact` puts it in words that are found by meaning.

        :raises NotFoundError: one of the entities is not there: add it first.
        :raises QuotaExceededError: too many relationships (`auto_prune` lets the oldest tenth go).
        """
        self._scope.check_writable()
        return await self._writer.relate(
            source,
            relation,
            target,
            fact=fact,
            valid_from=valid_from,
            valid_to=valid_to,
            exclusive=exclusive,
            metadata=metadata,
            memory_id=memory_id,
            pinned=pinned,
            auto_prune=self._scope.prunes(auto_prune),
        )

    async def end(self, relationship_id: str, at: Time | None = None) -> Receipt:
        """Say that a relationship ended at a time (None: now). It stays, as a thing of the past.

        :raises NotFoundError: there is no such relationship.
        """
        self._scope.check_writable()
        async with self._scope.live() as live:
            row = entity.find(live.state.entity, check_name(relationship_id, "relationship_id"))
        if not isinstance(row, graph.Relationship):
            raise NotFoundError(f"no relationship {relationship_id!r}: never there, or deleted")
        return await self._writer.end(row, at)

    async def delete(self, entity_ref: str) -> Receipt:
        """Delete an entity with its relationships, or one relationship by its id.

        :raises NotFoundError: there is neither.
        """
        self._scope.check_writable()
        async with self._scope.live() as live:
            row = entity.find(live.state.entity, check_name(entity_ref, "entity"))
        return await self._writer.delete(row or await self._entity(entity_ref))

    # --- read

    async def get(self, entity_ref: str, type: str | None = None) -> Entity:  # noqa: A002
        """Return an entity by id or name; `type` tells entities of one name apart.

        :raises NotFoundError: there is no such entity.
        :raises InvalidInputError: several have this name, and no type is given.
        """
        check_optional_name(type, "type")
        state = await self._state()
        row = resolve(state.entity, entity_ref, type)
        (found,) = await self._read([row], state.provenance)
        return _entity(found)

    async def relationships(
        self,
        entity_ref: str,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        as_of: Time | None = None,
        ended: bool = False,
    ) -> list[Relationship]:
        """Return the relationships of an entity that are true at a time (None: now), newest first.

        With `ended`, those that were ever true.
        """
        way = check_choice(direction, DIRECTIONS, "direction")
        check_optional_name(relation, "relation")
        at_us = None if ended else self._time(as_of)
        state = await self._state()
        walk = partial(
            graph.relationships,
            state.entity.graph,
            resolve(state.entity, entity_ref).memory_id,
            as_of_us=at_us,
            relation=relation,
            direction=way,
        )
        rows = await anyio.to_thread.run_sync(walk)
        return [_relationship(memory) for memory in await self._read(rows, state.provenance)]

    async def neighbours(
        self,
        entity_ref: str,
        depth: int = 1,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        as_of: Time | None = None,
        ended: bool = False,
        limit: int = 100,
    ) -> list[Neighbour]:
        """Return the entities within `depth` relationships, the nearest first.

        What is true at `as_of` (None: now) is followed; with `ended`, what was ever true.
        """
        way, count = check_choice(direction, DIRECTIONS, "direction"), check_count(limit, "limit")
        check_count(depth, "depth")
        check_optional_name(relation, "relation")
        at_us = None if ended else self._time(as_of)
        state = await self._state()
        walk = partial(
            graph.neighbours,
            state.entity.graph,
            resolve(state.entity, entity_ref).memory_id,
            depth,
            relation=relation,
            direction=way,
            as_of_us=at_us,
            limit=count,
        )
        found = await anyio.to_thread.run_sync(walk)  # a hub may have thousands of neighbours
        ids = {there.memory_id for there in found} | {step for t in found for step in t.path}
        known = (entity.find(state.entity, memory_id) for memory_id in ids)
        rows = [row for row in known if row is not None]
        read = {one.memory_id: one for one in await self._read(rows, state.provenance)}
        return [
            Neighbour(
                entity=_entity(read[there.memory_id]),
                distance=there.distance,
                path=tuple(_relationship(read[step]) for step in there.path),
            )
            for there in found
        ]

    # --- plumbing

    async def _state(self) -> UserState:
        async with self._scope.live() as live:
            return live.state

    async def _entity(self, entity_ref: str) -> entity.Entity:
        return resolve((await self._state()).entity, entity_ref)

    async def _read(self, rows: Sequence[Any], origins: Provenance) -> list[Memory]:
        found = [Found(entity, row) for row in rows]
        return await memories(self._scope.services.log, self._scope.stream, found, origins)

    def _time(self, as_of: Time | None) -> int:
        at_us = time_us(as_of, "as_of")
        return self._scope.now_us() if at_us is None else at_us


def _entity(memory: Memory) -> Entity:
    return Entity(
        memory_id=memory.memory_id,
        name=memory.data["name"],
        type=memory.data["type"],
        observations=tuple(memory.data["observations"]),
        metadata=memory.metadata,
        created_at=memory.created_at,
        occurred_at=memory.occurred_at,
        pinned=memory.pinned,
        origins=memory.origins,
        trust=memory.trust,
    )


def _relationship(memory: Memory) -> Relationship:
    return msgspec.convert(
        {
            **memory.data,
            "memory_id": memory.memory_id,
            "metadata": memory.metadata,
            "created_at": memory.created_at,
            "pinned": memory.pinned,
            "origins": memory.origins,
            "trust": memory.trust,
        },
        Relationship,
    )
