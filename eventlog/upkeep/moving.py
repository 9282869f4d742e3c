"""Moving a log to a database: every row of its tables, translated, in the order of the tables.

Events keep their positions, versions and times, and their frames but for the CRC, which is bound to
the position here and to the version there; the chains are the same, so published heads still hold.

The source is read in chunks, each in a transaction and a thread of its own: nobody may write to it
meanwhile. Each transaction of the target puts a chunk, and how far the move has come, so a move
that is killed continues after its last commit. At the end the target is verified, against the heads
of the source. Until then its format is `MOVING`, which nobody opens.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import anyio.to_thread
import msgspec

from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.core.records import Heads, Moved, VerifyReport
from eventlog.core.rows import KEY_ID_BYTES, seal, unseal, unseal_record
from eventlog.lmdb import tables
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import load_totals
from eventlog.lmdb.opening import Files
from eventlog.lmdb.reading import refilled
from eventlog.lmdb.segment import SegmentId
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.database import (
    Busy,
    Connection,
    Database,
    DatabasePlace,
    connected,
    copy_rows,
    in_time,
    run,
)
from eventlog.postgres.plan import TIME_MIN
from eventlog.postgres.reading import PgVerification
from eventlog.postgres.tables import FORMAT, MOVING, found_format, make_tables

ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 4 << 20

EVENTS = "event (position, sid, version, frame, payload, gone_at)"
ARCHIVED = "event_archive (sid, version, payload, archived_at)"
KEYS = "event_key (sid, key, version)"
STREAMS = (
    "stream (sid, name, version, epoch, stored_bytes, chain, recorded_at, erased_version, "
    "erased_at)"
)
REQUESTS = "request (sid, key, digest, first_version, last_version)"
SNAPSHOTS = "snapshot (sid, version, fingerprint, data)"
CHECKPOINTS = "checkpoint (name, position)"
ENTRIES = "entry (name, key, value)"

LOCK = "SELECT pg_advisory_lock(hashtextextended('move ' || current_schema(), 0))"
LATER = "SET synchronous_commit = off"  # what the server loses in a crash it loses from the end
NOW = "SET synchronous_commit = on"
LOAD = "SELECT value FROM setting WHERE name = 'move'"
SAVE = """
    INSERT INTO setting (name, value) VALUES (%b, %b)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
PUT_TAIL = "UPDATE log_tail SET position = %b, revision = 1, names = %b, totals = %b"
TOTALS = "SELECT names, totals FROM log_tail"
OPEN = "UPDATE store SET format = %b"

AGAIN = "run the move again, it goes on where it was"

Row = tuple[int | bytes | None, ...]
Put = tuple[str, Row]
"""A row, and before it the table that it goes to, with its columns."""


class MoveProgress(msgspec.Struct, frozen=True):
    """The progress of a move."""

    digest: str
    """Of the source's heads: of which store it is, and at which moment."""
    table: int = 0
    after: bytes = b""
    """The key of the last row that is there of that table of the source."""
    rows: int = 0
    """The number of rows that are there of that table."""
    done: Moved | None = None


