"""Long-term memories: facts, one by one or many at once."""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, get_args

import msgspec

from eventlog import Dropped, Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.actors.asking import Reply
from memory_actors.base import validation
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import UNSAID, Item, Memory, OnDuplicate, Receipt
from memory_actors.kinds import long_term
from memory_actors.kinds.commands import Command
from memory_actors.kinds.compacting import CompactedKind, SummaryData
from memory_actors.kinds.extracting import Extract, UndoExtraction
from memory_actors.kinds.long_term import (
    AddMemories,
    MemoryAdded,
    MemoryRow,
    MemorySeen,
    Pair,
    SummaryAdded,
    SupersedeMemories,
    UpdateMemory,
)
from memory_actors.kinds.long_term.state import Identity, identity
from memory_actors.kinds.passages import normalised, passages, spoken, text_digest
from memory_actors.kinds.review import MemoryHeld
from memory_actors.kinds.short_term import AddMessage
from memory_actors.kinds.tombstones import refusing
from memory_actors.kinds.user_state import AddTurn
from memory_actors.search.superseding import Reach
from memory_actors.users.handles import superseding
from memory_actors.users.handles.handle import OPTIONAL, Adding, Summarized, checked_summary, taken
from memory_actors.users.handles.writing import Written
from memory_actors.users.live_user import LiveUser

_FIRST = ("content", "metadata", "session_id", "role", "pinned")
_NOT_SAID = ("memory_id", "size_bytes", "digest", "occurred_at_us", "same")
ADD_MANY_MAX = 1_000  # decided in one go, and one transaction


