"""Moving a shard from one store to another, while its users go on.

    1. arriving    the new place takes the shard in, where nobody can claim it
    2.             its streams are copied, and what has changed meanwhile is copied again
    3. left        the old place refuses every claim and write of it, in one commit; then each node
                   there that lives says that it has forgotten whoever was live in it
    4.             the rest is copied; all of it is compared
    5. here        the new place admits it: from here on it is claimed there
    6. cleared     the old place takes it out of its totals, and deletes what it has of it

A shard is `here` in one store at most, so it can be claimed in one at most. Each step is a commit
that may be repeated: a move that was killed goes on when it is run again.

Positions are the store's: events get new ones where they arrive, behind all that were there. What
the old place keeps of each event is what an erasure leaves, so that its positions have no gaps and
published heads still hold; should the shard come back, those events are filled in again.

How streams are copied is in shard_copy.py.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import msgspec

from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, DiskFull, LogUnavailable
from eventlog.core.requests import system_clock_us
from eventlog.postgres.database import (
    CONNECT_S,
    Busy,
    Bytes,
    Connection,
    Database,
    DatabasePlace,
    Ints,
    Lost,
    connect,
    patiently,
    run,
)
from eventlog.postgres.shard_copy import COPIED, STREAMS_AT_ONCE, Counted, ShardCopy

ROUNDS_MAX = 5  # while users go on: what is left then is copied while they wait
NODES_S = 30.0  # how long nodes may take to forget whoever has left
LOOK_S = 0.02

LOCK = "SELECT pg_try_advisory_lock(hashtextextended('shard ' || current_schema(), %b))"
UNLOCK = "SELECT pg_advisory_unlock(hashtextextended('shard ' || current_schema(), %b))"
STATE = "SELECT state, other, names, totals FROM shard WHERE shard = %b"
ARRIVE = """
    INSERT INTO shard (shard, state, other) VALUES (%b, 'arriving', %s) ON CONFLICT DO NOTHING
"""
LEAVE = "CALL leave_shard(%b, %s, NULL)"
KEEP_TOTALS = "UPDATE shard SET names = %b, totals = %b WHERE shard = %b AND state = 'left'"
ADMIT = "CALL admit_shard(%b, %b, %b)"
CLEAR = "CALL count_shard(%b, 'left', 'cleared', -1, %b, %b)"
DROP = "CALL drop_foreign(%b, %b, %b, %b)"
END = "DELETE FROM shard WHERE shard = %b AND state = 'cleared'"
BEHIND = """
    SELECT count(*) FROM node
    WHERE address IS NOT NULL AND expires_at > clock_timestamp() AND {said} < %b
"""
STREAMS = "SELECT sid, version FROM stream WHERE shard = %b"
ARRIVED = """
    SELECT a.sid, coalesce(s.version, 0) FROM arriving AS a LEFT JOIN stream AS s USING (sid)
    WHERE a.shard = %b
"""
GIVE_UP = """
    WITH gone AS (
        DELETE FROM shard WHERE shard = %b AND state = 'arriving' AND other = %s RETURNING shard
    )
    DELETE FROM arriving AS a USING gone WHERE a.shard = gone.shard
"""
AGAIN = "UPDATE arriving SET mark = '' WHERE shard = %b"
COUNTS = """
    WITH h AS (SELECT sid, erased_version FROM {streams} WHERE shard = %b)
    SELECT (SELECT count(*) FROM event JOIN h USING (sid)),
        (SELECT count(*) FROM event_archive AS a JOIN h USING (sid)
            WHERE a.version > h.erased_version),
        (SELECT count(*) FROM event_key AS k JOIN h USING (sid) WHERE k.version > h.erased_version),
        (SELECT count(*) FROM request AS r JOIN h USING (sid)
            WHERE r.last_version > h.erased_version),
        (SELECT count(*) FROM snapshot AS n JOIN h USING (sid) WHERE n.version > h.erased_version),
        (SELECT count(*) FROM derived JOIN h USING (sid))
