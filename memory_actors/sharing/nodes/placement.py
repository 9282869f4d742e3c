"""Users are placed by claims: the node that claimed a user has them, while it renews its lease."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from eventlog import EventLogError, EventStore, LeaseLapsed, Leases, LeasingStore, require
from eventlog.core.logs import get_logger
from memory_actors.actors.placement import Placement
from memory_actors.base.errors import MovedError
from memory_actors.base.privacy import reason

FORGET_AGAIN_S: Final = 1.0

_logger = get_logger("memory_actors.sharing")


class LeasedPlacement(Placement):
    """A `Placement` by the leases of a store.

    A node whose lease had expired does not know who was erased meanwhile. It therefore vouches for
    no user before it has forgotten all of them, in memory and on its disk.
    """

    def __init__(self, leases: Leases):
        self.leases = leases
        self.forget: Callable[[], Awaitable[None]]
        """Forgets every user."""
        self._forgetting: asyncio.Task[None] | None = None
        leases.lapsed = self._lapsed

    async def claim(self, key: str) -> int:
        """Claim a user, and return the epoch.

        :raises MovedError: another node has them, or this one has no lease now.
        """
        if self._forgetting is not None:
            raise MovedError("the lease of this node had expired: ask again in a moment")
        try:
            claim = await self.leases.claim(key)
        except LeaseLapsed as lapsed:
            raise MovedError(str(lapsed)) from lapsed
        if claim.holder is not None:
            at = claim.holder.address.decode()
            raise MovedError("another node has this user's memory", address=at)
        return claim.epoch

    async def leave(self, key: str, epoch: int | None) -> None:
        """Give a claim up; where the database is away, the lease gives it up."""
        if epoch is not None:
            with suppress(EventLogError):
                await self.leases.release(key, epoch)

    def is_vouched(self) -> bool:
        """Say whether this node's lease holds, by its own clock."""
        return self._forgetting is None and self.leases.seconds_left() > 0

    def _lapsed(self) -> None:
        if self._forgetting is None:
            self._forgetting = asyncio.create_task(self._forget())

    async def _forget(self) -> None:
        while True:
            try:
                await self.leases.release_all()  # others need not wait until all is forgotten here
                await self.forget()
            except Exception as error:
                _logger.error(
                    "a node cannot forget its users, and answers nothing", error=reason(error)
                )
                await asyncio.sleep(FORGET_AGAIN_S)
            else:
                self._forgetting = None
                return

    async def close(self) -> None:
        """Stop what is under way."""
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.wait([self._forgetting])


@asynccontextmanager
async def leased(log: EventStore, address: bytes) -> AsyncIterator[LeasedPlacement]:
    """Hold a lease in a store for a node that others reach at an address, and place users by it.

    :raises MissingCapability: it is no store that several processes may share.
    """
    async with require(log, LeasingStore).leases(address) as leases:
        placement = LeasedPlacement(leases)
        try:
            yield placement
        finally:
            await placement.close()
