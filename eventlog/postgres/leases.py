"""Leases: which node has a stream, and whether that node may still vouch for what it holds.

A node renews one row, by the clock of the database alone. A stream belongs to the node that claimed
it for as long as that row is not expired; a claim by another node raises the epoch of the stream.
Safety therefore rests on the append, which carries the epoch and is fenced, and never on a lease. A
lease only says who is asked, and when a node that cannot reach the database has to stop answering
from what it holds: after `VOUCH_SHARE` of the time, by its own monotonic clock, counted from before
the renewal was sent. Whoever takes its streams over has to wait for all of the time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from eventlog.core import frame
from eventlog.core.errors import EventLogError, LeaseLapsed
from eventlog.core.logs import get_logger
from eventlog.core.records import LiveNode, StreamClaim
from eventlog.core.requests import check_stream_name
from eventlog.postgres.database import (
    CONNECT_S,
    RETRY_S,
    Busy,
    Connection,
    Database,
    DatabasePlace,
    Lost,
    cancel_all,
    connect,
    connected,
    patiently,
    run,
)
from eventlog.postgres.writer import PgWriter

LEASE_S: Final = 2.0
VOUCH_SHARE: Final = 0.8
RENEWALS: Final = 5
"""In the time of a lease: a few of them may be lost."""

RENEW = "CALL renew_lease(%b, %b, %b, NULL)"
CLAIM = "CALL claim_stream(%b, %b, %b, NULL, NULL, NULL)"
RELEASE = "UPDATE stream SET owner = NULL WHERE owner = %b AND sid = %b AND epoch = %b"
RELEASE_ALL = "UPDATE stream SET owner = NULL WHERE owner = %b"
HOLDER = """
    SELECT n.id, n.address FROM stream AS s JOIN node AS n ON n.id = s.owner
    WHERE s.sid = %b AND n.expires_at > clock_timestamp()
"""
NODES = """
    SELECT id, address FROM node
    WHERE id <> %b AND address IS NOT NULL AND expires_at > clock_timestamp()
"""

_logger = get_logger("eventlog")


async def live_nodes(url: str) -> list[LiveNode]:
    """Return the nodes of the store at a URL whose lease has not expired; make nothing.

    :raises LogUnavailable: the database cannot be reached, or has no such store.
    """
    place = DatabasePlace.parse(url)
    async with connected(place) as connection:
        rows = await run(connection, NODES, [b""])
    return [LiveNode(node.hex(), address) for node, address in rows]


def _now_s() -> float:
    """Return a time that goes on while the machine is suspended, where there is such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class PgLeases:
    """The lease of one node, and the streams that it claims. Make one with `held`."""

    def __init__(
        self,
        database: Database,
        writer: PgWriter,
        node: bytes,
        address: bytes,
        lease_s: float,
    ):
        self.lapsed: Callable[[], object] = lambda: None
        """Called when the lease had expired before it was renewed: others may have taken over."""
        self._database = database
        self._writer = writer
        self._node = node
        self._address = address
        self._lease_s = lease_s
        self._held_until_s: float | None = None
        """The lease surely holds until then; None: it was never renewed."""
        self._is_unanswered = False
        """True if a renewal was sent, and nobody knows whether it landed."""

    @classmethod
    @asynccontextmanager
    async def held(
        cls,
        database: Database,
        writer: PgWriter,
        node: bytes,
        address: bytes,
        lease_s: float = LEASE_S,
    ) -> AsyncIterator[Self]:
        """Hold a lease for a node whose row is there, and renew it until the end of the block.

        :raises LogUnavailable: the database cannot be reached.
        """
        leases = cls(database, writer, node, address, lease_s)
        connection = await patiently(leases._begun, CONNECT_S)
        renewing = asyncio.create_task(leases._renew_forever(database.place, connection))
        try:
            yield leases
        finally:
            await cancel_all([renewing])

    # --- streams

    async def claim(self, stream: str) -> StreamClaim:
        """Claim a stream; see `Leases` in eventlog/core/capabilities.py."""
        check_stream_name(stream)
        sid = frame.stream_id(stream)
        values = [sid, self._node, frame.chain_start(sid)]
        [(epoch, holder, address)] = await self._database.run(CLAIM, values)
        if epoch is None:
            raise LeaseLapsed("the lease of this node has expired: try again when it is renewed")
        if holder is not None:
            return StreamClaim(epoch, LiveNode(holder.hex(), address))
        self._writer.forget(sid)
        return StreamClaim(epoch)

    async def release(self, stream: str, epoch: int) -> None:
        """Give a claim up: the next node that wants the stream need not wait."""
        await self._database.run(RELEASE, [self._node, frame.stream_id(stream), epoch])

    async def release_all(self) -> None:
        """Give every claim of this node up."""
        await self._database.run(RELEASE_ALL, [self._node])

    async def holder(self, stream: str) -> LiveNode | None:
        """Return the node that has a stream, None if nobody has."""
        rows = await self._database.run(HOLDER, [frame.stream_id(stream)])
        return LiveNode(rows[0][0].hex(), rows[0][1]) if rows else None

    # --- nodes

    async def nodes(self) -> list[LiveNode]:
        """Return the other nodes whose lease has not expired."""
        rows = await self._database.run(NODES, [self._node])
        return [LiveNode(node.hex(), address) for node, address in rows]

    def seconds_left(self) -> float:
        """Return for how long this node may answer from what it holds; 0 or less: it may not."""
        if self._held_until_s is None:
            return float("-inf")
        return self._held_until_s - self._lease_s * (1 - VOUCH_SHARE) - _now_s()

    # --- renewing

    async def _begun(self) -> Connection:
        connection = await connect(self._database.place)
        try:
            await self._renew(connection)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _renew(self, connection: Connection) -> None:
        """Renew the lease once.

        The database says whether it had expired. But a renewal whose answer was lost may have
        landed after that: then a lease that this node did not know to hold until now counts as
        expired.

        :raises Lost, Busy: it may not be renewed.
        """
        asked_s, was_lost, self._is_unanswered = _now_s(), self._is_unanswered, True
        values = [self._node, self._address, self._lease_s]
        try:
            async with asyncio.timeout(self._lease_s):
                [[is_held]] = await run(connection, RENEW, values)
        except TimeoutError:
            raise Lost("no answer in the time of a lease") from None
        self._is_unanswered, held_until_s = False, self._held_until_s
        is_unsure = was_lost and held_until_s is not None and _now_s() > held_until_s
        if held_until_s is not None and (not is_held or is_unsure):
            _logger.warning("the lease of this node had expired, and is renewed")
            self.lapsed()
        self._held_until_s = asked_s + self._lease_s

    async def _renew_forever(self, place: DatabasePlace, connection: Connection) -> None:
        try:
            while True:
                await asyncio.sleep(self._lease_s / RENEWALS)
                try:
                    if connection.closed:
                        connection = await connect(place)
                    await self._renew(connection)
                except (Lost, Busy, EventLogError):
                    await connection.close()
                    await asyncio.sleep(RETRY_S)
        finally:
            with suppress(Exception):
                await connection.close()
