"""The event store in PostgreSQL: one log for many processes on many machines.

The way of an append: encode on the loop (core/requests.py), wait with others (writer.py), be
planned by the rules of the log (plan.py), go to the database as one call (schema.sql). `relaxed`
appends are no faster: what another node may read must not vanish again.

docs/internals/postgres.md has the tables and the guarantees.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import ClassVar, Self

from eventlog.core import frame, records, requests
from eventlog.core.capabilities import Leases, Progress
from eventlog.core.codec import EventRegistry
from eventlog.core.errors import Fenced
from eventlog.core.keys import NO_KEYS, Keys
from eventlog.core.rows import blind_digest, blind_id
from eventlog.core.rules import cipher_to_read, matching_keys
from eventlog.core.waiting import to_the_end
from eventlog.postgres import reading
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.calls import NODE_ID_BYTES, LogTail
from eventlog.postgres.database import (
    CONNECT_S,
    Connection,
    Database,
    DatabasePlace,
    Row,
    connect,
    patiently,
)
from eventlog.postgres.erasing import PgErasing
from eventlog.postgres.leases import LEASE_S, PgLeases
from eventlog.postgres.plan import KnownRequest
from eventlog.postgres.tables import prepare
from eventlog.postgres.writer import REQUESTS, PgWriter

NAMES = "SELECT name FROM stream WHERE name IS NOT NULL"
VERSIONS_ABOUT = """
    SELECT k.version FROM event_key AS k JOIN stream AS s USING (sid)
    WHERE k.sid = %b AND k.key = %b AND k.version > s.erased_version ORDER BY k.version
"""
ACQUIRE = "CALL acquire_stream(%b, %b, %b, %b, NULL)"
SIZE = """
    SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
    WHERE relkind = 'r'
        AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
