"""From the entries of a file to memories: what an import does with each.

A memory that an import has added before is not added again, even if it was deleted or changed
since. Others are merged with what is there: an entity by its name and type (it gets what is new of
it), a document and an entry of working memory by their key (the file's takes their place). An
import ends no relationship that is there, unless the file has this very one with its end.
"""
# ruff: noqa: SLF001 - imports call the half of these handles that is no operation

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from eventlog.core.records import to_datetime
from memory_actors.base import errors
from memory_actors.base.records import Episode, Item, Memory, MemoryType, Receipt, as_record
from memory_actors.base.validation import time_us
from memory_actors.interchange.noting import ImportNote, ImportReport, datetime_of
from memory_actors.interchange.parts import (
    BlockParts,
    DocumentParts,
    EmptyDocumentParts,
    EntityParts,
    EpisodeParts,
    RelationshipParts,
)
from memory_actors.interchange.records import COMPRESSED_FLAG, ReadLine
from memory_actors.kinds.compacting import SummaryData
from memory_actors.kinds.entity.graph import name_key
from memory_actors.sharing.system import UserMemory
from memory_actors.users.handles.documents import DEFAULT_COLLECTION
from memory_actors.users.handles.episodes import DEFAULT_AGENT

OTHER_METADATA = "the metadata was not taken over: the memory of that id is there with other"
OTHER_NAME = "a new name or type was not taken over: the entity of that id keeps its own"
_REFUSALS = (errors.InvalidInputError, errors.NotFoundError, errors.QuotaExceededError)
LeaveOut: TypeAlias = Callable[[str, object], None]


