"""The calls of a node, and the end of the log as this node knows it.

One call is under way at a time, and whatever becomes of connections, each has one outcome. Each
batch of a node has a number, which commits with it. If a connection is lost, the node reconnects as
a new incarnation, after which no call of the old one can land; the number says whether the batch is
there. Only if the database cannot be reached in time is the outcome unknown.

Appends are told on a channel after the commit: inside, it would have all commits wait for each
other. Since a notification can be lost, every node also looks each second.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from eventlog.core.errors import EventLogError, LogUnavailable, StorageFailed
from eventlog.core.logs import get_logger
from eventlog.core.waiting import LogEnd
from eventlog.postgres.arrays import TYPES, BatchRows
from eventlog.postgres.database import (
    PATIENCE_S,
    POLL_S,
    RETRY_S,
    Busy,
    Connection,
    Database,
    DatabasePlace,
    Lost,
    Row,
    away,
    cancel_all,
    connect,
    listening,
    patiently,
    reaching,
    run,
)

NODE_DAYS_MAX = 1  # a node that has said nothing for so long is forgotten
ROW_BATCHES_MAX = 512  # of one row of a node: then it begins another one
ROW_S_MAX = 12 * 3600.0  # the same: long before it may be forgotten
NODE_ID_BYTES = 16
_ROW_BYTES = 4  # of the id of a row of a node, behind that of the node
TELL_S = 0.01  # at least this long between two notifications of one node

APPEND = f"""
    CALL append_batch(%b, %b, %b, {"%b, " * len(TYPES)} NULL, NULL, NULL, NULL, NULL, NULL)
"""
JOIN = """
    WITH gone AS (DELETE FROM node WHERE id = %b)
    INSERT INTO node (id, incarnation, seq, position, refused, seen_at)
    VALUES (%b, 1, 0, 0, '{}', now())
    ON CONFLICT (id) DO UPDATE SET incarnation = node.incarnation + 1, seen_at = now()
    RETURNING incarnation, seq, position, refused,
        %s::text[]::regtype[]::oid[]::bigint[]
