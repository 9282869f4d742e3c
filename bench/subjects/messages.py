"""Short-term memory: one full session among many, or many full ones."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

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


class Sessions(Messages):
    """Full sessions, as many as it takes."""

    name = "short_term, many sessions"

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._given = 0

    @property
    def full(self) -> int:
        """All messages of all sessions."""
        return self.limits.short_term_messages * self.limits.short_term_sessions

    async def prepare(self) -> None:
        """Nothing: all its sessions count."""

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Say something in the session that is not full."""
        del auto_prune
        number = self._given // self.limits.short_term_messages
        self._given += 1
        return self._say(f"session {number}")

    async def undo(self, receipt: Receipt) -> None:
        """Undo an add, and free its place."""
        await super().undo(receipt)
        self._given -= 1
