"""The port of placement: whether an actor may be live in this process, and for how long.

A process that has a store for itself has every actor (`EVERYWHERE_HERE`). If several processes
share a store, each claims the actors that it makes live: sharing/nodes/placement.py.
"""

from typing import Final, Protocol


class Placement(Protocol):
    """Claims actors for this process. Safety rests on the epoch of a claim: it fences appends."""

    async def claim(self, key: str) -> int | None:
        """Return the epoch under which an actor writes; None: that which its stream has.

        :raises MovedError: another process has it, or this one may claim nothing now.
        """

    async def leave(self, key: str, epoch: int | None) -> None:
        """Give up a claim; others may have the actor now."""

    def is_vouched(self) -> bool:
        """Say whether what is live here may be answered from: others cannot have taken it over."""


class _Here:
    async def claim(self, key: str) -> int | None:  # noqa: ARG002 - every actor is here
        return None

    async def leave(self, key: str, epoch: int | None) -> None:
        pass

    def is_vouched(self) -> bool:
        return True


EVERYWHERE_HERE: Final[Placement] = _Here()
