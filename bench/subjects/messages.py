"""Short-term memory: one full session among many."""

import asyncio
from collections.abc import Awaitable, Mapping

from bench.subjects.base import WIDTH, Call, Subject
from memory_actors import Receipt


class Messages(Subject):
    """One full session, and beside it as many others as there may be, with a message each."""

    name = "short_term"
    refuses = False

    @property
    def full(self) -> int:
        """All messages of a session."""
        return self.limits.short_term_messages

    async def prepare(self) -> None:
        """Open the other sessions."""
        others = self.limits.short_term_sessions - 1
        for first in range(0, others, WIDTH):
            numbers = range(first, min(others, first + WIDTH))
            await asyncio.gather(*(self._say(f"other {number}") for number in numbers))

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Say something."""
        del auto_prune
        return self._say(None)

    def _say(self, session_id: str | None) -> Awaitable[Receipt]:
        return self.user.short_term.add_message(
            next(self.texts), role="user", session_id=session_id
        )

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        return {
            "short_term.messages": lambda: self.user.short_term.messages(),
            "short_term.messages (last 20)": lambda: self.user.short_term.messages(last=20),
            "retrieve (short_term)": lambda: self.retrieve("short_term"),
        }