class Adder:
    """Adds the entries of one file to one user's memory, in their order, and counts them."""

    def __init__(self, user: UserMemory, leave_out: LeaveOut):
        self._user = self._given = user
        self._added = self._unchanged = self._unindexed = 0
        self._leave_out = leave_out
        """Hears of an entry that can never be added, so that others may be."""
        self._entity_ids: dict[str, str] = {}
        """Ids of entities here, by those in the file. Bounded by the quota of entities."""
        self._other_metadata = self._other_names = 0

    async def add(self, entries: Sequence[ReadLine]) -> None:
        """Add entries, up to the first that there is no room for.

        :raises QuotaExceededError: no room for one; the message names its place.
        """
        for (is_fact, origins, agent_id, expires_at_us), run in groupby(
            entries,
            key=lambda one: (
                one.kind is MemoryType.LONG_TERM and one.parts is None,
                one.origins, one.agent_id, one.expires_at_us,
            ),
        ):  # fmt: skip
            user = self._given._with(origins=origins) if origins else self._given
            if agent_id is not None:
                user = user._with(agent_id=agent_id)
            if expires_at_us is not None:
                user = user._with(lives_until_us=expires_at_us)
            self._user, some = user, list(run)
            if not is_fact or not await self._are_added(some):
                for entry in some:
                    await self._add_one(entry)

    def report(self, notes: Sequence[ImportNote] = ()) -> ImportReport:
        """Report the result so far; `notes` are those of the reader."""
        kept = (
            ImportNote(OTHER_METADATA, self._other_metadata),
            ImportNote(OTHER_NAME, self._other_names),
        )
        return ImportReport(
            users=[self._user.user_id],
            added=self._added,
            unchanged=self._unchanged,
            unindexed=self._unindexed,
            notes=(*notes, *(one for one in kept if one.lines)),
        )

    # --- what is there

    async def _living(self, memory_id: str) -> Memory | None:
        with suppress(errors.NotFoundError):
            return await self._user.get(memory_id)
        return None

    async def _was_used(self, memory_id: str) -> bool:
        with suppress(errors.NotFoundError):
            return bool(await self._user.history(memory_id))
        return False

    async def _has_gone(self, memory_id: str) -> bool:
        return await self._living(memory_id) is None and await self._was_used(memory_id)

    # --- how it is carried out

    async def _are_added(self, entries: Sequence[ReadLine]) -> bool:
        """Add facts in one commit; False if it is refused, or a server takes them one by one."""
        try:
            receipts = await self._user.add_many([entry.item for entry in entries])
        except (errors.InvalidInputError, errors.QuotaExceededError, errors.NotOfferedError):
            return False
        ids: set[str] = set()
        for entry, receipt in zip(entries, receipts, strict=True):
            await self._note(entry, receipt, again=entry.memory_id in ids)
            ids.add(entry.memory_id)
        return True

    async def _add_one(self, entry: ReadLine) -> None:
        try:
            await self._note(entry, await self._carried_out(entry))
        except _REFUSALS as error:
            if await self._was_added(entry, error):
                await self._note(entry, None)
                return
            if entry.other_id is not None and isinstance(error, errors.InvalidInputError):
                item = msgspec.structs.replace(entry.item, memory_id=entry.other_id)
                await self._add_one(entry._replace(item=item, other_id=None))
                return
            if isinstance(error, errors.QuotaExceededError):
                error.args = (f"{entry.place}: {error}",)
                raise
            self._leave_out(entry.place, error)

    async def _carried_out(self, entry: ReadLine) -> Receipt | None:
        match entry.parts:
            case EntityParts() as parts:
                return await self._add_entity(entry.item, parts)
            case RelationshipParts() as parts:
                return await self._relate(entry.item, parts)
            case EpisodeParts() as parts:
                return await self._add_episode(entry, parts)
            case DocumentParts() as parts:
                return await self._put_document(entry.item, parts)
            case BlockParts() as parts:
                block = msgspec.to_builtins(parts)
                return await self._user.context._put_block(entry.memory_id, entry.item, block)
            case EmptyDocumentParts() as parts:
                there = {info.name for info in await self._user.context.documents()}
                if parts.document not in there:
                    await self._user.context.create(parts.document)
                return None
            case SummaryData() as parts:
                return await self._user._put_summary(_memory(entry, parts))
        return await self._add_text(entry)

    async def _note(self, entry: ReadLine, receipt: Receipt | None, *, again: bool = False) -> None:
        """Count what came of an entry; without a receipt there was nothing to do.

        One that stood there before, in the same commit, has the receipt of the one that added it.
        One that added nothing may have other metadata than the memory of its id: that is told.
        """
        if receipt is not None and receipt.operation == "forgotten":
            self._leave_out(entry.place, "it was forgotten: `forgotten` lists what was")
            return
        is_new = receipt is not None and receipt.operation != "unchanged"
        self._added += is_new and not again
        self._unchanged += not is_new or again
        self._unindexed += is_new and not again and receipt is not None and not receipt.indexed
        there = None if is_new or not entry.item.metadata else await self._living(entry.memory_id)
        if there is not None:
            flags = {COMPRESSED_FLAG: None}  # says how it is stored
            own = {**(entry.item.metadata or {}), **flags}
            self._other_metadata += {**there.metadata, **flags} != own

    async def _was_added(self, entry: ReadLine, error: Exception) -> bool:
        """Say whether what is refused is there all the same, or was: it may have changed since."""
        is_refused = isinstance(error, errors.QuotaExceededError | errors.ForgottenError)
        if is_refused or isinstance(entry.parts, EpisodeParts):
            return False
        memory = await self._living(entry.memory_id)
        if memory is None:
            return await self._has_gone(entry.memory_id)
        # An export for another program has every memory as a text: its kind is lost on the way.
        same_kind = memory.memory_type == entry.kind or entry.other_id is not None
        return same_kind and memory.content == entry.item.content

    # --- one entry

    async def _add_text(self, entry: ReadLine) -> Receipt | None:
        """Add what is given as a text. A working key that is there already keeps its id."""
        item = entry.item
        if entry.value is not msgspec.UNSET:
            return await self._user.working.set(
                item.key or entry.memory_id,
                entry.value,
                metadata=item.metadata,
                memory_id=item.memory_id,
            )
        if entry.kind is MemoryType.STRUCTURED and await self._has_gone(entry.memory_id):
            return None
        was_counted = item.times_seen != 1 or item.last_seen_at is not None
        if entry.kind is MemoryType.LONG_TERM and was_counted:  # only `add_many` takes that
            (receipt,) = await self._user.add_many([item])
            return receipt
        fields = msgspec.structs.asdict(item)
        del fields["times_seen"], fields["last_seen_at"]
        receipt = await self._user.add(memory_type=entry.kind, **fields)
        if entry.kind is MemoryType.ENTITY:
            self._entity_ids[entry.memory_id] = receipt.memory_id
        return receipt

    async def _add_entity(self, item: Item, parts: EntityParts) -> Receipt:
        more = {"occurred_at": item.occurred_at, **_own(item)}
        try:
            receipt = await self._user.entities.add_entity(
                parts.name, parts.type, parts.observations, **more
            )
        except errors.InvalidInputError:
            there = _named_otherwise(await self._living(str(item.memory_id)), parts)
            if there is None:
                raise
            receipt = await self._user.entities.add_entity(*there, parts.observations, **more)
            self._other_names += 1
        self._entity_ids[str(item.memory_id)] = receipt.memory_id
        return receipt

    async def _relate(self, item: Item, parts: RelationshipParts) -> Receipt | None:
        said = msgspec.structs.asdict(parts)
        source, target = [
            await self._end(said.pop(f"{end}_id"), said.pop(end)) for end in ("source", "target")
        ]
        said |= {name: datetime_of(said[name], name) for name in said if name.startswith("valid_")}
        said["valid_from"] = said["valid_from"] or item.occurred_at
        try:
            # Not exclusive: a line has the end that it had where it comes from.
            return await self._user.entities.relate(
                source, target=target, exclusive=False, **said, **_own(item)
            )
        except errors.NotFoundError:
            if await self._has_gone(source) or await self._has_gone(target):
                return None
            raise

    async def _end(self, entity_id: str | None, name: str | None) -> str:
        """Return the name here of an endpoint of a relationship: an id, or else a name."""
        if entity_id in self._entity_ids:
            return self._entity_ids[entity_id]
        if name is None or (entity_id is not None and await self._living(entity_id) is not None):
            assert entity_id is not None, "a line names both endpoints"
            return entity_id
        return name

    async def _put_document(self, item: Item, parts: DocumentParts) -> Receipt | None:
        if await self._has_gone(str(item.memory_id)):
            return None
        return await self._user.documents.put(
            parts.collection or DEFAULT_COLLECTION,
            parts.value,
            key=parts.key,
            occurred_at=item.occurred_at,
            **_own(item),
        )

    async def _add_episode(self, entry: ReadLine, parts: EpisodeParts) -> Receipt | None:
        whole = msgspec.structs.replace(parts, agent_id=parts.agent_id or DEFAULT_AGENT)
        try:
            return await self._user.episodes.put(as_record(Episode, _memory(entry, whole)))
        except errors.InvalidInputError:
            there = await self._living(entry.memory_id)
            if there is None and await self._was_used(entry.memory_id):
                return None
            is_episode = there is not None and there.memory_type == MemoryType.EPISODIC
            if there is not None and is_episode and there.data["goal"] == parts.goal:
                return None
            raise


def _named_otherwise(there: Memory | None, parts: EntityParts) -> tuple[str, str] | None:
    """Return the name and the type of an entity that has been given others since, else None."""
    if there is None or there.memory_type != MemoryType.ENTITY or "relation" in there.data:
        return None
    name, kind = str(there.data["name"]), str(there.data["type"])
    same = (name_key(name), name_key(kind)) == (name_key(parts.name), name_key(parts.type))
    return None if same else (name, kind)


def _own(item: Item) -> dict[str, Any]:
    return {"metadata": item.metadata, "memory_id": item.memory_id, "pinned": item.pinned}


def _memory(entry: ReadLine, data: object) -> Memory:
    """Return an entry as an export had it before it was written."""
    item, now = entry.item, datetime.now(UTC)
    occurred_at_us = time_us(item.occurred_at, "timestamp")
    return Memory(
        memory_id=entry.memory_id,
        content=item.content,
        memory_type=entry.kind,
        metadata=dict(item.metadata or {}),
        created_at=now,
        occurred_at=now if occurred_at_us is None else to_datetime(occurred_at_us),
        session_id=item.session_id,
        pinned=item.pinned,
        data=msgspec.to_builtins(data),
    )
