"""The way of a long-term memory into the log and the index.

The text is embedded while the log writes, so an add takes the longer of the two and not both. It is
answered when it is durable and searchable. If the embedder fails, the memory is kept all the same,
the receipt says `indexed=False`, and it is indexed when the embedder works again.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from time import perf_counter

import msgspec
import structlog

from memory_actors.actor import Reply
from memory_actors.embedding.protocol import Vectors
from memory_actors.embedding.spoken import spoken
from memory_actors.embedding.vector_table import text_digest
from memory_actors.errors import EmbedderError, InvalidInputError
from memory_actors.handles.scope import Scope
from memory_actors.kinds import long_term
from memory_actors.live_user import LiveUser
from memory_actors.records import Item, MemoryType, Metadata, Receipt
from memory_actors.validation import (
    check_optional_name,
    content_bytes,
    own_metadata,
    time_us,
)

ADD_MANY_MAX = 1_000  # decided in one go, and one transaction

_logger = structlog.get_logger("memory_actors.user")


class LongTermMemory:
    """Adds, changes and deletes a user's long-term memories."""

    def __init__(self, scope: Scope):
        self._scope = scope

    async def add(
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
        started_s, now_us = perf_counter(), self._scope.now_us()
        if not all(isinstance(item, Item) for item in items):
            raise InvalidInputError("add_many takes Items: Item(content=...)")
        if len(items) > ADD_MANY_MAX:
            raise InvalidInputError(f"{len(items):,} memories at once (max: {ADD_MANY_MAX:,})")
        memories = tuple(self._checked(item, now_us) for item in items)
        if not memories:
            return []
        command = long_term.AddMemories(
            now_us=now_us,
            memories=memories,
            auto_prune=auto_prune,
            own_ids=any(item.memory_id is not None for item in items),
        )
        reply, indexed = await self._scope.to_the_end(
            self._carry_out(
                command,
                [spoken(memory.content, memory.role) for memory in memories],
                idempotency_key=idempotency_key,
                digest=b"" if idempotency_key is None else _request(command),
            )
        )
        return self._receipts(memories, reply, indexed, started_s)

    async def update(
        self, row: long_term.Row, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace a memory's content, its metadata, or both."""
        started_s = perf_counter()
        size_bytes = 0 if content is None else content_bytes(content)
        texts = [] if content is None else [spoken(content, row.role)]
        command = long_term.UpdateMemory(
            now_us=self._scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=size_bytes,
            digest=text_digest(texts[0]) if texts else b"",
            metadata=None if metadata is None else own_metadata(metadata),
        )
        reply, indexed = await self._scope.to_the_end(self._carry_out(command, texts))
        done = "update" if reply.events else "unchanged"
        return self._receipt(row.memory_id, done, reply, started_s, indexed=indexed)

    async def delete_memory(self, memory_id: str) -> Receipt:
        """Delete a memory."""
        started_s = perf_counter()
        command = long_term.DeleteMemory(now_us=self._scope.now_us(), memory_id=memory_id)
        async with self._scope.live() as live:
            reply = await self._scope.ask(live, command, deletes=True)
        return self._receipt(memory_id, "delete", reply, started_s)

    async def _carry_out(
        self,
        command: long_term.AddMemories | long_term.UpdateMemory,
        texts: list[str],
        *,
        idempotency_key: str | None = None,
        digest: bytes = b"",
    ) -> tuple[Reply, bool]:
        """Ask the actor and embed the texts at the same time; say whether they are indexed."""
        async with self._scope.live() as live:
            if idempotency_key is None and not getattr(command, "auto_prune", False):
                self._scope.refuse_early(live, await live.enrich(command, live.state))
            embedding = asyncio.create_task(self._scope.services.embeddings.embed(texts))
            embedding.add_done_callback(lambda task: task.cancelled() or task.exception())
            try:
                reply = await self._scope.ask(
                    live, command, idempotency_key=idempotency_key, digest=digest
                )
            except BaseException:
                embedding.cancel()
                live.index.index_later(live.actor.drain)  # after a deadline it may yet be added
                raise
            return reply, await self._index(live, texts, embedding)

    async def _index(
        self, live: LiveUser, texts: list[str], embedding: asyncio.Task[list[Vectors]]
    ) -> bool:
        """Index the texts when their vectors are there; leave it for later if they fail."""
        try:
            vectors = await embedding
        except EmbedderError as error:
            _logger.warning("memory kept, not indexed", count=len(texts), error=str(error))
            live.index.index_later(live.actor.drain)
            return False
        live.index.settle(dict(zip(map(text_digest, texts), vectors, strict=True)))
        return True

    def _checked(self, item: Item, now_us: int) -> long_term.NewMemory:
        size_bytes = content_bytes(item.content)
        occurred_at_us = time_us(item.occurred_at, "occurred_at")
        memory_id = check_optional_name(item.memory_id, "memory_id")
        session_id = check_optional_name(item.session_id, "session_id")
        role = check_optional_name(item.role, "role")
        return long_term.NewMemory(
            memory_id=memory_id or self._scope.new_id(now_us),
            content=item.content,
            size_bytes=size_bytes,
            digest=text_digest(spoken(item.content, role)),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=own_metadata(item.metadata),
            session_id=session_id or self._scope.session_id,
            role=role,
            pinned=item.pinned,
        )

    # --- receipts

    def _receipts(
        self,
        memories: Sequence[long_term.NewMemory],
        reply: Reply,
        indexed: bool,
        started_s: float,
    ) -> list[Receipt]:
        added = [e.data for e in reply.events if isinstance(e.data, long_term.MemoryAdded)]
        pruned = [e.data for e in reply.events if isinstance(e.data, long_term.MemoriesPruned)]
        evicted = tuple(memory_id for event in pruned for memory_id in event.memory_ids)
        operation = "add_with_prune" if pruned else "add"
        if reply.duplicate:  # the ids of the first time, in the same order
            ids = [event.memory_id for event in added]
        else:
            ids = [memory.memory_id for memory in memories]
        fresh = {event.memory_id for event in added}
        return [
            self._receipt(
                memory_id,
                operation if memory_id in fresh else "unchanged",
                reply,
                started_s,
                indexed=indexed,
                evicted=evicted,
            )
            for memory_id in ids
        ]

    def _receipt(
        self,
        memory_id: str,
        operation: str,
        reply: Reply,
        started_s: float,
        *,
        indexed: bool = True,
        evicted: tuple[str, ...] = (),
    ) -> Receipt:
        limit = self._scope.services.settings.limits.long_term_memories
        return Receipt(
            memory_id=memory_id,
            operation=operation,
            memory_type=MemoryType.LONG_TERM,
            latency_ms=(perf_counter() - started_s) * 1e3,
            quota_remaining=max(0, limit - len(reply.state.long_term.rows)),
            evicted=evicted,
            indexed=indexed,
        )


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
