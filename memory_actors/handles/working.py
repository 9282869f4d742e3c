"""`user.working`: a small dictionary of task state, held in memory, logged within 50 ms."""

from time import perf_counter
from typing import Any

from memory_actors.actor import Reply
from memory_actors.errors import InvalidInputError
from memory_actors.handles.scope import Scope
from memory_actors.kinds import working
from memory_actors.records import MemoryType, Metadata, Receipt
from memory_actors.validation import (
    CONTENT_BYTES_MAX,
    check_name,
    check_optional_name,
    content_bytes,
    json_copy,
    own_metadata,
)


class WorkingMemory:
    """Keys to JSON values, at most 100 and 10 KB by default, least recently used out first.

    Writes are acknowledged at once and on disk within 50 ms (durability `relaxed`).
    """

    def __init__(self, scope: Scope):
        self._scope = scope

    async def set(
        self,
        key: str,
        value: Any,
        *,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        auto_prune: bool = False,
    ) -> Receipt:
        """Set a key to a JSON value. `memory_id` is for a new key; an old one keeps its own.

        When the sizes no longer fit, the least recently used entries go. When the number of keys is
        at its limit, a new key is refused unless `auto_prune`, which makes the least recently used
        one go.

        :raises QuotaExceededError: too many keys, or a value that could never fit.
        :raises InvalidInputError: the key or value is not what it must be.
        """
        started_s = perf_counter()
        own_id = check_optional_name(memory_id, "memory_id")
        return await self._set(
            check_name(key, "key"), value, metadata, auto_prune, own_id, started_s
        )

    async def add(
        self,
        content: str,
        *,
        metadata: Metadata | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        auto_prune: bool = False,
    ) -> Receipt:
        """Keep a text under a key; without one, under its own memory id."""
        started_s = perf_counter()
        content_bytes(content)
        own_id = check_optional_name(memory_id, "memory_id")
        key = check_optional_name(key, "key")
        if key is None:
            key = own_id = own_id or self._scope.new_id(self._scope.now_us())
        return await self._set(key, content, metadata, auto_prune, own_id, started_s)

    async def get(self, key: str, default: Any = None) -> Any:
        """Return a key's value, which counts as a use of it; `default` if there is none."""
        async with self._scope.live() as live:
            row = live.state.working.rows.get(check_name(key, "key"))
            if row is None:
                return default
            live.touch(key)
            return json_copy(row.value, "value")

    async def delete(self, key: str) -> Receipt:
        """Delete a key.

        :raises NotFoundError: there is none.
        """
        command = working.DeleteKey(now_us=self._scope.now_us(), key=check_name(key, "key"))
        return await self._delete(command)

    async def items(self) -> dict[str, Any]:
        """Return all keys and values, in the order they were last set; a use of none of them."""
        async with self._scope.live() as live:
            rows = live.state.working.rows
            return {key: json_copy(row.value, "value") for key, row in rows.items()}

    async def update(
        self, memory_id: str, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace an entry's value with a text, its metadata, or both."""
        started_s = perf_counter()
        if content is not None:
            content_bytes(content)
        command = working.UpdateKey(
            now_us=self._scope.now_us(),
            memory_id=memory_id,
            content=content,
            metadata=None if metadata is None else own_metadata(metadata),
        )
        async with self._scope.live() as live:
            reply = await self._scope.ask(live, command, relaxed=True)
        return self._receipt(memory_id, "update", reply, started_s)

    async def delete_memory(self, memory_id: str) -> Receipt:
        """Delete an entry by its memory id."""
        command = working.DeleteKey(now_us=self._scope.now_us(), memory_id=memory_id)
        return await self._delete(command)

    async def _set(
        self,
        key: str,
        value: Any,
        metadata: Metadata | None,
        auto_prune: bool,
        memory_id: str | None,
        started_s: float,
    ) -> Receipt:
        now_us = self._scope.now_us()
        copy = json_copy(value, "value")
        size_bytes = working.entry_bytes(key, copy)
        if size_bytes > CONTENT_BYTES_MAX:
            raise InvalidInputError(
                f"value takes {size_bytes:,} bytes (max: {CONTENT_BYTES_MAX:,})"
            )
        command = working.SetKey(
            now_us=now_us,
            memory_id=memory_id or self._scope.new_id(now_us),
            own_id=memory_id is not None,
            key=key,
            value=copy,
            size_bytes=size_bytes,
            metadata=own_metadata(metadata),
            auto_prune=auto_prune,
        )
        async with self._scope.live() as live:
            reply = await self._scope.ask(live, command, relaxed=True)
            live.touch(key)
        row = reply.state.working.rows[key]
        return self._receipt(row.memory_id, "set", reply, started_s)

    async def _delete(self, command: working.DeleteKey) -> Receipt:
        started_s = perf_counter()
        async with self._scope.live() as live:
            reply = await self._scope.ask(live, command, relaxed=True, deletes=True)
        return self._receipt(reply.events[0].data.memory_id, "delete", reply, started_s)

    def _receipt(self, memory_id: str, operation: str, reply: Reply, started_s: float) -> Receipt:
        limit = self._scope.services.settings.limits.working_keys
        event = reply.events[0].data if reply.events else None
        return Receipt(
            memory_id=memory_id,
            operation=operation if reply.events else "unchanged",
            memory_type=MemoryType.WORKING,
            latency_ms=(perf_counter() - started_s) * 1e3,
            quota_remaining=max(0, limit - len(reply.state.working.rows)),
            evicted=getattr(event, "evicted_ids", ()),
        )
