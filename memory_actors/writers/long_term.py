"""The way of a long-term memory into the log and the index."""

import hashlib
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from eventlog import Dropped
from memory_actors.errors import InvalidInputError, NotFoundError
from memory_actors.kinds import long_term
from memory_actors.kinds.compression import CompactedKind
from memory_actors.kinds.long_term import MemoryAdded, SummaryAdded
from memory_actors.phrasing import spoken, text_digest
from memory_actors.records import Item, Memory, Metadata, Receipt
from memory_actors.validation import (
    check_optional_name,
    content_bytes,
    own_metadata,
    plain,
    time_us,
)
from memory_actors.writers.summaries import SummaryData, SummaryWriter, added_fields, checked_data
from memory_actors.writers.writer import Written

ADD_MANY_MAX = 1_000  # decided in one go, and one transaction


class LongTermWriter(SummaryWriter):
    """Adds, changes, compresses and deletes long-term memories."""

    kind: ClassVar[CompactedKind] = long_term
    takes = frozenset({"occurred_at", "session_id", "role", "pinned", "idempotency_key"})
    delete_command = long_term.DeleteMemory
    restore_command = long_term.RestoreMemories
    compress_command = long_term.CompressMemories
    undo_command = long_term.UndoCompaction
    add_command = long_term.AddSummary

    async def add(
        self, item: Item, *, auto_prune: bool = False, idempotency_key: str | None = None
    ) -> Receipt:
        """Add one memory."""
        (receipt,) = await self.add_many(
            [item], auto_prune=auto_prune, idempotency_key=idempotency_key
        )
        return receipt

    async def add_many(
        self,
        items: Sequence[Item],
        *,
        auto_prune: bool = False,
        idempotency_key: str | None = None,
    ) -> list[Receipt]:
        """Add memories, all or none; return a receipt each, in their order.

        :raises QuotaExceededError: no room; nothing was embedded or added.
        :raises InvalidInputError: one of them is not what it must be, or there are too many.
        """
        now_us = self.scope.now_us()
        if not isinstance(items, Sequence) or not all(isinstance(item, Item) for item in items):
            raise InvalidInputError("add_many takes a list of Items: Item(content=...)")
        if len(items) > ADD_MANY_MAX:
            raise InvalidInputError(f"{len(items):,} memories at once (max: {ADD_MANY_MAX:,})")
        memories = tuple(self._checked(item, now_us) for item in items)
        if not memories:
            return []
        command = long_term.AddMemories(
            now_us=now_us,
            memories=memories,
            auto_prune=auto_prune,
            own_ids=tuple(item.memory_id for item in items if item.memory_id is not None),
        )
        written = await self.write(
            command,
            [spoken(memory.content, memory.role) for memory in memories],
            idempotency_key=idempotency_key,
            digest=b"" if idempotency_key is None else _request(command),
        )
        return self._receipts(memories, written)

    async def update(
        self, row: long_term.Row, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace a memory's content, its metadata, or both."""
        size_bytes = 0 if content is None else content_bytes(content)
        content = None if content is None else plain(content)
        texts = [] if content is None else [spoken(content, row.role)]
        command = long_term.UpdateMemory(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=size_bytes,
            digest=text_digest(texts[0]) if texts else b"",
            metadata=None if metadata is None else own_metadata(metadata, shown=row.compressed),
        )
        return self.receipt(row.memory_id, "update", await self.write(command, texts))

    def checked_summary(self, memory: Memory) -> SummaryAdded:
        """Return a summary as an export has it, ready to be added."""
        return SummaryAdded(**added_fields(memory, checked_data(memory, SummaryData)))

    def _checked(self, item: Item, now_us: int) -> MemoryAdded:
        self.check_fields(item)
        size_bytes = content_bytes(item.content)
        occurred_at_us = time_us(item.occurred_at, "occurred_at")
        memory_id = check_optional_name(item.memory_id, "memory_id")
        session_id = check_optional_name(item.session_id, "session_id")
        role = check_optional_name(item.role, "role")
        return MemoryAdded(
            memory_id=memory_id or self.scope.new_id(now_us),
            content=plain(item.content),
            size_bytes=size_bytes,
            digest=text_digest(spoken(plain(item.content), role)),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=own_metadata(item.metadata),
            session_id=session_id or self.scope.session_id,
            role=role,
            pinned=item.pinned,
        )

    def _receipts(self, memories: Sequence[MemoryAdded], written: Written) -> list[Receipt]:
        """Return a receipt for each memory; of a repeated request, with the ids of the first."""
        events = [recorded.data for recorded in written.reply.events]
        if any(isinstance(event, Dropped) for event in events):
            raise NotFoundError(
                "this request was carried out long ago; what it added was compressed since, and "
                "retention has dropped it: use a new idempotency key"
            )
        fresh = [event.memory_id for event in events if isinstance(event, MemoryAdded)]
        ids = fresh if written.reply.duplicate else [memory.memory_id for memory in memories]
        added = set(fresh)
        return [
            self.receipt(memory_id, "add" if memory_id in added else "unchanged", written)
            for memory_id in ids
        ]


def _request(command: long_term.AddMemories) -> bytes:
    """Return what tells one request from another: what the caller said, not the id it was given."""
    said = [
        (
            memory.content,
            memory.metadata,
            memory.session_id,
            memory.role,
            memory.pinned,
            memory.occurred_at_us if memory.occurred_at_us != command.now_us else None,
        )
        for memory in command.memories
    ]
    return hashlib.sha256(msgspec.json.encode(said)).digest()