"""


class ShardPlace(NamedTuple):
    """A store that shards may be in."""

    store: str
    """Its id."""
    place: DatabasePlace


class ShardMoved(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that has moved."""

    shard: int
    streams: int
    events: int
    waited_s: float
    """The time for which nobody could use it; 0 if an earlier run had come so far."""


class ShardMove:
    """The move of one shard."""

    def __init__(
        self,
        shard: int,
        old: ShardPlace,
        new: ShardPlace,
        databases: tuple[Database, Database],
        counted: Counted,
        progress: Progress,
    ):
        self._shard = shard
        self._old_id, self._new_id = old.store, new.store
        self._old, self._new = databases
        self._copy = ShardCopy(shard, databases, counted, progress)
        self._has_left = False
        """As far as is known: nobody can use it until it is here at the new place."""

    async def run(self) -> ShardMoved:
        """Move it, or go on with that.

        :raises LogUnavailable: it is not there, or on its way to another store; a database or a
            node is away for too long.
        :raises CorruptLog: what has arrived is not what is at the old place.
        """
        waited_s = 0.0
        if await self._begun():
            try:
                waited_s = await self._handed_over()
            except (LogUnavailable, CorruptLog, DiskFull) as error:
                if not self._has_left:
                    raise
                raise type(error)(
                    f"{error}. Shard {self._shard} has left its place and has not arrived: its "
                    "users wait until the move is run again"
                ) from error
        streams = await self._cleared()
        return ShardMoved(
            shard=self._shard, streams=streams, events=self._copy.events, waited_s=waited_s
        )

    async def give_up(self) -> None:
        """Delete what has arrived at the new place, if it arrives from the old one.

        For a shard that has gone elsewhere since: neither place of this move has it.
        """
        if await self._state(self._new) != ("arriving", self._old_id):
            return
        state = await self._state(self._old)
        if state is not None and state[0] in ("here", "left"):
            return
        for sid, until in await self._new.run(ARRIVED, [self._shard]):
            await self._new.run(DROP, [sid, self._shard, until, system_clock_us()])
        await self._new.run(GIVE_UP, [self._shard, self._old_id])

    async def _handed_over(self) -> float:
        """Copy it and hand it over; return how long nobody could use it."""
        for _ in range(ROUNDS_MAX):
            if await self._copy.changed() <= STREAMS_AT_ONCE:
                break
        began_s, had_left, self._has_left = time.monotonic(), self._has_left, True
        [[version]] = await self._old.run(LEAVE, [self._shard, self._new_id])
        if version is None:
            self._has_left = had_left
            raise LogUnavailable(f"shard {self._shard} has left its place: move it again")
        await self._until_nodes_said("shards", version)
        while await self._copy.changed():
            pass
        await self._admit()
        return time.monotonic() - began_s

    async def _begun(self) -> bool:
        """Have the new place take it in; return whether it is still to be copied."""
        old, new = await self._state(self._old), await self._state(self._new)
        if new is not None and new[0] == "here":
            return False
        if old is None or old[0] not in ("here", "left"):
            raise LogUnavailable(f"shard {self._shard} is not in the place it is to leave")
        if old[0] == "left" and old[1] != self._new_id:
            raise LogUnavailable(
                f"shard {self._shard} is on its way to another database: finish that first"
            )
        self._has_left = old[0] == "left"
        await self._new.run(ARRIVE, [self._shard, self._old_id])
        new = await self._state(self._new)
        if new != ("arriving", self._old_id):
            raise LogUnavailable(
                f"shard {self._shard} has not left that database, or arrives there from another "
                "one: run the move of before again"
            )
        return True

    async def _state(self, database: Database) -> tuple[str, str | None] | None:
        rows = await database.run(STATE, [self._shard])
        return (rows[0][0], rows[0][1]) if rows else None

    async def _until_nodes_said(self, said: str, version: int) -> None:
        """Wait until every node that lives has forgotten who has left; its lease may end instead.

        :raises LogUnavailable: one lives and does not say so.
        """
        until_s = time.monotonic() + NODES_S
        while True:
            [[behind]] = await self._old.run(BEHIND.format(said=said), [version])
            if not behind:
                return
            if time.monotonic() > until_s:
                raise LogUnavailable(f"{behind} nodes do not let go of users who have left")
            await asyncio.sleep(LOOK_S)

    # --- handing over

    async def _admit(self) -> None:
        """Have the new place admit it, once all of it is there.

        :raises CorruptLog: it is not.
        """
        mine = await self._old.run(COUNTS.format(streams="stream"), [self._shard])
        there = await self._new.run(COUNTS.format(streams="arriving"), [self._shard])
        if mine != there:
            await self._new.run(AGAIN, [self._shard])
            raise CorruptLog(
                f"of shard {self._shard} there are rows {there[0]} where the old place has "
                f"{mine[0]}: verify that, and move it again"
            )
        sums: dict[bytes, int] = {}
        for _, _, names, totals in await self._new.run(COPIED, [self._shard]):
            for name, total in zip(names, totals, strict=True):
                sums[name] = sums.get(name, 0) + total
        names, totals = Bytes(sums), Ints(sums.values())
        await self._old.run(KEEP_TOTALS, [names, totals, self._shard])
        await self._new.run(ADMIT, [self._shard, names, totals])

    async def _cleared(self) -> int:
        """Have the old place forget it; return how many streams it had."""
        rows = await self._old.run(STATE, [self._shard])
        streams = await self._old.run(STREAMS, [self._shard])
        if not rows or rows[0][0] not in ("left", "cleared"):
            return len(streams)
        _, _, names, totals = rows[0]
        await self._old.run(CLEAR, [self._shard, Bytes(names), Ints(totals)])
        [[version]] = await self._old.run("SELECT shards FROM store")
        await self._until_nodes_said("cleared", version)
        for sid, until in streams:
            await self._old.run(DROP, [sid, self._shard, until, system_clock_us()])
        await self._old.run(END, [self._shard])
        return len(streams)