class LongTermMemory(Summarized):
    """Facts, at most 100,000 by default; old ones become summaries."""

    kind: ClassVar[CompactedKind] = long_term.KIND
    takes = taken(MemoryAdded, "idempotency_key", "on_duplicate")
    _content_bytes_max = validation.LONG_BYTES_MAX

    async def _add_many(
        self, items: Sequence[Item], adding: Adding, *, skip_forgotten: bool = True
    ) -> list[Receipt]:
        """Add memories, all or none; return a receipt each, in their order.

        Forgotten facts are left out, or with `skip_forgotten=False` they refuse all.

        :raises QuotaExceededError: no room; nothing was embedded or added.
        :raises InvalidInputError: one of them is not what it must be, or there are too many.
        """
        if not isinstance(items, Sequence) or not all(isinstance(item, Item) for item in items):
            raise InvalidInputError("add_many takes a list of Items: Item(content=...)")
        if len(items) > ADD_MANY_MAX:
            raise InvalidInputError(
                f"{len(items):,} memories at once (max: {ADD_MANY_MAX:,}): add them in parts"
            )
        if not items:
            return []
        command = self._adding(items, adding)
        command = msgspec.structs.replace(command, skip_forgotten=skip_forgotten)
        key = adding.idempotency_key
        written = await self._write(
            command,
            [text for one in command.memories for text in passages(one.content, one.role)],
            idempotency_key=key,
            digest=b"" if key is None else _request(command),
        )
        return self._receipts(command, written)

    async def _add(self, item: Item, adding: Adding) -> Receipt:
        (receipt,) = await self._add_many([item], adding, skip_forgotten=False)
        return receipt

    async def _add_turn(self, item: Item, message: AddMessage, auto_prune: bool | None) -> Receipt:
        add = self._by_settings(self._adding([item], Adding(auto_prune, on_duplicate="keep")))
        command = AddTurn(now_us=add.now_us, memory=add, message=message)
        written = await self._write(command, passages(item.content, item.role))
        return self._receipts(add, written)[0]

    def _adding(self, items: Sequence[Item], adding: Adding) -> AddMemories:
        now_us = self._scope.now_us()
        memories = tuple(self._checked(item, now_us) for item in items)
        own_ids = tuple(item.memory_id for item in items if item.memory_id is not None)
        # Even as duplicates, unless the caller says otherwise: those of a session, or with an id.
        kept = [*own_ids, *(one.memory_id for one in memories if one.session_id)]
        return AddMemories(
            now_us=now_us,
            memories=memories,
            auto_prune=self._scope.prunes(adding.auto_prune),
            own_ids=own_ids,
            on_duplicate=self._on_duplicate(adding.on_duplicate, own_ids),
            distinct=frozenset() if adding.on_duplicate else frozenset(kept),
            origins=() if self._scope.origins == (UNSAID,) else self._scope.origins,
        )

    def _fact(self, item: Item, now_us: int) -> MemoryAdded:
        """Return a fact of no session, ready to be added."""
        return msgspec.structs.replace(self._checked(item, now_us), session_id=None)

    async def _extracted(self, command: Extract | UndoExtraction) -> Sequence[AnyRecorded]:
        new: Sequence[MemoryAdded] = ()
        if isinstance(command, Extract):
            new = command.add.memories
            command = msgspec.structs.replace(
                command, add=self._by_settings(command.add, extracted=True)
            )
        texts = [text for one in new for text in passages(one.content, one.role)]
        written = await self._write(command, texts)
        return written.reply.events

    async def _approve(self, held: Recorded[MemoryHeld]) -> Receipt:
        """Add a pending fact, and record that the one holds no more which it is to replace."""
        receipt = await super()._approve(held)
        if held.data.replaces is None or held.data.fact is None:
            return receipt
        older_id, older_digest = held.data.replaces
        pair = Pair(
            memory_id=older_id,
            superseded_by_id=receipt.memory_id,
            older_digest=older_digest,
            newer_digest=held.data.fact.digest,
            similarity=0.0,
            evidence="an extractor says so",
        )
        written = await self._write(SupersedeMemories(now_us=self._scope.now_us(), pairs=(pair,)))
        more = tuple(one.memory_id for one in written.marks)
        return msgspec.structs.replace(receipt, supersedes=(*receipt.supersedes, *more))

    def _updating(
        self,
        row: MemoryRow,
        content: str | None,
        metadata: dict[str, object] | None,
        pinned: bool | None,
    ) -> tuple[Command, list[str]]:
        command, texts = super()._updating(row, content, metadata, pinned)
        same = b"" if content is None else _normalised_digest(content, row.role)
        if content is not None:
            texts = passages(content, row.role)
        return msgspec.structs.replace(command, same=same), texts

    def _found_by(self, row: MemoryRow, content: str) -> str:
        return spoken(content, row.role)

    def _checked_summary(self, memory: Memory) -> SummaryAdded:
        _, fields = checked_summary(memory, SummaryData)
        return SummaryAdded(**fields)

    def _checked(self, item: Item, now_us: int) -> MemoryAdded:
        self._check_item(item)
        size_bytes = validation.content_bytes(item.content, validation.LONG_BYTES_MAX)
        occurred_at_us = validation.time_us(item.occurred_at, "occurred_at")
        memory_id = validation.check_optional_name(item.memory_id, "memory_id")
        content = validation.plain(item.content)
        fields = {
            name: _CHECKS[field.type](getattr(item, name), name)
            for name, field in OPTIONAL.items()
            if name in MemoryAdded.__struct_fields__
        }
        fields["session_id"] = fields["session_id"] or self._scope.on.session_id
        return MemoryAdded(
            **fields,
            memory_id=memory_id or self._scope.new_id(now_us),
            content=content,
            size_bytes=size_bytes,
            digest=text_digest(spoken(content, fields["role"])),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=validation.own_metadata(item.metadata),
            same=_normalised_digest(content, fields["role"]),
            last_seen_us=validation.time_us(item.last_seen_at, "last_seen_at") or 0,
        )

    def _on_duplicate(self, asked: OnDuplicate | None, own_ids: Sequence[str]) -> OnDuplicate:
        """Return how to handle duplicates: as asked for, else as the settings say."""
        if asked is None:
            return self._scope.services.settings.on_duplicate
        if (
            validation.check_choice(asked, get_args(OnDuplicate), "on_duplicate") == "count"
            and own_ids
        ):
            raise InvalidInputError(
                f'{own_ids[0]!r:.80} is an id of your own, and on_duplicate="count" would drop it: '
                'leave the id out, or say "keep" or "skip"'
            )
        return asked

    def _read_ahead(self, command: Command) -> Reach | None:
        if isinstance(command, AddTurn):
            command = command.memory
        if isinstance(command, AddMemories) and len(command.memories) == 1:
            (memory,) = command.memories
            if superseding.may_supersede(memory.role, memory.size_bytes):
                return superseding.read_ahead(self._scope, memory.content)
        if isinstance(command, UpdateMemory) and command.content is not None:
            return superseding.read_ahead(self._scope, command.content)
        return None

    async def _compared(self, live: LiveUser, reply: Reply, ahead: Reach | None) -> Reply:
        if reply.duplicate:
            return reply
        return await superseding.compared(self._scope, live, reply, ahead)

    def _receipts(self, command: AddMemories, written: Written) -> list[Receipt]:
        """Return a receipt for each memory; of a repeated request, with the ids of the first."""
        events = [getattr(event, "words", event) for event in written.events]
        if any(isinstance(event, Dropped) for event in events):
            raise NotFoundError(
                "this request was carried out long ago; what it added was compressed since, and "
                "retention has dropped it: use a new idempotency key"
            )
        said = [event for event in events if isinstance(event, MemoryAdded | MemorySeen)]
        if written.reply.duplicate:
            return [self._receipt_of(event, written) for event in said]
        added = {event.memory_id: event for event in said if isinstance(event, MemoryAdded)}
        if written.reply.repeated:
            command = _as_added(command, list(added.values()))
        seen = (event for event in said if isinstance(event, MemorySeen))
        before = written.reply.before  # the state in which the decision compared duplicates
        first: dict[Identity, MemoryAdded] = {}
        if len(added) < len(command.memories):
            command = msgspec.structs.replace(command, origins_of=before.provenance.origins)
            first = {identity(one): one for one in reversed(added.values())}
        receipts = []
        for memory in command.memories:
            memory_id = memory.memory_id
            if command.skip_forgotten and refusing(memory, written.codes, before.tombstones):
                receipt = self._receipt(memory_id, "forgotten", written)
                receipts.append(msgspec.structs.replace(receipt, operation="forgotten"))
                continue
            event: MemoryAdded | MemorySeen | None = added.get(memory_id)
            if event is None and command.on_duplicate == "count":
                event = None if memory_id in command.distinct else next(seen)
            if event is None:
                known = long_term.duplicate_of(command, memory, before.long_term, first)
                receipts.append(self._receipt(known or memory_id, "unchanged", written))
            else:
                receipts.append(self._receipt_of(event, written))
        return receipts

    def _receipt_of(self, event: MemoryAdded | MemorySeen, written: Written) -> Receipt:
        operation = "seen" if isinstance(event, MemorySeen) else "add"
        return self._receipt(event.memory_id, operation, written)


