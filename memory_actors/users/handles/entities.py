"""`user.entities`: people, things and places, and what relates them, from when to when."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import anyio.to_thread

from memory_actors.base import validation
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import (
    Direction,
    Entity,
    Item,
    JsonObject,
    Metadata,
    Neighbour,
    Receipt,
    Relationship,
    Time,
    as_record,
)
from memory_actors.kinds import entity
from memory_actors.kinds.commands import Command
from memory_actors.kinds.entity import graph
from memory_actors.kinds.entity.events import EntityAdded, RelationshipAdded
from memory_actors.kinds.entity.graph import relation_key
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.passages import fact_text, name_text, observation_text, text_digest
from memory_actors.kinds.rows import derived
from memory_actors.users.handles.handle import Adding, Handle, New, taken

DEFAULT_TYPE = "entity"
DIRECTIONS = ("both", "out", "in")
RELATIONSHIPS = 1  # which of the kind's quotas a relationship counts for


class EntityGraph(Handle):
    """A graph of at most 5,000 entities and 10,000 relationships by default.

    Arguments for an entity take its id or its name. Times are when something was true.
    """

    kind: ClassVar[Kind] = entity.KIND
    takes = taken(EntityAdded, "key")

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
        return await self._add_entity(
            name,
            type,
            observations,
            self._new(memory_id, occurred_at),
            metadata=metadata,
            pinned=pinned,
            auto_prune=self._scope.prunes(auto_prune),
        )

    async def observe(self, entity_ref: str, *observations: str) -> Receipt:
        """Add observations to an entity.

        :raises NotFoundError: there is no such entity.
        """
        self._scope.check_writable()
        row = await self._entity(entity_ref)
        new = self._new(None)
        return await self._add_entity(row.name, row.type, observations, new, must_exist=True)

    async def remove_observation(self, entity_ref: str, observation: str) -> Receipt:
        """Delete one observation of an entity, given as it reads.

        :raises NotFoundError: there is no such entity, or no such observation.
        """
        self._scope.check_writable()
        row = await self._entity(entity_ref)
        validation.content_bytes(observation)
        command = entity.RemoveObservation(
            now_us=self._scope.now_us(),
            memory_id=row.memory_id,
            digest=text_digest(observation_text(row.name, validation.plain(observation))),
        )
        return self._receipt(row.memory_id, "update", await self._write(command))

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
        """Relate one entity to another from a time on (None: from now).

        `exclusive` says that the source has one such relationship at a time: those that contradict
        this one then end when it begins. By default (None), `Settings.exclusive_relations` decides
        (lives_in, works_at, …). A relationship that is already true is updated, not duplicated.
        `fact` puts it in words that are found by meaning.

        :raises NotFoundError: one of the entities is not there: add it first.
        :raises QuotaExceededError: too many relationships (`auto_prune` lets the oldest tenth go).
        """
        self._scope.check_writable()
        new, from_us = self._new(memory_id), validation.time_us(valid_from, "valid_from")
        state = (await self._scope.state()).entity
        ends = _resolve(state, source), _resolve(state, target)
        relation = validation.check_name(relation, "relation")
        if fact is not None:
            validation.content_bytes(fact)
            fact = validation.plain(fact)
        if exclusive is None:
            known = map(relation_key, self._scope.services.settings.exclusive_relations)
            exclusive = relation_key(relation) in known
        text = fact_text(ends[0].name, relation, ends[1].name, fact)
        relationship = RelationshipAdded(
            memory_id=new.memory_id,
            source_id=ends[0].memory_id,
            source=ends[0].name,
            relation=relation,
            target_id=ends[1].memory_id,
            target=ends[1].name,
            fact=fact,
            digest=text_digest(text),
            size_bytes=len(text.encode()),
            valid_from_us=new.now_us if from_us is None else from_us,
            valid_to_us=validation.time_us(valid_to, "valid_to"),
            exclusive=exclusive,
            metadata=validation.own_metadata(metadata),
            pinned=pinned,
        )
        command = entity.Relate(
            now_us=new.now_us,
            own_ids=new.own_ids,
            relationship=relationship,
            auto_prune=self._scope.prunes(auto_prune),
        )
        written = await self._write(command, [text])
        was = entity.known_as(relationship, written.reply.before.entity.graph)
        row = entity.known_as(relationship, written.reply.state.entity.graph)
        return self._receipt_of_put(new.memory_id, was, row, written, RELATIONSHIPS)

    async def end(self, relationship_id: str, at: Time | None = None) -> Receipt:
        """End a relationship at a time (None: now). It stays, as a thing of the past.

        :raises NotFoundError: there is no such relationship.
        """
        self._scope.check_writable()
        state = await self._scope.state()
        row = entity.KIND.find(
            state.entity, validation.check_name(relationship_id, "relationship_id")
        )
        if not isinstance(row, graph.RelationshipRow):
            raise NotFoundError(f"no relationship {relationship_id!r}: never there, or deleted")
        now_us, at_us = self._scope.now_us(), validation.time_us(at, "at")
        command = entity.EndRelationship(
            now_us=now_us,
            memory_id=row.memory_id,
            valid_to_us=now_us if at_us is None else at_us,
        )
        written = await self._write(command)
        return self._receipt(row.memory_id, "update", written, quota=RELATIONSHIPS)

    async def delete(self, entity_ref: str) -> Receipt:
        """Delete an entity with its relationships, or one relationship by its id.

        :raises NotFoundError: there is neither.
        """
        self._scope.check_writable()
        state = await self._scope.state()
        row = entity.KIND.find(state.entity, validation.check_name(entity_ref, "entity"))
        return await self._delete(row or await self._entity(entity_ref))

    # --- read

    async def get(self, entity_ref: str, type: str | None = None) -> Entity:  # noqa: A002
        """Return an entity by id or name; `type` tells entities of one name apart.

        :raises NotFoundError: there is no such entity.
        :raises InvalidInputError: several have this name, and no type is given.
        """
        validation.check_optional_name(type, "type")
        state = await self._scope.state()
        row = _resolve(state.entity, entity_ref, type)
        (found,) = await self._read_as(Entity, [row], state.provenance)
        return found

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
        how = self._walk(relation, direction, as_of, ended=ended)
        state = await self._scope.state()
        start = _resolve(state.entity, entity_ref).memory_id
        walk = partial(graph.relationships, state.entity.graph, start, **how)
        rows = await anyio.to_thread.run_sync(walk)
        return await self._read_as(Relationship, rows, state.provenance)

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

        It follows relationships that are true at `as_of` (None: now), with `ended` all.
        """
        how = self._walk(relation, direction, as_of, ended=ended)
        count = validation.check_count(limit, "limit")
        validation.check_count(depth, "depth")
        state = await self._scope.state()
        start = _resolve(state.entity, entity_ref).memory_id
        walk = partial(graph.neighbours, state.entity.graph, start, depth, limit=count, **how)
        found = await anyio.to_thread.run_sync(walk)  # a hub may have thousands of neighbours
        ids = {there.memory_id for there in found} | {step for t in found for step in t.path}
        known = (entity.KIND.find(state.entity, memory_id) for memory_id in ids)
        rows = [row for row in known if row is not None]
        read = {one.memory_id: one for one in await self._read_rows(rows, state.provenance)}
        return [
            Neighbour(
                entity=as_record(Entity, read[there.memory_id]),
                distance=there.distance,
                path=tuple(as_record(Relationship, read[step]) for step in there.path),
            )
            for there in found
        ]

    # --- as all kinds

    async def _add(self, item: Item, adding: Adding) -> Receipt:
        """Add an entity: named by the text, or by the key, and then the text is an observation."""
        self._check_item(item, adding)
        validation.content_bytes(item.content)
        given = self._taken(item)
        key = given.pop("key")
        name, observations = (item.content, []) if key is None else (key, [item.content])
        return await self.add_entity(
            name, DEFAULT_TYPE, observations, **given, auto_prune=adding.auto_prune
        )

    def _updating(
        self, row: object, content: str | None, metadata: JsonObject | None, pinned: bool | None
    ) -> tuple[Command, list[str]]:
        command, texts = super()._updating(row, content, metadata, pinned)
        if not isinstance(row, entity.EntityRow):
            command = derived(entity.UpdateRelationship, command)
        return command, texts

    def _found_by(self, row: object, content: str) -> str:
        if isinstance(row, entity.EntityRow):
            return observation_text(row.name, content)
        return content

    # --- how

    async def _entity(self, entity_ref: str) -> entity.EntityRow:
        return _resolve((await self._scope.state()).entity, entity_ref)

    def _walk(
        self, relation: str | None, direction: Direction, as_of: Time | None, *, ended: bool
    ) -> JsonObject:
        at_us = validation.time_us(as_of, "as_of")
        now_us = self._scope.now_us() if at_us is None else at_us
        return {
            "relation": validation.check_optional_name(relation, "relation"),
            "direction": validation.check_choice(direction, DIRECTIONS, "direction"),
            "as_of_us": None if ended else now_us,
        }

    async def _add_entity(
        self,
        name: str,
        type: str,  # noqa: A002 - the field's own word
        observations: Sequence[str],
        new: New,
        *,
        metadata: Metadata | None = None,
        pinned: bool = False,
        auto_prune: bool = False,
        must_exist: bool = False,
    ) -> Receipt:
        """Add an entity, or what is new of it to the one that has its name and type."""
        if isinstance(observations, str) or not isinstance(observations, Sequence):
            raise InvalidInputError("observations must be a list of texts")
        name, type = validation.check_name(name, "name"), validation.check_name(type, "type")  # noqa: A001 - the field's own word
        state = await self._scope.state()
        known = entity.named(state.entity, name, type)
        if known is not None:  # it is found by the spelling that it was given first
            name, type = known.name, known.type  # noqa: A001 - the field's own word
        checked = tuple(_observation_of(name, text) for text in observations)
        command = entity.AddEntity(
            now_us=new.now_us,
            own_ids=new.own_ids,
            entity=EntityAdded(
                memory_id=new.memory_id,
                name=name,
                type=type,
                digest=text_digest(name_text(name, type)),
                size_bytes=0,
                observations=checked,
                occurred_at_us=new.occurred_at_us,
                metadata=validation.own_metadata(metadata),
                pinned=pinned,
            ),
            auto_prune=auto_prune,
            must_exist=must_exist,
        )
        texts = [name_text(name, type), *(observation_text(name, o.text) for o in checked)]
        written = await self._write(command, texts)
        was = entity.named(written.reply.before.entity, name, type)
        row = entity.named(written.reply.state.entity, name, type)
        return self._receipt_of_put(new.memory_id, was, row, written)


def _resolve(state: entity.Entities, entity_ref: str, type: str | None = None) -> entity.EntityRow:  # noqa: A002
    row = entity.KIND.find(state, validation.check_name(entity_ref, "entity"))
    if isinstance(row, entity.EntityRow):
        return row
    found = entity.find_named(state, entity_ref, type)
    if not found:
        raise NotFoundError(f"no entity {entity_ref!r}: add it first, with add_entity")
    if len(found) > 1:
        types = ", ".join(sorted(one.type for one in found))
        raise InvalidInputError(
            f"several entities are named {entity_ref!r} (types {types}): give the id of one"
        )
    return found[0]


def _observation_of(name: str, text: str) -> entity.Observation:
    size_bytes = validation.content_bytes(text)
    text = validation.plain(text)
    return entity.Observation(
        text=text, size_bytes=size_bytes, digest=text_digest(observation_text(name, text))
    )
