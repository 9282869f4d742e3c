"""A dry run of an import: the effect of each entry, without adding it.

An entry is compared with what is there, and with what the entries before it would have added, and
counted as `adding` counts it. How much room there is has no say.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from eventlog.core.records import to_datetime
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import Item, JsonObject
from memory_actors.base.validation import check_name, content_bytes, plain, time_us
from memory_actors.interchange.adding import Entries, LeaveOut, named_otherwise
from memory_actors.interchange.noting import ImportReport, micros_of
from memory_actors.interchange.parts import DocumentParts, EntityParts, RelationshipParts
from memory_actors.interchange.records import ReadLine
from memory_actors.kinds.entity.graph import name_key, relation_key
from memory_actors.kinds.entity.relationships import check_validity
from memory_actors.kinds.rows import same_json
from memory_actors.sharing.system import UserMemory
from memory_actors.users.handles.documents import DEFAULT_COLLECTION, checked_document

Told: TypeAlias = tuple[str | None, JsonObject]
"""The content of a relationship or a document, and its metadata."""


class _Entity(NamedTuple):
    memory_id: str
    observations: set[str]
    metadata: JsonObject


class _Nobody:
    def __getattr__(self, _name: str) -> "_Nobody":
        return self

    async def __call__(self, *_: object, **__: object) -> object:
        raise NotFoundError("nothing is there yet")


class Looker(Entries):
    """Looks at the entries of one file that are one user's, in their order, and counts them."""

    def __init__(self, user_id: str | None, user: UserMemory | None, leave_out: LeaveOut):
        super().__init__(user or _Nobody())  # type: ignore[arg-type]  # it only reads
        self._users = [] if user_id is None else [user_id]
        self._leave_out = leave_out
        self._texts: dict[str, int] = {}
        """The hash of the content of each memory that would be added, by id."""
        self._ids: dict[str, str | None] = {}
        """The ids that the entities of the file would have, by those in the file; None: deleted."""
        self._names: dict[str, tuple[str, str]] = {}
        """The name and the type that each of these was given first."""
        self._entities: dict[tuple[str, str], _Entity] = {}
        self._named_here: dict[str, set[str]] = {}
        """The ids of these entities by what their names have in common."""
        self._relationships: dict[object, Told] = {}
        """By id, and by what they say: source, relation, target and begin."""
        self._documents: dict[tuple[str, str], Told] = {}

    async def add(self, entries: Sequence[ReadLine]) -> None:
        """Count entries; add none."""
        for entry in entries:
            try:
                self._count(await self._is_new(entry))
            except (InvalidInputError, NotFoundError) as error:
                self._leave_out(entry.place, error)

    def report(self) -> ImportReport:
        """Report the counts so far."""
        return ImportReport(users=self._users, added=self._added, unchanged=self._unchanged)

    async def _is_new(self, entry: ReadLine) -> bool:
        match entry.parts:
            case EntityParts() as parts:
                return await self._is_new_entity(entry.item, parts)
            case RelationshipParts() as parts:
                return await self._is_new_relationship(entry, parts)
            case DocumentParts() as parts:
                return await self._is_new_document(entry, parts)
        return await self._is_new_text(entry.memory_id, entry)

    async def _is_new_text(self, memory_id: str, entry: ReadLine) -> bool:
        said = hash(entry.item.content)
        there = await self._living(memory_id)
        known = self._texts.get(memory_id) if there is None else hash(there.content)
        if known is None:
            if await self._was_used(memory_id):
                return False
            self._texts[memory_id] = said
            return True
        if said != known and entry.other_id not in (None, memory_id):
            return await self._is_new_text(str(entry.other_id), entry)
        return False

    # --- entities

    async def _is_new_entity(self, item: Item, parts: EntityParts) -> bool:
        name, kind = check_name(parts.name, "name"), check_name(parts.type, "type")
        own_id = str(item.memory_id)
        if own_id in self._names:
            name, kind = self._names[own_id]
        else:
            name, kind = named_otherwise(await self._living(own_id), parts) or (name, kind)
        said = {plain(one) for one in parts.observations if content_bytes(one)}
        key = name_key(name), name_key(kind)
        known = self._entities.get(key)
        if known is None and (stored := await self._found(self._user.entities.get(name, kind))):
            known = _Entity(stored.memory_id, set(stored.observations), stored.metadata)
        if known is None and await self._was_used(own_id):
            self._ids[own_id] = None
            return False
        there = known or _Entity(own_id, set(), {})
        metadata = {**there.metadata, **(item.metadata or {})}
        same = said <= there.observations and same_json(metadata, there.metadata)
        self._entities[key] = _Entity(there.memory_id, there.observations | said, metadata)
        self._named_here.setdefault(key[0], set()).add(there.memory_id)
        self._ids[own_id] = there.memory_id
        self._names.setdefault(own_id, (name, kind))
        return known is None or not same

    # --- relationships

    async def _is_new_relationship(self, entry: ReadLine, parts: RelationshipParts) -> bool:
        there = await self._living(entry.memory_id)
        if there is None and await self._was_used(entry.memory_id):
            return False
        source = await self._end(parts.source_id, parts.source)
        target = await self._end(parts.target_id, parts.target)
        if source is None or target is None:
            return False
        check_name(parts.relation, "relation")
        if parts.fact is not None:
            content_bytes(parts.fact)
        begins_us = micros_of(parts.valid_from, "valid_from") or time_us(entry.item.occurred_at, "")
        ends_us = micros_of(parts.valid_to, "valid_to")
        if begins_us is not None:
            check_validity(begins_us, ends_us)
        places = (entry.memory_id, (source, relation_key(parts.relation), target, begins_us))
        known = next(filter(None, map(self._relationships.get, places)), None)
        if known is None:
            known = (
                await self._holding(source, parts.relation, target, begins_us)
                if there is None
                else (there.data["fact"], there.metadata)
            )
        fact, metadata = known or (None, {})
        both = {**metadata, **(entry.item.metadata or {})}
        self._relationships |= dict.fromkeys(places, (parts.fact or fact, both))
        return known is None or parts.fact not in (None, fact) or not same_json(both, metadata)

    async def _holding(
        self, source: str, relation: str, target: str, at_us: int | None
    ) -> Told | None:
        """Return the existing relationship that says the same and holds when a new one begins."""
        as_of, key = None if at_us is None else to_datetime(at_us), relation_key(relation)
        asked = self._user.entities.relationships(source, direction="out", as_of=as_of)
        for one in await self._found(asked) or ():  # the source may be no entity yet
            if one.target_id == target and relation_key(one.relation) == key:
                return one.fact, one.metadata
        return None

    async def _end(self, entity_id: str | None, name: str | None) -> str | None:
        """Return the id of an endpoint, as `Adder` would find it, or None if it was deleted."""
        if entity_id in self._ids:
            return self._ids[entity_id]
        if entity_id is not None and await self._living(entity_id) is not None:
            return entity_id
        if name is not None:
            return await self._named(name)
        if not await self._was_used(str(entity_id)):
            raise NotFoundError(f"no entity {entity_id!r}: add it first, with add_entity")
        return None

    async def _named(self, name: str) -> str:
        ids = set(self._named_here.get(name_key(check_name(name, "entity")), ()))
        if stored := await self._found(self._user.entities.get(name)):
            ids.add(stored.memory_id)
        if not ids:
            raise NotFoundError(f"no entity {name!r}: add it first, with add_entity")
        if len(ids) > 1:
            raise InvalidInputError(f"several entities are named {name!r}: give the id of one")
        return ids.pop()

    # --- documents

    async def _is_new_document(self, entry: ReadLine, parts: DocumentParts) -> bool:
        if await self._has_gone(entry.memory_id):
            return False
        collection = check_name(parts.collection or DEFAULT_COLLECTION, "collection")
        key = entry.memory_id if parts.key is None else check_name(parts.key, "key")
        _, said = checked_document(parts.value)
        known = self._documents.get((collection, key))
        if known is None and (
            there := await self._found(self._user.documents.get(key, collection))
        ):
            known = checked_document(there.value)[1], there.metadata
        value, metadata = known or (None, {})
        own = metadata if entry.item.metadata is None else dict(entry.item.metadata)
        self._documents[collection, key] = said, own
        return known is None or said != value or not same_json(own, metadata)
