"""The actors of a runtime, as it keeps them: what it needs of one, and the place that one has."""

import asyncio
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Live(Protocol):
    """The part of an actor that the runtime needs."""

    @property
    def busy(self) -> bool:
        """True if it has work in flight."""

    @property
    def size_bytes(self) -> int:
        """Memory it holds, roughly."""

    async def passivate(self) -> None:
        """Finish, and keep what makes the next activation quick."""

    async def discard(self) -> None:
        """Finish, and keep nothing."""


L = TypeVar("L", bound=Live)


@dataclass(slots=True, eq=False)
class Slot(Generic[L]):
    """The place of an actor that is live, is about to be, or is leaving."""

    activation: "asyncio.Task[L]"
    epoch: int | None = None
    users: int = 0
    moved: asyncio.Event | None = None
    """There once another process may have it; set when nobody holds it any more."""
    last_used_s: float = 0.0
    size_bytes: int = 0
    leaving: "asyncio.Task[None] | None" = None

    def is_live(self) -> bool:
        """Say whether the activation has succeeded."""
        done = self.activation
        return done.done() and not done.cancelled() and done.exception() is None

    def lives(self) -> list[L]:
        """Return the actor, none if there is none yet."""
        return [self.activation.result()] if self.is_live() else []
