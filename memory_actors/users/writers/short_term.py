"""The way of a message into the log."""

from typing import ClassVar

from memory_actors.base.records import Item, Metadata, Receipt
from memory_actors.base.validation import (
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    plain,
    time_us,
)
from memory_actors.kinds import short_term
from memory_actors.kinds.kind import Kind
from memory_actors.users.writers.writer import Writer

DEFAULT_SESSION = "default"


class ShortTermWriter(Writer):
    """Adds, changes and deletes messages."""

    kind: ClassVar[Kind] = short_term
    takes = frozenset({"occurred_at", "session_id", "role"})
    delete_command = short_term.DeleteMessage

    async def add(
        self, item: Item, *, auto_prune: bool = False, idempotency_key: str | None = None
    ) -> Receipt:
        """Add a message; the oldest leave when the session is full, asked for or not."""
        del auto_prune
        self.check_fields(item, idempotency_key)
        now_us, occurred_at_us = self.scope.now_us(), time_us(item.occurred_at, "occurred_at")
        own_id = check_optional_name(item.memory_id, "memory_id")
        command = short_term.AddMessage(
            now_us=now_us,
            own_ids=() if own_id is None else (own_id,),
            message=short_term.MessageAdded(
                memory_id=own_id or self.scope.new_id(now_us),
                session_id=self.session(item.session_id),
                size_bytes=content_bytes(item.content),
                content=plain(item.content),
                occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
                metadata=own_metadata(item.metadata),
                role=check_optional_name(item.role, "role"),
            ),
        )
        message = command.message
        return self.receipt(message.memory_id, "add", await self.write(command), message)

    async def update(
        self, row: short_term.Row, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace a message's content, its metadata, or both."""
        command = short_term.UpdateMessage(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            size_bytes=0 if content is None else content_bytes(content),
            content=None if content is None else plain(content),
            metadata=None if metadata is None else own_metadata(metadata, shown=row.compressed),
        )
        return self.receipt(row.memory_id, "update", await self.write(command), row)

    def session(self, session_id: str | None) -> str:
        """Return the session that is meant: the one named, the handle's, or the default one."""
        if session_id is not None:
            return check_name(session_id, "session_id")
        return self.scope.session_id or DEFAULT_SESSION

    def whose(self, row: short_term.Row | short_term.MessageAdded) -> str | None:
        """Return the session."""
        return row.session_id
