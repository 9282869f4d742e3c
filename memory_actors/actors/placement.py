"""The port of placement: whether an actor may be live in this process, and for how long.

Processes that share a store claim the actors that they make live: sharing/nodes/placement.py.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar


class Placement:
    """Claims actors for this process; by itself, which has every actor, any that is asked for.

    Safety rests on the epoch of a claim: it fences appends.
    """

    async def claim(self, key: str) -> int | None:  # noqa: ARG002 - every actor is here
        """Return the epoch under which an actor writes; None: that which its stream has.

        :raises MovedError: another process has it, or this one may claim nothing now.
        """
        return None

    async def leave(self, key: str, epoch: int | None) -> None:
        """Give up a claim; others may have the actor now."""

    def is_vouched(self) -> bool:
        """Say whether what is live here may be answered from: others cannot have taken it over."""
        return True


EVERYWHERE_HERE: Final = Placement()


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
    waiting: int = 0
    """The number of calls that wait for the activation. Later calls queue behind them."""
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