def _as_added(command: AddMemories, added: Sequence[MemoryAdded]) -> AddMemories:
    left, ids = deque(added), {event.memory_id for event in added}
    memories = []
    for memory in command.memories:
        memory_id = "" if memory.memory_id in ids else memory.memory_id
        if left and left[0].digest == memory.digest:
            memory_id = left.popleft().memory_id
        memories.append(msgspec.structs.replace(memory, memory_id=memory_id))
    return msgspec.structs.replace(command, memories=tuple(memories))


def _normalised_digest(content: str, role: str | None) -> bytes:
    """Return the digest of a text normalised; b"" if it is so already."""
    if (
        len(content) > validation.CONTENT_BYTES_MAX
    ):  # no words of a user: normalising it takes too long
        return b""
    common = normalised(content)
    return b"" if common == content else text_digest(spoken(common, role))


def _request(command: AddMemories) -> bytes:
    """Return the idempotency digest of the fields that the caller gave, without the new id."""
    now_us = command.now_us
    said = []
    for memory in command.memories:
        at_us = None if memory.occurred_at_us == now_us else memory.occurred_at_us
        first = [getattr(memory, name) for name in _FIRST]  # stored digests depend on their order
        fields = msgspec.to_builtins(memory)
        other = {name: fields[name] for name in fields if name not in {*_FIRST, *_NOT_SAID}}
        said.append([*first, at_us, other] if other else [*first, at_us])
    return hashlib.sha256(msgspec.json.encode(said)).digest()


_CHECKS: Mapping[object, Callable[[object, str], Any]] = {
    str | None: validation.check_optional_name,
    bool: validation.check_flag,
    int: partial(validation.check_count, least=1),
}
"""By the types that fields of an item have."""
