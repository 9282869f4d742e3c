"""The way of entities and relationships into the log and the index."""

from collections.abc import Sequence
from typing import Any, ClassVar

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import Item, Metadata, Receipt, Time
from memory_actors.base.validation import (
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    plain,
    time_us,
)
from memory_actors.kinds import entity
from memory_actors.kinds.entity import Entities, Entity, Observation, Relationship
from memory_actors.kinds.entity.graph import relation_key
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.phrasing import fact_text, name_text, observation_text, text_digest
from memory_actors.users.writers.writer import Writer, Written

DEFAULT_TYPE = "entity"
RELATIONSHIPS = 1  # which of the kind's quotas a relationship counts for


class EntityWriter(Writer):
    """Adds, relates, changes and deletes entities and relationships."""

    kind: ClassVar[Kind] = entity
    takes = frozenset({"occurred_at", "pinned", "key"})
    delete_command = entity.DeleteEntity
    restore_command = entity.RestoreEntities

    # --- entities

    async def add_entity(
        self,
        name: str,
        type: str,  # noqa: A002 - the field's own word
        observations: Sequence[str],
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool = False,
        must_exist: bool = False,
    ) -> Receipt:
        """Add an entity, or what is new of it to the one that has its name and type."""
        if isinstance(observations, str) or not isinstance(observations, Sequence):
            raise InvalidInputError("observations must be a list of texts")
        name, type = check_name(name, "name"), check_name(type, "type")  # noqa: A001 - the field's own word
        now_us, occurred_at_us = self.scope.now_us(), time_us(occurred_at, "occurred_at")
        own_id = check_optional_name(memory_id, "memory_id")
        async with self.scope.live() as live:
            known = entity.named(live.state.entity, name, type)
        if known is not None:  # it is found by the spelling that it was given first
            name, type = known.name, known.type  # noqa: A001 - the field's own word
        checked = tuple(_observation(name, text) for text in observations)
        command = entity.AddEntity(
            now_us=now_us,
            memory_id=own_id or self.scope.new_id(now_us),
            own_ids=() if own_id is None else (own_id,),
            name=name,
            type=type,
            digest=text_digest(name_text(name, type)),
            observations=checked,
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=own_metadata(metadata),
            pinned=pinned,
            auto_prune=auto_prune,
            must_exist=must_exist,
        )
        texts = [name_text(name, type), *(observation_text(name, o.text) for o in checked)]
        written = await self.write(command, texts)
        was = entity.named(written.reply.before.entity, name, type)
        row = entity.named(written.reply.state.entity, name, type)
        operation = "add" if was is None else "update"
        return self.receipt(command.memory_id if row is None else row.memory_id, operation, written)

    async def remove_observation(self, row: Entity, observation: str) -> Receipt:
        """Delete one observation of an entity."""
        content_bytes(observation)
        command = entity.RemoveObservation(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            digest=text_digest(observation_text(row.name, plain(observation))),
        )
        return self.receipt(row.memory_id, "update", await self.write(command))

    # --- relationships

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
        auto_prune: bool = False,
    ) -> Receipt:
        """Say that a relationship is true from a time on."""
        now_us, from_us = self.scope.now_us(), time_us(valid_from, "valid_from")
        own_id = check_optional_name(memory_id, "memory_id")
        async with self.scope.live() as live:
            state = live.state.entity
        ends = resolve(state, source), resolve(state, target)
        relation = check_name(relation, "relation")
        if fact is not None:
            content_bytes(fact)
            fact = plain(fact)
        text = fact_text(ends[0].name, relation, ends[1].name, fact)
        command = entity.Relate(
            now_us=now_us,
            memory_id=own_id or self.scope.new_id(now_us),
            own_ids=() if own_id is None else (own_id,),
            source_id=ends[0].memory_id,
            relation=relation,
            target_id=ends[1].memory_id,
            fact=fact,
            digest=text_digest(text),
            size_bytes=len(text.encode()),
            valid_from_us=now_us if from_us is None else from_us,
            valid_to_us=time_us(valid_to, "valid_to"),
            exclusive=self._exclusive(relation) if exclusive is None else exclusive,
            metadata=own_metadata(metadata),
            pinned=pinned,
            auto_prune=auto_prune,
        )
        written = await self.write(command, [text])
        return self._related(command, written)

    async def end(self, row: Relationship, at: Time | None) -> Receipt:
        """Say when a relationship ended."""
        now_us, at_us = self.scope.now_us(), time_us(at, "at")
        command = entity.EndRelationship(
            now_us=now_us,
            memory_id=row.memory_id,
            valid_to_us=now_us if at_us is None else at_us,
        )
        written = await self.write(command)
        return self.receipt(row.memory_id, "update", written, quota=RELATIONSHIPS)

    def _exclusive(self, relation: str) -> bool:
        known = self.scope.services.settings.exclusive_relations
        return relation_key(relation) in map(relation_key, known)

    def _related(self, command: entity.Relate, written: Written) -> Receipt:
        """Return the receipt of what now says it: this relationship, or the one that did before."""
        was = entity.said(written.reply.before.entity, command)
        row = entity.said(written.reply.state.entity, command)
        memory_id = command.memory_id if row is None else row.memory_id
        operation = "add" if was is None else "update"
        return self.receipt(memory_id, operation, written, quota=RELATIONSHIPS)

    # --- what all kinds have

    async def add(
        self, item: Item, *, auto_prune: bool = False, idempotency_key: str | None = None
    ) -> Receipt:
        """Add an entity: named by the text, or by the key, and then the text is an observation."""
        self.check_fields(item, idempotency_key)
        content_bytes(item.content)
        named = item.key is not None
        return await self.add_entity(
            item.content if item.key is None else item.key,
            DEFAULT_TYPE,
            [item.content] if named else [],
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            memory_id=item.memory_id,
            pinned=item.pinned,
            auto_prune=auto_prune,
        )

    async def update(self, row: Any, content: str | None, metadata: Metadata | None) -> Receipt:
        """Replace the observations of an entity by one, or the fact of a relationship."""
        size_bytes = 0 if content is None else content_bytes(content)
        content = None if content is None else plain(content)
        texts = [] if content is None else [self._text(row, content)]
        command_type = entity.UpdateEntity if isinstance(row, Entity) else entity.UpdateRelationship
        command = command_type(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=size_bytes,
            digest=text_digest(texts[0]) if texts else b"",
            metadata=None if metadata is None else own_metadata(metadata, shown=row.compressed),
        )
        return self.receipt(row.memory_id, "update", await self.write(command, texts))

    def _text(self, row: Any, content: str) -> str:
        return observation_text(row.name, content) if isinstance(row, Entity) else content


def resolve(state: Entities, entity_ref: str, type: str | None = None) -> Entity:  # noqa: A002
    """Return the entity with this id or name.

    :raises NotFoundError: there is none.
    :raises InvalidInputError: several have this name.
    """
    row = entity.find(state, check_name(entity_ref, "entity"))
    if isinstance(row, Entity):
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


def _observation(name: str, text: str) -> Observation:
    size_bytes = content_bytes(text)
    text = plain(text)
    return Observation(
        text=text, size_bytes=size_bytes, digest=text_digest(observation_text(name, text))
    )
