"""Copying a closed log to a database: every row of its tables, translated, table by table.

Events keep their positions, versions and times, and their frames but for the CRC, which is bound to
the position here and to the version there; the chains are the same, so published heads still hold.

All rows go in one transaction, so of a copy that is cut off nothing is left. Then the target is
verified, against the heads of the source. Until then its format is `COPYING`, which nobody opens,
and which the next copy replaces.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress

import anyio.to_thread

from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.core.records import Copied, Heads
from eventlog.core.rows import KEY_ID_BYTES, U64, key_check, seal, unseal, unseal_record
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
    run,
)
from eventlog.postgres.plan import TIME_MIN
from eventlog.postgres.reading import PgVerification
from eventlog.postgres.tables import COPYING, FORMAT, found_format, make_tables

ROW_BYTES = 4096  # what a row is taken to weigh beside its value
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
SETTINGS = "setting (name, value)"

LOCK = "SELECT pg_advisory_lock(hashtextextended('copy ' || current_schema(), 0))"
EMPTY = """
    TRUNCATE event, event_archive, event_key, stream, request, snapshot, checkpoint, entry, setting
"""
PUT_TAIL = "UPDATE log_tail SET position = %b, revision = 1, names = %b, totals = %b"
TOTALS = "SELECT names, totals FROM log_tail"
OPEN = "UPDATE store SET format = %b"

AGAIN = "run the copy again, it starts anew"

Row = tuple[int | bytes | None, ...]
Put = tuple[str, Row]
"""A row, and before it the table that it goes to, with its columns."""


class CopyToDatabase:
    """A copy of a log that is open to a database."""

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
        self._totals: dict[str, int] = {}
        self._streams: dict[bytes, tables.StreamRecord] = {}
        self._segments: dict[SegmentId, tables.SegmentRecord] = {}
        self._tables: dict[str, Callable[[Transaction, bytes, bytes], Iterator[Put]]] = {
            "events": self._event,
            "keys": self._key,
            "streams": self._stream_end,
            "requests": self._request,
            "snapshots": self._snapshot,
            "checkpoints": self._checkpoint,
            "projections": self._entry,
        }

    async def run(self, url: str) -> Copied:
        """Copy it. See `EventLog.copy_to`."""
        place = DatabasePlace.parse(url)
        async with connected(place, AGAIN) as connection:
            if await found_format(place, connection) is None:
                await make_tables(connection, place, b"", COPYING)
            try:
                await run(connection, LOCK)
            except Busy:
                raise LogUnavailable(
                    "another copy into this schema is under way: wait for it"
                ) from None
            if await found_format(place, connection) != COPYING:
                raise LogUnavailable(
                    f"there is a store in schema {place.schema!r}: name another one with ?schema="
                )
            await self._fill(connection)
            await self._verify(place)
            await run(connection, OPEN, [FORMAT])
        return Copied(place.schema, self._heads.position)

    async def _fill(self, connection: Connection) -> None:
        await run(connection, "BEGIN")
        await run(connection, EMPTY)
        events = 0
        with closing(self._chunks()) as chunks:
            while rows := await anyio.to_thread.run_sync(next, chunks, None):
                for target, some in rows.items():
                    await copy_rows(connection, target, some)
                events += len(rows.get(EVENTS, ()))
                await self._report(events)
        with self._files.env.read() as txn:
            self._totals = load_totals(txn)
        names, counts = Bytes(name.encode() for name in self._totals), Ints(self._totals.values())
        await run(connection, PUT_TAIL, [self._heads.position, names, counts])
        await run(connection, "COMMIT")

    async def _report(self, done: int) -> None:
        """Report progress: half of the work is to put the events, half to verify them."""
        await anyio.to_thread.run_sync(self._progress, done, 2 * self._heads.position)

    async def _verify(self, place: DatabasePlace) -> None:
        """Compare the copy with the source.

        :raises CorruptLog: they differ.
        """
        half, database = self._heads.position, Database(place)
        async with database.opened():
            report = await PgVerification(
                database, lambda done, _: self._progress(half + done, 2 * half), self._heads
            ).run()
            [[names, counts]] = await database.run(TOTALS)
        totals = dict(zip((name.decode() for name in names), counts, strict=True))
        if report.findings or report.streams != len(self._heads.streams) or totals != self._totals:
            found = [finding.message for finding in report.findings[:1]] or ["streams or totals"]
            raise CorruptLog(
                f"the copy is not what is in the source ({found[0]}): verify the source, then copy "
                "it again"
            )

    # --- from the source

    def _chunks(self) -> Generator[Mapping[str, list[Row]]]:
        """Yield the rows of the target, by table, so many at a time. Blocks."""
        put, size = defaultdict[str, list[Row]](list), 0
        with self._files.env.read() as txn:
            for table, put_of in self._tables.items():
                count, handle = 0, txn.tables[table]
                with txn.cursor(handle) as cursor:
                    for key, value in cursor:
                        count += 1
                        for target, row in put_of(txn, key, value):
                            put[target].append(row)
                        size += ROW_BYTES + len(value)
                        if size > BYTES_AT_ONCE:
                            yield put
                            put, size = defaultdict(list), 0
                if count != txn.stat(handle)["entries"]:
                    raise CorruptLog(f"table {table!r} is not in order: verify the log")
        put[SETTINGS] += [(name.encode(), value) for name, value in self._settings.items()]
        yield put

    def _event(self, txn: Transaction, key: bytes, data: bytes) -> Iterator[Put]:
        (position,) = U64.unpack(key)
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
        if check != key_check(key):
            raise CorruptLog("the index of keys is damaged: verify the log")
        sid, rest = _of_stream(key)
        yield KEYS, (sid, rest[:KEY_ID_BYTES], U64.unpack(rest[KEY_ID_BYTES:])[0])

    def _stream_end(self, txn: Transaction, sid: bytes, _: bytes) -> Iterator[Put]:
        one, at_us = self._stream(txn, sid), TIME_MIN
        if one.version:
            at, data = tables.event_at(txn, sid, one.version)
            if not data:
                raise CorruptLog("the last event of a stream is missing: verify the log")
            at_us = frame.unpack(U64.unpack(at)[0], data).recorded_at_us
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
            yield SNAPSHOTS, (sid, U64.unpack(version)[0], *told)

    def _checkpoint(self, _txn: Transaction, name: bytes, value: bytes) -> Iterator[Put]:
        yield CHECKPOINTS, (name, unseal(value, "a checkpoint", name))

    def _entry(self, _txn: Transaction, row: bytes, value: bytes) -> Iterator[Put]:
        name, key = row[:KEY_ID_BYTES], row[KEY_ID_BYTES:]
        yield ENTRIES, (name, key, unseal(value, "an entry", row))


def _of_stream(key: bytes) -> tuple[bytes, bytes]:
    return key[: frame.STREAM_ID_BYTES], key[frame.STREAM_ID_BYTES :]
