"""`user.short_term`: the last messages of a session."""

from typing import ClassVar

import msgspec

from memory_actors.base import validation
from memory_actors.base.records import Item, Memory, Metadata, Receipt, Time
from memory_actors.kinds import short_term
from memory_actors.kinds.kind import Kind
from memory_actors.users.handles.handle import Adding, Handle, taken

DEFAULT_SESSION = "default"


class ShortTermMemory(Handle):
    """Messages by session, at most 100 and 1 MB each by default, first in, first out.

    A session expires an hour after its last message, by default again. Without a session id of its
    own or of the handle, a message goes to the session "default".
    """

    kind: ClassVar[Kind] = short_term.KIND
    takes = taken(short_term.MessageAdded)

    @property
    def ttl(self) -> int:
        """Seconds a session lives after its last message, of a user whose tier was never set.

        Other tiers have it in their limits: `settings.plan(tier).limits.short_term_ttl_s`.
        """
        return self._scope.services.limits[None].short_term_ttl_s

    async def add_message(
        self,
        content: str,
        *,
        role: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
    ) -> Receipt:
        """Add a message; the oldest leave when the session is full. Durable when it returns.

        :raises QuotaExceededError: it is larger than a session may be.
        :raises InvalidInputError: it is empty, or something else is not what it must be.
        """
        item = Item(
            content=content,
            role=role,
            session_id=session_id,
            metadata=metadata,
            occurred_at=occurred_at,
            memory_id=memory_id,
        )
        return await self._add(item)

    async def messages(
        self, session_id: str | None = None, *, last: int | None = None
    ) -> list[Memory]:
        """Return a session's messages, oldest first; only the `last` so many, if given.

        `ttl_s` of each says how many seconds it has left.
        """
        with self._scope.measured("Messages", short_term.KIND.NAME):
            now_us = self._scope.now_us()
            confirmed = await self._scope.state()
            state = short_term.KIND.at(confirmed.short_term, now_us)
            origins = confirmed.provenance
            name = self._session(session_id)
            rows, session = state.session(name), state.sessions.get(name, short_term.Session())
            first = 0 if last is None else max(0, len(rows) - validation.check_count(last, "last"))
            read = await self._read_rows(rows[first:], origins)
            left_s = (session.expires_at_us - now_us) / 1e6
            return [msgspec.structs.replace(message, ttl_s=left_s) for message in read]

    # --- as all kinds

    async def _add(self, item: Item, adding: Adding = Adding()) -> Receipt:  # noqa: B008 - a tuple
        """Add a message; the oldest leave when the session is full, asked for or not."""
        self._check_item(item, adding)
        command = self._adding(item)
        written, session_id = await self._write(command), command.message.session_id
        return self._receipt(command.message.memory_id, "add", written, whose=session_id)

    def _adding(self, item: Item) -> short_term.AddMessage:
        new = self._new(item.memory_id, item.occurred_at)
        return short_term.AddMessage(
            now_us=new.now_us,
            own_ids=new.own_ids,
            message=short_term.MessageAdded(
                memory_id=new.memory_id,
                session_id=self._session(item.session_id),
                size_bytes=validation.content_bytes(item.content),
                content=validation.plain(item.content),
                occurred_at_us=new.occurred_at_us,
                metadata=validation.own_metadata(item.metadata),
                role=validation.check_optional_name(item.role, "role"),
            ),
        )

    def _session(self, session_id: str | None) -> str:
        if session_id is not None:
            return validation.check_name(session_id, "session_id")
        return self._scope.on.session_id or DEFAULT_SESSION

    def _whose(self, row: short_term.MessageRow) -> str | None:
        return row.session_id
