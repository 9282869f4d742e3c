"""Moving a shard from one store to another, while its users go on.

    1. arriving    the new place takes the shard in, where nobody can claim it
    2.             its streams are copied, and what has changed meanwhile is copied again
    3. left        the old place refuses every claim and write of it, in one commit; then each node
                   there that lives says that it has forgotten whoever was live in it
    4.             the rest is copied
    5. here        the new place admits it: from here on it is claimed there
    6. cleared     the old place takes it out of its totals, and deletes what it has of it

A shard is `here` in one store at most, so it can be claimed in one at most. Each step is a commit
that may be repeated: a move that was killed goes on when it is run again. Until it is `here` at the
new place it may be given up as well: the new place refuses it first, then the old one has it again.

A lock of the session keeps a second mover out. But a session may end while its mover goes on: at a
restart, a failover, a dead link. So each mover writes a name of its own, which is random, into the
row of the shard at both places before it does anything, and everything that changes anything there
does so only while the row has that name. Whoever comes later thereby stops whoever was before.

Positions are the store's: events get new ones where they arrive, behind all that were there. What
the old place keeps of each event is what an erasure leaves, so that its positions have no gaps and
published heads still hold; should the shard come back, those events are filled in again.

How streams are copied is in shard_copy.py.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

import msgspec

from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, DiskFull, LogUnavailable, MoveTakenOver
from eventlog.core.requests import system_clock_us
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.database import (
    CONNECT_S,
    Busy,
    Connection,
    Database,
    DatabasePlace,
    Lost,
    connect,
    patiently,
    run,
)
from eventlog.postgres.shard_copy import STREAMS_AT_ONCE, Counted, ShardCopy
from eventlog.postgres.shard_rows import COPIED

ROUNDS_MAX = 5  # while users go on: what is left then is copied while they wait
NODES_S = 30.0  # how long nodes may take to forget whoever has left
LOOK_S = 0.02

LOCK = "SELECT pg_try_advisory_lock(hashtextextended('shard ' || current_schema(), %b))"
UNLOCK = "SELECT pg_advisory_unlock(hashtextextended('shard ' || current_schema(), %b))"
STATE = "SELECT state, other, mover, names, totals FROM shard WHERE shard = %b"
# Both name the mover of before, so that they take nothing over from a later one if they come late.
TAKE_OVER = "UPDATE shard SET mover = %b WHERE shard = %b AND mover = %b"
ARRIVE = """
    INSERT INTO shard AS h (shard, state, other, mover) VALUES (%b, 'arriving', %s, %b)
    ON CONFLICT (shard) DO UPDATE SET mover = excluded.mover
    WHERE h.state = 'arriving' AND h.other = excluded.other AND h.mover = %b
"""
LEAVE = "CALL leave_shard(%b, %b, %s, NULL)"
KEEP_TOTALS = """
    UPDATE shard SET names = %b, totals = %b
    WHERE shard = %b AND state = 'left' AND mover = %b RETURNING true