class ShardMoves:
    """Moves shards from one store to another, several at once. Make one with `moving`."""

    def __init__(
        self,
        places: tuple[ShardPlace, ShardPlace],
        databases: tuple[Database, Database],
        locks: Connection,
        counted: Counted,
    ):
        self._places = places
        self._databases = databases
        self._locks = locks
        self._counted = counted
        self._turn = asyncio.Lock()

    async def move(self, shard: int, progress: Progress) -> ShardMoved:
        """Move a shard, or go on with that. See `ShardMove.run`.

        :raises LogUnavailable: somebody else moves it.
        """
        async with self._turn_of(shard):
            return await self._move(shard, progress).run()

    async def give_up(self, shard: int) -> None:
        """Delete what a move has left at the new place. See `ShardMove.give_up`.

        :raises LogUnavailable: somebody moves it.
        """
        async with self._turn_of(shard):
            await self._move(shard, lambda *_: None).give_up()

    def _move(self, shard: int, progress: Progress) -> ShardMove:
        return ShardMove(shard, *self._places, self._databases, self._counted, progress)

    @asynccontextmanager
    async def _turn_of(self, shard: int) -> AsyncIterator[None]:
        if not await self._locked(LOCK, shard):
            raise LogUnavailable(f"shard {shard} is being moved by another process: wait for it")
        try:
            yield
        finally:
            await self._locked(UNLOCK, shard)

    async def _locked(self, query: str, shard: int) -> bool:
        try:
            async with self._turn:
                [[is_done]] = await run(self._locks, query, [shard])
        except (Lost, Busy) as error:
            raise LogUnavailable(
                f"the database cannot be reached: {error}: run the move again, it goes on"
            ) from error
        return bool(is_done)


@asynccontextmanager
async def moving(old: ShardPlace, new: ShardPlace, counted: Counted) -> AsyncIterator[ShardMoves]:
    """Hold what moves shards from one store to another, each by itself.

    :raises LogUnavailable: a database cannot be reached.
    """
    async with AsyncExitStack() as held:
        locks = await patiently(lambda: connect(old.place), CONNECT_S)
        held.push_async_callback(locks.close)
        databases = Database(old.place), Database(new.place)
        for one in databases:
            await held.enter_async_context(one.opened())
        yield ShardMoves((old, new), databases, locks, counted)