"""


class PgEventStore(PgErasing, requests.TakesAppends):
    """An `EventStore` in a PostgreSQL database. Open it with `PgEventStore.open`."""

    INSTEAD: ClassVar = {
        "BackupStore": "replicate the database, or copy it with `pg_dump`, or as its provider does",
        "ShrinkingStore": "autovacuum gives the space of the database back",
    }

    def __init__(
        self,
        registry: EventRegistry,
        clock: Callable[[], int],
        database: Database,
        keys: Keys | None,
    ):
        super().__init__(registry, clock)
        node = os.urandom(NODE_ID_BYTES)
        self._database = database
        self._node = node
        self._keys = keys
        self._reading = reading.RowReading(registry, keys)
        self._tail = LogTail(database, node)
        self._writer = PgWriter(database.place, node, self._tail, keys)
        self._used_bytes = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        registry: EventRegistry,
        *,
        schema: str | None = None,
        clock: Callable[[], int] = requests.system_clock_us,
        keys: Keys | None = None,
    ) -> AsyncIterator[Self]:
        """Open the store in a database, made if missing, and close it at the end of the block.

        `url` is a `postgresql://` URL as libpq takes it; its `?schema=` or `schema` names the
        schema in it, `eventlog` if neither does. Any number of processes may have it open.

        :raises LogUnavailable: the database cannot be reached or used, or is older than 16.
        :raises UnknownEvent: a later version made the store.
        :raises EncryptionMismatch: it is encrypted and there are no `keys`, or the reverse.
        :raises KeysUnavailable: these are not its keys.
        """
        clock = requests.checked_clock(clock)
        clock()
        place = DatabasePlace.parse(url, schema)
        database = Database(place)
        async with AsyncExitStack() as opened:
            connection = await patiently(lambda: connect(place, calls=True), CONNECT_S)
            opened.push_async_callback(connection.close)
            keys = await _matched(connection, place, keys)
            await opened.enter_async_context(database.opened())
            store = cls(registry, clock, database, keys)
            opened.push_async_callback(lambda: to_the_end(store._close()))
            await store._writer.open(connection)
            await store._tail.open()
            [[store._used_bytes]] = await database.run(SIZE)
            yield store

    async def _close(self) -> None:
        await self._writer.close()
        await self._tail.end()

    # --- write

    def _append(self, request: requests.AppendRequest) -> Awaitable[records.Appended]:
        return self._writer.append(request)

    async def acquire(self, stream: str, epoch: int) -> records.StreamHead:
        """Raise the stream's epoch. See `EventStore.acquire`."""
        requests.check_stream_name(stream)
        requests.check_int("epoch", epoch, 0, requests.I64_MAX)
        sid = frame.stream_id(stream)
        values = [sid, stream.encode(), epoch, frame.chain_start(sid)]
        [[current]] = await self._writer.call(ACQUIRE, values)
        self._writer.forget(sid)
        if current > epoch:
            raise Fenced(stream, epoch, current)
        return await self.head(stream)

    async def flush(self) -> None:
        """Return when everything accepted so far is durable."""
        await self._writer.flush()

    # --- read

    async def head(self, stream: str) -> records.StreamHead:
        """Return the end of a stream; version 0 if it never was."""
        requests.check_stream_name(stream)
        return (await self._believed(frame.stream_id(stream))).head()

    async def streams(self) -> list[str]:
        """Return the name of every stream."""
        return [name.decode() for [name] in await self._database.run(NAMES)]

    async def read_stream(
        self, stream: str, after: int = 0, limit: int = 512, *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return up to `limit` events of a stream behind version `after`."""
        requests.check_stream_name(stream)
        after = max(after, 0)
        until = min(after + limit, requests.I64_MAX)
        if until <= after:
            return []
        rows = await self._database.run(
            reading.READ_STREAM, [after, until, frame.stream_id(stream)]
        )
        return self._reading.stream(stream, after, limit, rows, dropped)

    async def read_all(
        self, after: int = 0, limit: int = 512, *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return up to `limit` events of the log behind position `after`."""
        after = max(after, 0)
        until = min(after + limit, requests.I64_MAX)
        if until <= after:
            return []
        rows = await self._database.run(reading.READ_ALL, [after, until])
        return list(self._reading.all(after, rows, dropped))

    async def read_event(
        self, position: int, *, dropped: records.OnDropped = "raise"
    ) -> records.AnyRecorded | None:
        """Return the event at a position, None if there is none."""
        if not 0 < position <= requests.I64_MAX:
            return None
        found = await self.read_all(position - 1, 1, dropped=dropped)
        return found[0] if found else None

    async def read_versions(
        self, stream: str, versions: Sequence[int], *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return these events of a stream, in the order asked for."""
        requests.check_stream_name(stream)
        sought = Ints({version for version in versions if 0 < version <= requests.I64_MAX})
        rows: list[Row] = []
        if sought:
            rows = await self._database.run(
                reading.READ_VERSIONS, [frame.stream_id(stream), sought]
            )
        return self._reading.versions(stream, versions, rows, dropped)

    async def chain_at(self, stream: str, version: int) -> bytes:
        """Return the chain value of an event of a stream. See `ChainedStore`."""
        requests.check_stream_name(stream)
        if not 0 < version <= requests.I64_MAX:
            return b""
        rows = await self._database.run(reading.READ_CHAIN, [frame.stream_id(stream), version])
        return frame.chain_of(rows[0][1]) if rows else b""

    async def version_at(
        self, stream: str, *, position: int | None = None, recorded_at_us: int | None = None
    ) -> int:
        """Return the version of a stream's last event by then. See `LocatingStore`."""
        requests.check_stream_name(stream)
        is_timed, sid = position is None, frame.stream_id(stream)
        until = recorded_at_us if position is None else position
        requests.check_int("time or position", until, None, None)
        assert until is not None
        until = max(-requests.I64_MAX, min(until, requests.I64_MAX))
        by = [None, until] if is_timed else [until, None]
        rows = await self._database.run(reading.LOCATE, [sid, *by, sid])
        return self._reading.located(stream, rows, until, is_timed=is_timed)

    async def versions_about(self, stream: str, key: str) -> list[int]:
        """Return the versions of a stream's events about `key`."""
        requests.check_stream_name(stream)
        requests.check_text("key", key)
        sid = frame.stream_id(stream)
        if self._keys is not None and (await self._believed(sid)).is_empty:
            return []
        values = [sid, blind_id(key, cipher_to_read(self._keys, stream))]
        return [version for [version] in await self._database.run(VERSIONS_ABOUT, values)]

    async def find_request(
        self, stream: str, idempotency_key: str, request: bytes
    ) -> records.Appended | None:
        """Return the first result of this request's idempotency key, or None if it is new."""
        requests.check_stream_name(stream)
        requests.check_text("idempotency key", idempotency_key)
        digest, sid = requests.given_digest(request), frame.stream_id(stream)
        if self._keys is not None and (await self._believed(sid)).is_empty:
            return None
        cipher = cipher_to_read(self._keys, stream)
        values = [Bytes([sid]), Bytes([blind_id(idempotency_key, cipher)])]
        for _, _, *first in await self._database.run(REQUESTS, values):
            earlier = KnownRequest(*first)
            return earlier.repeated(stream, idempotency_key, blind_digest(digest, cipher))
        return None

    async def totals(self) -> dict[str, int]:
        """Return the committed totals, read from the database."""
        return await self._tail.read_totals()

    def totals_nowait(self) -> dict[str, int]:
        """Return the committed totals, those of other nodes as they were a second ago at most."""
        return dict(self._tail.totals)

    def cap_totals(self, caps: Mapping[str, int]) -> None:
        """Refuse what would take a total above its cap. See `CappingStore`."""
        self._writer.caps = dict(caps)

    async def wait_beyond(self, position: int) -> int:
        """Wait for an event behind `position`; return that of the last one, 0 at the close."""
        return await self._tail.wait_beyond(position)

    def leases(
        self, address: bytes, *, lease_s: float = LEASE_S
    ) -> AbstractAsyncContextManager[Leases]:
        """Hold a lease for this node. See `LeasingStore`."""
        return PgLeases.held(self._database, self._writer, self._node, address, lease_s)

    def statistics(self) -> records.LogStatistics:
        """Return counters of this node, and the size of the tables when it was opened."""
        return records.LogStatistics(
            last_position=self._tail.position,
            queued_events=self._writer.room.events,
            events_appended=self._writer.counts["events"],
            batches=self._writer.counts["batches"],
            relaxed_lost=0,
            used_bytes=self._used_bytes,
        )

    async def heads(self) -> records.Heads:
        """Return where the store and its streams stand, to be published. Reads all of it."""
        return await reading.read_heads(self._database, self._clock())

    async def verify(
        self, progress: Progress | None = None, *, against: records.Heads | None = None
    ) -> records.VerifyReport:
        """Check every event and chain. See `VerifyingStore`."""
        return await reading.PgVerification(self._database, progress, against).run()


async def _matched(connection: Connection, place: DatabasePlace, keys: Keys | None) -> Keys | None:
    makes_keys = keys is not None and keys is not NO_KEYS
    identity, names = await prepare(
        connection, place, lambda: keys.attach(None) if keys is not None and makes_keys else b""
    )
    where = f"schema {place.schema!r}"
    keys = matching_keys(keys, where, encrypted=bool(identity), new=False)
    if keys is not None:
        keys.attach(identity, names)
    return keys