"""
ADMIT = "CALL admit_shard(%b, %b, %b, %b, %b)"
CLEAR = "CALL count_shard(%b, %b, 'left', 'cleared', -1, %b, %b)"
COME_BACK = "CALL count_shard(%b, %b, 'left', 'here', 1, '{}', '{}')"
DROP = "CALL drop_left(%b, %b, %b, %b, %b, NULL)"
END = "DELETE FROM shard WHERE shard = %b AND state = 'cleared' AND mover = %b"
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
        DELETE FROM shard WHERE shard = %b AND state = 'arriving' AND mover = %b RETURNING shard
    )
    DELETE FROM arriving AS a USING gone WHERE a.shard = gone.shard
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


class _ShardState(NamedTuple):
    """The row of the shard at one of the places."""

    state: str
    other: str | None
    mover: bytes
    names: list[bytes]
    totals: list[int]


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
        self._mover = b""
        self._has_left = False
        """True once nobody can use it until it is here at the new place, as far as is known."""

    async def run(self) -> ShardMoved:
        """Move it, or go on with that.

        :raises LogUnavailable: it is not there, or on its way to another store; a database or a
            node is away for too long.
        :raises MoveTakenOver: another mover goes on.
        :raises CorruptLog: what has arrived is not what is at the old place.
        """
        waited_s = 0.0
        if await self._begun():
            try:
                waited_s = await self._handed_over()
            except MoveTakenOver:
                raise
            except (LogUnavailable, CorruptLog, DiskFull) as error:
                if not self._has_left:
                    raise
                raise type(error)(
                    f"{error}. Shard {self._shard} has left its place and has not arrived: its "
                    "users wait until the move is run again, or the shard is moved back"
                ) from error
        streams = await self._cleared()
        return ShardMoved(
            shard=self._shard, streams=streams, events=self._copy.events, waited_s=waited_s
        )

    async def give_up(self) -> None:
        """Have the old place have it again if it had left, and delete what has arrived.

        Nothing is done if it does not arrive at the new place from the old one. First that place
        knows this mover, so that no other one has it admitted there any more.

        :raises LogUnavailable: it is at the new place by now, or a database is away.
        """
        old, new = await self._state(self._old), await self._state(self._new)
        has_left = old is not None and old.state == "left"
        goes_there = old is not None and has_left and old.other == self._new_id
        arrives = new is not None and (new.state, new.other) == ("arriving", self._old_id)
        if not goes_there and (has_left or not arrives):
            return
        if not await self._taken_over(old, new):
            raise LogUnavailable(f"shard {self._shard} has arrived: move it from there")
        if goes_there:
            await self._old.run(COME_BACK, [self._shard, self._mover])
            await self._check_old("here")
        for sid, until in await self._new.run(ARRIVED, [self._shard]):
            await self._drop(self._new, sid, until)
        await self._new.run(GIVE_UP, [self._shard, self._mover])

    async def _handed_over(self) -> float:
        """Copy it and hand it over; return how long nobody could use it."""
        for _ in range(ROUNDS_MAX):
            if await self._copy.changed() <= STREAMS_AT_ONCE and not self._copy.differed:
                break
        began_s, had_left, self._has_left = time.monotonic(), self._has_left, True
        [[version]] = await self._old.run(LEAVE, [self._shard, self._mover, self._new_id])
        if version is None:
            self._has_left = had_left
            await self._check_old("here", "left")
            raise LogUnavailable(f"shard {self._shard} has left its place: move it again")
        await self._until_nodes_said("shards", version)
        await self._admit()
        return time.monotonic() - began_s

    async def _begun(self) -> bool:
        """Have the new place take it in; return whether it is still to be copied."""
        old, new = await self._state(self._old), await self._state(self._new)
        if new is None or new.state != "here":
            self._check_leaves(old)
        if not await self._taken_over(old, new):
            return False
        old = await self._state(self._old)
        self._check_leaves(old)
        self._has_left = old is not None and old.state == "left"
        return True

    def _check_leaves(self, old: _ShardState | None) -> None:
        """See that it is at the old place, or has left that for the new one."""
        if old is None or old.state not in ("here", "left"):
            raise LogUnavailable(f"shard {self._shard} is not in the place it is to leave")
        if old.state == "left" and old.other != self._new_id:
            raise LogUnavailable(
                f"shard {self._shard} is on its way to another database: finish that first"
            )

    async def _taken_over(self, old: _ShardState | None, new: _ShardState | None) -> bool:
        """Stop whoever moved it before, at both places; return whether it arrives at the new one.

        If it is there already, the new place is left alone: it may be about to go further.

        :raises LogUnavailable: it does not arrive there, and not from the old place.
        """
        self._mover = self._copy.mover = secrets.token_bytes(16)
        if old is not None:
            await self._old.run(TAKE_OVER, [self._mover, self._shard, old.mover])
            await self._check_old(old.state, "left", "cleared")
        before = b"" if new is None else new.mover
        await self._new.run(ARRIVE, [self._shard, self._old_id, self._mover, before])
        new = await self._state(self._new)
        if new is None or (new.state, new.other) != ("arriving", self._old_id):
            if new is not None and new.state == "here":
                return False
            raise LogUnavailable(
                f"shard {self._shard} has not left that database, or arrives there from another "
                "one: run the move of before again"
            )
        if new.mover != self._mover:
            raise MoveTakenOver(self._shard)
        return True

    async def _state(self, database: Database) -> _ShardState | None:
        rows = await database.run(STATE, [self._shard])
        return _ShardState(*rows[0]) if rows else None

    async def _check_old(self, *states: str) -> None:
        """See that this mover moves it from the old place, where it is in one of these states."""
        old = await self._state(self._old)
        if old is None or old.mover != self._mover or old.state not in states:
            raise MoveTakenOver(self._shard)

    async def _drop(self, database: Database, sid: bytes, until: int) -> None:
        values = [sid, self._shard, self._mover, until, system_clock_us()]
        [[is_done]] = await database.run(DROP, values)
        if not is_done:
            raise MoveTakenOver(self._shard)

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
        """Have the new place admit it, once all of it is there."""
        while True:
            await self._copy_rest()
            sums: dict[bytes, int] = {}
            for _, _, names, totals, _ in await self._new.run(COPIED, [self._shard]):
                for name, total in zip(names, totals, strict=True):
                    sums[name] = sums.get(name, 0) + total
            names, totals = Bytes(sums), Ints(sums.values())
            if not await self._old.run(KEEP_TOTALS, [names, totals, self._shard, self._mover]):
                raise MoveTakenOver(self._shard)
            values = [self._shard, self._mover, self._copy.streams, names, totals]
            await self._new.run(ADMIT, values)
            new = await self._state(self._new)
            if new is None or new.mover != self._mover:
                raise MoveTakenOver(self._shard)
            if new.state == "here":
                return
            await self._begun()  # an erasure came late; no sums of this turn may come after it

    async def _copy_rest(self) -> None:
        """Copy what has changed until it left: then nothing changes any more.

        :raises LogUnavailable: something does.
        """
        for _ in range(ROUNDS_MAX):
            if not await self._copy.changed():
                return
        raise LogUnavailable(f"shard {self._shard} changes after it has left: move it again")

    async def _cleared(self) -> int:
        """Have the old place forget it; return how many streams it had."""
        old = await self._state(self._old)
        streams = await self._old.run(STREAMS, [self._shard])
        if old is None or old.state not in ("left", "cleared"):
            return len(streams)
        await self._old.run(CLEAR, [self._shard, self._mover, Bytes(old.names), Ints(old.totals)])
        await self._check_old("cleared")
        [[version]] = await self._old.run("SELECT shards FROM store")
        await self._until_nodes_said("cleared", version)
        for sid, until in streams:
            await self._drop(self._old, sid, until)
        await self._old.run(END, [self._shard, self._mover])
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
            with suppress(LogUnavailable):  # then the session is over, and the lock with it
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