"""
TAIL = "SELECT position, revision, names, totals FROM log_tail ORDER BY era DESC LIMIT 1"
TELL = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"
LEAVE = "DELETE FROM node WHERE id IN (%b, %b) OR seen_at < now() - make_interval(days => %s)"

_logger = get_logger("eventlog")


class LogTail(LogEnd):
    """Position and totals of the log, and callers who wait for a position."""

    def __init__(self, database: Database, node: bytes):
        super().__init__()
        self.totals: dict[str, int] = {}
        self._revision = -1
        self._is_counting = False
        self._database = database
        self._node = node.hex()
        self._untold = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Look where the log ends, and go on looking."""
        await self.look()
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._tell())]

    async def end(self) -> None:
        """End every wait, and look no more."""
        self.close()
        self._untold.set()
        await cancel_all(self._tasks)

    def appended(self, position: int) -> None:
        """Take note of a commit of this node, and tell the others."""
        if position > self.position:
            self.advance(position)
            self._untold.set()

    def count(self, revision: int, names: list[bytes], totals: list[int]) -> None:
        """Take note of the totals, unless later ones are known."""
        if revision > self._revision:
            self._revision = revision
            self.totals = _named(names, totals)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Let the totals tell of nothing that a batch of this node counts until it has an answer.

        A caller with a reservation for the batch gets the result in the same step, to avoid
        counting it twice.
        """
        self._is_counting = True
        try:
            yield
        finally:
            self._is_counting = False

    async def read_totals(self) -> dict[str, int]:
        """Return the totals as the database has them."""
        _, _, names, totals = await self._ask()
        return _named(names, totals)

    async def look(self) -> None:
        """Ask the database for the totals, and where the log ends."""
        position, *totals = await self._ask()
        if not self._is_counting:
            self.count(*totals)
        self.advance(position)

    async def look_again(self) -> None:
        """Read the totals of a batch that has landed without an answer."""
        _, *totals = await self._ask()
        self.count(*totals)

    async def _ask(self) -> Row:
        [row] = await self._database.run(TAIL)
        return row

    async def _listen(self) -> None:
        while not self._is_closed:
            with suppress(EventLogError, Lost, Busy):
                async with listening(self._database.place) as heard:
                    while not self._is_closed:
                        await self.look()
                        while await heard(POLL_S) == self._node:
                            pass  # what this node says itself it knows
                        await asyncio.sleep(TELL_S)
            with suppress(EventLogError):
                await self.look()  # nobody listens, as long as there is no connection for that
            await asyncio.sleep(RETRY_S)

    async def _tell(self) -> None:
        while not self._is_closed:
            await self._untold.wait()
            self._untold.clear()
            with suppress(EventLogError):
                channel = self._database.place.channel
                await self._database.run(TELL, [channel, self._node])
            await asyncio.sleep(TELL_S)


def _named(names: list[bytes], totals: list[int]) -> dict[str, int]:
    return {name.decode(): total for name, total in zip(names, totals, strict=True)}


class LandedBatch(NamedTuple):
    """The place where a batch began, and the numbers of its streams that were refused."""

    position: int
    refused: Sequence[int]


class OverTotals(Exception):
    """A total might leave its range, or pass its cap: the batch did nothing."""

    def __init__(self, totals: dict[str, int]):
        super().__init__()
        self.totals = totals


class BatchConnection:
    """The connection of a node for its batches, and for what may be called twice."""

    def __init__(
        self,
        place: DatabasePlace,
        node: bytes,
        tail: LogTail,
        when_batches_are_lost: Callable[[], None],
    ):
        self._place = place
        self._node = node
        self._tail = tail
        self._when_batches_are_lost = when_batches_are_lost
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._row = self._former_row = b""
        self._row_begun_s = float("-inf")
        self._incarnation = self._seq = 0
        self._types: list[int] = []
        self._begin_row_if_due()

    async def open(self, connection: Connection) -> None:
        """Join the nodes of the store. See `PgWriter.open`."""
        with reaching("try again"):
            await self._join_on(connection)

    async def close(self) -> None:
        """Leave the nodes of the store."""
        if self._connection is None:
            return
        try:
            await run(self._connection, LEAVE, [self._row, self._node, NODE_DAYS_MAX])
        except (Lost, Busy, EventLogError):
            _logger.info("a node's row was left behind, and will be forgotten")
        await self._connection.close()

    async def why_away(self) -> LogUnavailable | None:
        """Try once to have a connection; return what callers are told if the database is away."""
        try:
            await self._connected()
        except (Lost, Busy) as error:
            return away(error)
        except Exception:  # waiting does not help: the next call finds it again, and raises it
            return None
        return None

    async def run(self, query: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement that may be carried out twice, and return its rows.

        :raises LogUnavailable: the database cannot be reached.
        """
        return await patiently(lambda: self._once(query, values), PATIENCE_S)

    async def append(self, rows: BatchRows) -> LandedBatch:
        """Append a batch, behind the one before it, and return where it began.

        :raises OverTotals: it did nothing.
        :raises LogUnavailable: the same.
        :raises StorageFailed: nobody knows whether it landed.
        """
        self._begin_row_if_due()
        deadline = self._loop.time() + PATIENCE_S
        while True:
            connection = await patiently(self._connected, PATIENCE_S)
            seq = self._seq + 1
            try:
                landed = await self._send(connection, seq, rows)
            except Busy:
                landed = None
            except Lost:
                landed = await self._recover(seq)
            if landed is not None:
                self._seq = seq
                return landed
            if self._loop.time() > deadline:
                raise LogUnavailable("the database did not take a batch in time: nothing was kept")

    async def _once(self, query: str, values: Sequence[object]) -> list[Row]:
        return await run(await self._connected(), query, values)

    def _begin_row_if_due(self) -> None:
        """Give this node another row for its next batches; none may be on its way.

        Each batch leaves a version of the row behind, and looks for the newest: through all there
        are since the oldest snapshot that is open in the database, as that of a dump.
        """
        now_s = self._loop.time()
        if self._seq >= ROW_BATCHES_MAX or now_s - self._row_begun_s > ROW_S_MAX:
            self._former_row, self._row = self._row, self._node + os.urandom(_ROW_BYTES)
            self._row_begun_s = now_s
            self._incarnation = self._seq = 0

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            await self._join()
        elif not self._incarnation:
            await self._join_on(self._connection)
        assert self._connection is not None
        return self._connection

    async def _join(self) -> LandedBatch:
        """Connect as a new incarnation of the node; return its last batch that was committed."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
        connection = await connect(self._place, calls=True)
        try:
            return await self._join_on(connection)
        except BaseException:
            await connection.close()
            raise

    async def _join_on(self, connection: Connection) -> LandedBatch:
        [(incarnation, seq, position, refused, types)] = await run(
            connection, JOIN, [self._former_row, self._row, list(TYPES)]
        )
        if seq < self._seq:
            _logger.error(
                "the database has lost batches that it had committed", lost=self._seq - seq
            )
            self._when_batches_are_lost()
        self._connection, self._incarnation, self._seq = connection, incarnation, seq
        self._types = types
        return LandedBatch(position, refused)

    async def _recover(self, seq: int) -> LandedBatch | None:
        """Return where a batch began whose connection was lost; or None if it did not land."""
        try:
            last = await patiently(self._join, PATIENCE_S)
        except LogUnavailable as error:
            raise StorageFailed(
                "the connection to the database was lost, and the outcome is unknown: read the "
                "stream before trying again"
            ) from error
        if self._seq != seq:
            return None
        with suppress(EventLogError):  # it has landed all the same; the totals follow in a second
            await self._tail.look_again()
        return last

    async def _send(self, connection: Connection, seq: int, rows: BatchRows) -> LandedBatch | None:
        """Call the procedure once; return None if it did nothing."""
        call = [self._row, self._incarnation, seq, *rows.arrays(self._types)]
        [(state, position, refused, names, totals, revision)] = await run(connection, APPEND, call)
        if state == "superseded":
            raise Lost(state)
        self._tail.count(revision, names, totals)
        if state == "totals":
            raise OverTotals(_named(names, totals))
        return LandedBatch(position, refused)
