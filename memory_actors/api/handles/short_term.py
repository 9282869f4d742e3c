"""`user.short_term`: the last messages of a session."""

import msgspec

from memory_actors.base.records import Item, Memory, Metadata, Receipt, Time
from memory_actors.base.validation import check_count
from memory_actors.kinds import short_term
from memory_actors.search.reading import Found, memories
from memory_actors.users.writers.scope import Scope
from memory_actors.users.writers.short_term import ShortTermWriter


class ShortTermMemory:
    """Messages by session, at most 100 and 1 MB each by default, first in, first out.

    A session expires an hour after its last message, by default again. Without a session id of its
    own or of the handle, a message goes to the session "default".
    """

    def __init__(self, scope: Scope, writer: ShortTermWriter):
        self._scope = scope
        self._writer = writer

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
        return await self._writer.add(
            Item(
                content=content,
                role=role,
                session_id=session_id,
                metadata=metadata,
                occurred_at=occurred_at,
                memory_id=memory_id,
            )
        )

    async def messages(
        self, session_id: str | None = None, *, last: int | None = None
    ) -> list[Memory]:
        """Return a session's messages, oldest first; only the `last` so many, if given.

        `ttl_s` of each says how many seconds it has left.
        """
        with self._scope.measured("Messages", short_term.NAME):
            now_us = self._scope.now_us()
            async with self._scope.live() as live:
                state = short_term.at(live.state.short_term, now_us)
                origins = live.state.provenance
            session = state.session(self._writer.session(session_id))
            first = 0 if last is None else max(0, len(session.rows) - check_count(last, "last"))
            found = [Found(short_term, row) for row in session.rows[first:]]
            read = await memories(self._scope.services.log, self._scope.stream, found, origins)
            left_s = (session.expires_at_us - now_us) / 1e6
            return [msgspec.structs.replace(message, ttl_s=left_s) for message in read]
