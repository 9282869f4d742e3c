"""The way of an entry of working memory into the log."""

from typing import Any, ClassVar

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Item, Metadata, Receipt
from memory_actors.base.validation import (
    CONTENT_BYTES_MAX,
    check_name,
    check_optional_name,
    content_bytes,
    json_copy,
    own_metadata,
    plain,
)
from memory_actors.kinds import working
from memory_actors.kinds.kind import Kind
from memory_actors.users.writers.writer import Writer


class WorkingWriter(Writer):
    """Sets, changes and deletes keys. Answered at once, on disk within 50 ms."""

    kind: ClassVar[Kind] = working
    takes = frozenset({"key"})
    delete_command = working.DeleteKey
    relaxed = True

    async def set(
        self,
        key: str | None,
        value: Any,
        *,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        auto_prune: bool = False,
    ) -> Receipt:
        """Set a key to a JSON value; without a key, the memory's own id is one."""
        now_us, copy = self.scope.now_us(), json_copy(value, "value")
        own_id = check_optional_name(memory_id, "memory_id")
        new_id = own_id or self.scope.new_id(now_us)
        key = new_id if key is None else check_name(key, "key")
        size_bytes = working.entry_bytes(key, copy)
        if size_bytes > CONTENT_BYTES_MAX:
            raise InvalidInputError(
                f"value takes {size_bytes:,} bytes (max: {CONTENT_BYTES_MAX:,}): shorten it"
            )
        command = working.SetKey(
            now_us=now_us,
            own_ids=() if own_id is None else (own_id,),
            entry=working.KeySet(
                memory_id=new_id,
                key=key,
                value=copy,
                size_bytes=size_bytes,
                metadata=own_metadata(metadata),
            ),
            auto_prune=auto_prune,
        )
        written = await self.write(command)
        row = written.reply.state.working.held[key]
        return self.receipt(row.memory_id, "set", written)

    async def add(
        self, item: Item, *, auto_prune: bool = False, idempotency_key: str | None = None
    ) -> Receipt:
        """Keep a text under a key; without one, under its own memory id."""
        self.check_fields(item, idempotency_key)
        content_bytes(item.content)
        return await self.set(
            item.key,
            item.content,
            metadata=item.metadata,
            memory_id=item.memory_id,
            auto_prune=auto_prune,
        )

    async def delete_key(self, key: str) -> Receipt:
        """Delete an entry by its key."""
        written = await self.write(working.DeleteKey(now_us=self.scope.now_us(), key=key))
        return self.receipt(written.reply.events[0].data.memory_id, "delete", written)

    async def update(
        self, row: working.Row, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace an entry's value with a text, its metadata, or both."""
        if content is not None:
            content_bytes(content)
        command = working.UpdateKey(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            content=None if content is None else plain(content),
            metadata=None if metadata is None else own_metadata(metadata, shown=row.compressed),
        )
        return self.receipt(row.memory_id, "update", await self.write(command))