class Moving:
    """A move of a log that is open to a database."""

    def __init__(
        self,
        files: Files,
        heads: Heads,
        settings: Mapping[str, bytes],
        progress: Progress | None,
    ):
        self._files = files
        self._heads = heads
        self._settings = settings
        self._progress = progress or (lambda _done, _total: None)
        self._streams: dict[bytes, tables.StreamRecord] = {}
        self._segments: dict[SegmentId, tables.SegmentRecord] = {}
        self._tables: list[tuple[str, Callable[[Transaction, bytes, bytes], Iterator[Put]]]] = [
            ("events", self._event),
            ("keys", self._key),
            ("streams", self._stream_end),
            ("requests", self._request),
            ("snapshots", self._snapshot),
            ("checkpoints", self._checkpoint),
            ("projections", self._entry),
        ]

    async def run(self, url: str) -> Moved:
        """Move it, or go on with that. See `EventLog.move_to`."""
        place = DatabasePlace.parse(url)
        async with connected(place, AGAIN) as connection:
            return await self._moved(place, connection)

    async def _moved(self, place: DatabasePlace, connection: Connection) -> Moved:
        found = await found_format(place, connection)
        if found is None:
            await make_tables(connection, place, b"", MOVING)
        elif found not in (MOVING, FORMAT):
            raise _is_there(place)
        reached, half = await self._begun(place, connection), self._heads.position
        if reached.done is not None:
            return reached.done
        while reached.table < len(self._tables):
            rows, reached = await anyio.to_thread.run_sync(self._chunk, reached)
            await _put(connection, rows, reached)
            events = half if reached.table else reached.rows
            await anyio.to_thread.run_sync(self._progress, events, 2 * half)
        report = await self._verified(place, connection)
        done = Moved(
            events=report.events,
            streams=report.streams,
            archived_events=report.archived_events,
            dropped_events=report.dropped_events,
            erased_events=report.erased_events,
            resumed=found is not None,
        )
        await run(connection, NOW)
        with in_time(connection):
            async with connection.transaction():
                for name, value in self._settings.items():
                    await run(connection, SAVE, [name.encode(), value])
                await run(connection, OPEN, [FORMAT])
                await _put(connection, {}, msgspec.structs.replace(reached, done=done))
        return done

    async def _begun(self, place: DatabasePlace, connection: Connection) -> MoveProgress:
        """Keep others out of the schema; return how far an earlier run has come."""
        try:
            await run(connection, LOCK)
        except Busy:
            raise LogUnavailable(
                "another move into this schema is under way: wait for it"
            ) from None
        await run(connection, LATER)
        rows, digest = await run(connection, LOAD), self._heads.digest
        reached = MoveProgress(digest)
        if rows:
            reached = msgspec.json.decode(rows[0][0], type=MoveProgress)
        if await found_format(place, connection) != MOVING:
            if reached.digest != digest or reached.done is None:
                raise _is_there(place)
        elif reached.digest != digest:
            raise LogUnavailable(
                f"schema {place.schema!r} has a part of another store, or this one was written to "
                "since: drop the schema, or move to another one"
            )
        return reached

    async def _verified(self, place: DatabasePlace, connection: Connection) -> VerifyReport:
        with self._files.env.read() as txn:
            totals = load_totals(txn)
        half = self._heads.position
        values = [half, Bytes(name.encode() for name in totals), Ints(totals.values())]
        await run(connection, PUT_TAIL, values)
        database = Database(place)
        async with database.opened():
            report = await PgVerification(
                database, lambda done, _: self._progress(half + done, 2 * half), self._heads
            ).run()
            [[names, counts]] = await database.run(TOTALS)
        same = dict(zip((name.decode() for name in names), counts, strict=True)) == totals
        if report.findings or report.streams != len(self._heads.streams) or not same:
            said = [finding.message for finding in report.findings[:1]] or ["streams or totals"]
            raise CorruptLog(
                f"what was moved is not what is in the source ({said[0]}): verify the source, drop "
                "the schema, and move again"
            )
        return report

    # --- from the source

    def _chunk(self, reached: MoveProgress) -> tuple[dict[str, list[Row]], MoveProgress]:
        table, put_of = self._tables[reached.table]
        put, size = defaultdict[str, list[Row]](list), 0
        after, rows = reached.after, reached.rows
        with self._files.env.read() as txn:
            with txn.cursor(txn.tables[table]) as cursor:
                is_left = cursor.set_range(after + b"\0")
                while is_left and rows < reached.rows + ROWS_AT_ONCE and size <= BYTES_AT_ONCE:
                    after, value = cursor.item()
                    for target, row in put_of(txn, after, value):
                        put[target].append(row)
                    rows, size = rows + 1, size + len(value)
                    is_left = cursor.next()
            if not is_left and rows != txn.stat(txn.tables[table])["entries"]:
                raise CorruptLog(f"table {table!r} is not in order: verify the log")
        if is_left:
            return put, msgspec.structs.replace(reached, after=after, rows=rows)
        return put, MoveProgress(reached.digest, reached.table + 1)

    def _event(self, txn: Transaction, key: bytes, data: bytes) -> Iterator[Put]:
        (position,) = tables.U64.unpack(key)
        taken = frame.unpack(position, data)
        at, stream = (taken.stream_id, taken.version), self._stream(txn, taken.stream_id)
        archived_at_us = gone_at_us = None
        if taken.version <= stream.erased_version:  # also where the erasure is not finished yet
            gone_at_us = stream.erased_at_us if taken.gone is None else taken.gone.erased_at_us
        elif taken.gone is not None:
            raise CorruptLog(f"event {position} is erased and its stream is not: verify the log")
        elif taken.place is not None:
            segment = SegmentId(taken.stream_id, taken.place.number)
            if segment not in self._segments:
                self._segments[segment] = tables.load_segment(txn, segment)
            archived_at_us = self._segments[segment].sealed_at_us
            gone_at_us = self._segments[segment].dropped_at_us
        if gone_at_us is not None:
            yield EVENTS, (position, *at, frame.split(data)[0], None, gone_at_us)
            return
        whole = refilled(self._files.archive, position, data, taken)
        header, payload = frame.split(frame.moved(taken.version, whole))
        if archived_at_us is None:
            yield EVENTS, (position, *at, header, payload, None)
        else:
            yield EVENTS, (position, *at, header, None, None)
            yield ARCHIVED, (*at, payload, archived_at_us)

    def _stream(self, txn: Transaction, sid: bytes) -> tables.StreamRecord:
        if sid not in self._streams:
            self._streams[sid] = self._files.ledger.stream_record(txn, sid)
        return self._streams[sid]

    def _key(self, _txn: Transaction, key: bytes, check: bytes) -> Iterator[Put]:
        if check != tables.key_check(key):
            raise CorruptLog("the index of keys is damaged: verify the log")
        sid, rest = _of_stream(key)
        yield KEYS, (sid, rest[:KEY_ID_BYTES], tables.U64.unpack(rest[KEY_ID_BYTES:])[0])

    def _stream_end(self, txn: Transaction, sid: bytes, _: bytes) -> Iterator[Put]:
        one, at_us = self._stream(txn, sid), TIME_MIN
        if one.version:
            at, data = tables.event_at(txn, sid, one.version)
            if not data:
                raise CorruptLog("the last event of a stream is missing: verify the log")
            at_us = frame.unpack(tables.U64.unpack(at)[0], data).recorded_at_us
        yield STREAMS, (
            sid, one.name.encode() or None, one.version, one.epoch, one.stored_bytes, one.chain,
            at_us, one.erased_version, one.erased_at_us,
        )  # fmt: skip

    def _request(self, _txn: Transaction, key: bytes, value: bytes) -> Iterator[Put]:
        one = unseal_record(value, tables.RequestRecord, "an idempotency key")
        if one.key != key:
            raise CorruptLog("an idempotency key is damaged: verify the log")
        yield REQUESTS, (*_of_stream(key), one.digest, one.first_version, one.last_version)

    def _snapshot(self, _txn: Transaction, key: bytes, value: bytes) -> Iterator[Put]:
        sid, version = _of_stream(key)
        with suppress(CorruptLog):  # nobody would read it here either
            one = unseal_record(value, tables.SnapshotRecord, "a snapshot")
            told = one.fingerprint.encode(), seal(one.data)
            yield SNAPSHOTS, (sid, tables.U64.unpack(version)[0], *told)

    def _checkpoint(self, _txn: Transaction, name: bytes, value: bytes) -> Iterator[Put]:
        yield CHECKPOINTS, (name, unseal(value, "a checkpoint", name))

    def _entry(self, _txn: Transaction, row: bytes, value: bytes) -> Iterator[Put]:
        name, key = row[:KEY_ID_BYTES], row[KEY_ID_BYTES:]
        yield ENTRIES, (name, key, unseal(value, "an entry", row))


async def _put(
    connection: Connection, rows: Mapping[str, list[Row]], reached: MoveProgress
) -> None:
    with in_time(connection):
        async with connection.transaction():
            for target, some in rows.items():
                await copy_rows(connection, target, some)
            await run(connection, SAVE, [b"move", msgspec.json.encode(reached)])


def _is_there(place: DatabasePlace) -> LogUnavailable:
    return LogUnavailable(
        f"there is a store in schema {place.schema!r}: name another one with ?schema="
    )


def _of_stream(key: bytes) -> tuple[bytes, bytes]:
    return key[: frame.STREAM_ID_BYTES], key[frame.STREAM_ID_BYTES :]
