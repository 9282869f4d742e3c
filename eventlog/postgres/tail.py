"""The end of the log as this node knows it: who waits for it, and how it hears of other nodes.

A node that has appended tells it on a channel, after the commit and in a transaction of its own:
inside, it would have all commits wait for each other. Many appends may be told of at once. Since a
notification can be lost with its connection, every node also looks each second.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from eventlog.core.errors import EventLogError
from eventlog.core.waiting import LogEnd
from eventlog.postgres.database import (
    POLL_S,
    RETRY_S,
    Busy,
    Database,
    Lost,
    Row,
    cancel_all,
    listening,
)

TELL_S = 0.01  # at least this long between two notifications of one node

TAIL = "SELECT position, revision, names, totals FROM log_tail ORDER BY era DESC LIMIT 1"
TELL = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"


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
