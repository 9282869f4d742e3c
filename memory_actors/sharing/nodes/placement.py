"""Users are placed by claims: the node that claimed a user has them, while it renews its lease."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from eventlog import EventLogError, EventStore, LeaseLapsed, Leases, LeasingStore, require
from memory_actors.base.errors import MovedError


class LeasedPlacement:
    """A `Placement` by the leases of a store."""

    def __init__(self, leases: Leases):
        self.leases = leases

    async def claim(self, key: str) -> int:
        """Claim a user, and return the epoch.

        :raises MovedError: another node has them, or this one has no lease now.
        """
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
        return self.leases.seconds_left() > 0


@asynccontextmanager
async def leased(
    log: EventStore, address: bytes, began: Callable[[LeasedPlacement], object]
) -> AsyncIterator[LeasedPlacement]:
    """Hold a lease in a store for a node that others reach at an address; hand the placement on.

    :raises MissingCapability: it is no store that several processes may share.
    """
    async with require(log, LeasingStore).leases(address) as leases:
        placement = LeasedPlacement(leases)
        began(placement)
        yield placement
