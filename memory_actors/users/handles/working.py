"""`user.working`: a small dictionary of task state, held in memory, logged within 50 ms."""

from typing import Any, ClassVar

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Item, JsonObject, Metadata, Receipt
from memory_actors.base.validation import (
    CONTENT_BYTES_MAX,
    check_name,
    content_bytes,
    json_copy,
    own_metadata,
)
from memory_actors.kinds import working
from memory_actors.kinds.kind import Kind
from memory_actors.users.handles.handle import Adding, Handle, taken


class WorkingMemory(Handle):
    """Keys to JSON values, at most 100 and 10 KB by default, least recently used out first.

    Writes are acknowledged at once and on disk within 50 ms (durability `relaxed`).
    """

    kind: ClassVar[Kind] = working.KIND
    takes = taken(working.KeySet)

    async def set(
        self,
        key: str,
        value: object,
        *,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        auto_prune: bool | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        """Set a key to a JSON value. `memory_id` is for a new key; an old one keeps its own.

        It expires after `ttl_s` seconds; by default (None) the settings decide.

        When the sizes no longer fit, the least recently used entries go. When the number of keys is
        at its limit, a new key is refused unless `auto_prune`, which makes the least recently used
        one go.

        :raises QuotaExceededError: too many keys, or a value that could never fit.
        :raises InvalidInputError: the key or value is not what it must be.
        """
        key = check_name(key, "key")
        lasting = self.lasting(ttl_s)
        receipt = await lasting._set(  # noqa: SLF001 - it is this handle
            key, value, metadata, memory_id, auto_prune
        )
        if receipt.operation == "unchanged":
            await self.get(key)  # setting it to what it is was a use, too
        return receipt

    async def get(self, key: str, default: object = None) -> Any:
        """Return a key's value, which counts as a use of it; `default` if there is none."""
        with self._scope.measured("GetKey", working.KIND.NAME):
            async with self._scope.live() as live:
                row = working.KIND.named(live.state.working, check_name(key, "key"))
                if row is None:
                    return default
                live.touch(row.memory_id)
                return json_copy(row.value, "value")

    async def delete(self, key: str) -> Receipt:
        """Delete a key.

        :raises NotFoundError: there is none.
        """
        command = working.DeleteKey(now_us=self._scope.now_us(), key=check_name(key, "key"))
        written = await self._write(command)
        return self._receipt(written.events[0].memory_id, "delete", written)

    async def items(self) -> JsonObject:
        """Return all keys and values, in the order they were last set; a use of none of them."""
        with self._scope.measured("Items", working.KIND.NAME):
            rows = working.KIND.rows((await self._scope.state()).working)
            return {row.key: json_copy(row.value, "value") for row in rows}

    # --- as all kinds

    async def _add(self, item: Item, adding: Adding) -> Receipt:
        self._check_item(item, adding)
        content_bytes(item.content)
        given = item.key, item.content, item.metadata, item.memory_id
        return await self._set(*given, adding.auto_prune)

    async def _set(
        self,
        key: str | None,
        value: object,
        metadata: Metadata | None,
        memory_id: str | None,
        auto_prune: bool | None,
    ) -> Receipt:
        copy, new = json_copy(value, "value"), self._new(memory_id)
        key = new.memory_id if key is None else check_name(key, "key")
        size_bytes = working.entry_bytes(key, copy)
        if size_bytes > CONTENT_BYTES_MAX:
            raise InvalidInputError(
                f"value takes {size_bytes:,} bytes (max: {CONTENT_BYTES_MAX:,}): shorten it"
            )
        command = working.SetKey(
            now_us=new.now_us,
            own_ids=new.own_ids,
            entry=working.KeySet(
                memory_id=new.memory_id,
                key=key,
                value=copy,
                size_bytes=size_bytes,
                metadata=own_metadata(metadata),
            ),
            auto_prune=self._scope.prunes(auto_prune),
        )
        written = await self._write(command)
        row = working.KIND.named(written.reply.state.working, key)
        known = working.KIND.named(written.reply.before.working, key)
        return self._receipt_of_put(new.memory_id, known, row, written)
