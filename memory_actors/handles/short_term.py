"""`user.short_term`: the last messages of a session."""

from datetime import datetime
from time import perf_counter

from memory_actors.handles.scope import Scope
from memory_actors.kinds import short_term
from memory_actors.reading import Found, memories
from memory_actors.records import Memory, MemoryType, Metadata, Receipt
from memory_actors.validation import (
    check_count,
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    time_us,
)

DEFAULT_SESSION = "default"


class ShortTermMemory:
    """Messages by session, at most 100 and 1 MB each by default, first in, first out.

    A session expires an hour after its last message. Without a session id of its own or of the
    handle, a message goes to the session "default".
    """

    def __init__(self, scope: Scope):
        self._scope = scope

    @property
    def ttl(self) -> int:
        """Seconds a session lives after its last message."""
        return self._scope.services.settings.limits.short_term_ttl_s

    async def add_message(
        self,
        content: str,
        *,
        role: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: datetime | str | None = None,
        memory_id: str | None = None,
    ) -> Receipt:
        """Add a message; the oldest leave when the session is full. Durable when it returns.

        :raises QuotaExceededError: it is larger than a session may be.
        :raises InvalidInputError: it is empty, or something else is not what it must be.
        """
        started_s, now_us = perf_counter(), self._scope.now_us()
        occurred_at_us = time_us(occurred_at, "occurred_at")
        command = short_term.AddMessage(
            now_us=now_us,
            memory_id=check_optional_name(memory_id, "memory_id") or self._scope.new_id(now_us),
            session_id=self._session(session_id),
            content=content,
            size_bytes=content_bytes(content),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=own_metadata(metadata),
            role=check_optional_name(role, "role"),
            own_id=memory_id is not None,
        )
        async with self._scope.live() as live:
            reply = await self._scope.ask(live, command)
        added = next((e.data for e in reply.events if e.tag == "short_term.added"), None)
        return self._receipt(
            command.memory_id,
            "add" if added else "unchanged",
            started_s,
            reply.state.short_term,
            command.session_id,
            added.evicted if added else (),
        )

    async def messages(
        self, session_id: str | None = None, *, last: int | None = None
    ) -> list[Memory]:
        """Return a session's messages, oldest first; only the `last` so many, if given."""
        async with self._scope.live() as live:
            session_id = self._session(session_id)
            rows = short_term.messages(live.state.short_term, session_id, self._scope.now_us())
        wanted = rows if last is None else rows[max(0, len(rows) - check_count(last, "last")) :]
        found = [Found(MemoryType.SHORT_TERM, row) for row in wanted]
        return await memories(self._scope.services.log, self._scope.stream, found)

    async def update(
        self, row: short_term.Row, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace a message's content, its metadata, or both."""
        command = short_term.UpdateMessage(
            now_us=self._scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=0 if content is None else content_bytes(content),
            metadata=None if metadata is None else own_metadata(metadata),
        )
        return await self._change(command, row.memory_id, "update")

    async def delete_memory(self, memory_id: str) -> Receipt:
        """Delete a message by its memory id."""
        command = short_term.DeleteMessage(now_us=self._scope.now_us(), memory_id=memory_id)
        return await self._change(command, memory_id, "delete")

    async def _change(
        self,
        command: short_term.UpdateMessage | short_term.DeleteMessage,
        memory_id: str,
        operation: str,
    ) -> Receipt:
        started_s = perf_counter()
        async with self._scope.live() as live:
            session_id = live.state.short_term.session_of.get(memory_id, DEFAULT_SESSION)
            deletes = isinstance(command, short_term.DeleteMessage)
            reply = await self._scope.ask(live, command, deletes=deletes)
        done = operation if reply.events else "unchanged"
        return self._receipt(memory_id, done, started_s, reply.state.short_term, session_id, ())

    def _session(self, session_id: str | None) -> str:
        if session_id is not None:
            return check_name(session_id, "session_id")
        return self._scope.session_id or DEFAULT_SESSION

    def _receipt(
        self,
        memory_id: str,
        operation: str,
        started_s: float,
        state: short_term.ShortTerm,
        session_id: str,
        evicted: tuple[str, ...],
    ) -> Receipt:
        session = state.sessions.get(session_id)
        limit = self._scope.services.settings.limits.short_term_messages
        return Receipt(
            memory_id=memory_id,
            operation=operation,
            memory_type=MemoryType.SHORT_TERM,
            latency_ms=(perf_counter() - started_s) * 1e3,
            quota_remaining=max(0, limit - (len(session.rows) if session else 0)),
            evicted=evicted,
        )
