"""Moving a log to a database: every row of its tables, translated, in the order of the tables.

Events keep their positions, versions and times, and their frames but for the CRC, which is bound to
the position here and to the version there; the chains are the same, so published heads still hold.
A payload that is archived here is archived there, since the same time; of one that was dropped or
erased there is what is here. With the events go idempotency keys, the index of keys, snapshots that
are whole, checkpoints with their entries, and totals.

The source is read in chunks, each in a transaction and a thread of its own: nobody may write to it
meanwhile. At the end the target is verified, against the heads of the source, and only then it is a
store (postgres/moving.py, where also is how a move that was killed goes on).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

import anyio.to_thread
import msgspec

from eventlog.archive.segment import SegmentId
from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog
from eventlog.core.records import Heads, Moved, VerifyReport
from eventlog.core.rows import KEY_ID_BYTES, seal, unseal, unseal_record
from eventlog.lmdb.environment import Transaction
from eventlog.lmdb.ledger import load_totals
from eventlog.lmdb.opening import Files
from eventlog.lmdb.reading import refilled
from eventlog.lmdb.snapshots import SnapshotRecord
from eventlog.lmdb.tables import (
    U64,
    RequestRecord,
    SegmentRecord,
    StreamRecord,
    key_check,
    load_segment,
)
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.moving import MoveProgress, MoveTarget, SqlStatement, target

ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 4 << 20
TIME_MIN = -(2**63)  # stands for null, and for the last event of a stream that has none

EVENTS = """
    INSERT INTO event (position, sid, version, frame, payload, gone_at)
    SELECT position, sid, version, frame, payload, nullif(gone_at, -9223372036854775808)
    FROM unnest(%b, %b, %b, %b, %b, %b) AS e (position, sid, version, frame, payload, gone_at)
"""
ARCHIVED = """
    INSERT INTO event_archive (sid, version, payload, archived_at)
    SELECT * FROM unnest(%b, %b, %b, %b)
"""
KEYS = "INSERT INTO event_key (sid, key, version) SELECT * FROM unnest(%b, %b, %b)"
STREAMS = """
    INSERT INTO stream
        (sid, name, version, epoch, stored_bytes, chain, recorded_at, erased_version, erased_at)
    SELECT * FROM unnest(%b, %b, %b, %b, %b, %b, %b, %b, %b)
"""
REQUESTS = """
    INSERT INTO request (sid, key, digest, first_version, last_version)
    SELECT * FROM unnest(%b, %b, %b, %b, %b)
"""
SNAPSHOTS = """
    INSERT INTO snapshot (sid, version, fingerprint, data) SELECT * FROM unnest(%b, %b, %b, %b)
"""
CHECKPOINTS = "INSERT INTO checkpoint (name, position) SELECT * FROM unnest(%b, %b)"
ENTRIES = "INSERT INTO entry (name, key, value) SELECT * FROM unnest(%b, %b, %b)"

Row = tuple[bytes, bytes]


class _Chunk(NamedTuple):
    """Rows of a table of the source, as statements for the target."""

    statements: list[SqlStatement]
    after: bytes
    """The key of the last of them; empty: there are no more."""
    rows: int


class _Event(NamedTuple):
    """The tables that the parts of an event go to."""

    header: bytes
    hot: bytes | None = None
    cold: bytes | None = None
    archived_at_us: int = TIME_MIN
    gone_at_us: int = TIME_MIN


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
        self._streams: dict[bytes, StreamRecord] = {}
        self._segments: dict[SegmentId, SegmentRecord] = {}
        self._tables: list[tuple[str, Callable[[Transaction, list[Row]], list[SqlStatement]]]] = [
            ("events", self._events),
            ("keys", self._keys),
            ("streams", self._stream_records),
            ("requests", self._requests),
            ("snapshots", self._snapshots),
            ("checkpoints", self._checkpoints),
            ("projections", self._entries),
        ]

    async def run(self, url: str) -> Moved:
        """Move it, or go on with that. See `EventLog.move_to`."""
        async with target(url, self._heads.digest) as to:
            if to.reached.done is not None:
                return to.reached.done
            for number in range(to.reached.table, len(self._tables)):
                await self._fill(to, number)
            report = await self._verified(to)
            done = Moved(
                events=report.events,
                streams=report.streams,
                archived_events=report.archived_events,
                dropped_events=report.dropped_events,
                erased_events=report.erased_events,
                resumed=not to.is_new,
            )
            await to.finish(done, self._settings)
            return done

    async def _verified(self, to: MoveTarget) -> VerifyReport:
        """See that all of it is there.

        :raises CorruptLog: it is not.
        """
        with self._files.env.read() as txn:
            totals = load_totals(self._files.env, txn)
            self._check_counts(txn, to.reached)
        half = self._heads.position
        return await to.verified(
            self._heads, totals, lambda done, _: self._progress(half + done, 2 * half)
        )

    async def _fill(self, to: MoveTarget, number: int) -> None:
        """Move what is left of a table."""
        while to.reached.table <= number:
            reached = to.reached
            before = reached.rows or (0,) * len(self._tables)
            chunk = await anyio.to_thread.run_sync(self._chunk, number, reached.after)
            rows = (*before[:number], before[number] + chunk.rows, *before[number + 1 :])
            table = number if chunk.after else number + 1
            await to.put(
                chunk.statements,
                msgspec.structs.replace(reached, table=table, after=chunk.after, rows=rows),
            )
            await anyio.to_thread.run_sync(self._progress, rows[0], 2 * self._heads.position)

    def _chunk(self, number: int, after: bytes) -> _Chunk:
        table, translated = self._tables[number]
        with self._files.env.read() as txn:
            rows = list(islice(self._rows(txn, table, after), ROWS_AT_ONCE))
            statements = translated(txn, rows) if rows else []
        return _Chunk(statements, rows[-1][0] if rows else b"", len(rows))

    def _rows(self, txn: Transaction, table: str, after: bytes) -> Iterator[Row]:
        """Yield the rows of a table behind a key, up to so many bytes."""
        size = 0
        with txn.cursor(self._files.env.tables[table]) as cursor:
            if not cursor.set_range(after + b"\0"):
                return
            for key, value in cursor:
                yield key, value
                size += len(value)
                if size > BYTES_AT_ONCE:
                    return

    def _check_counts(self, txn: Transaction, reached: MoveProgress) -> None:
        """See that every row of every table was moved.

        :raises CorruptLog: the source has more or fewer than were seen in order.
        """
        for (table, _), rows in zip(self._tables, reached.rows, strict=True):
            if rows != txn.stat(self._files.env.tables[table])["entries"]:
                raise CorruptLog(f"table {table!r} is not in order: verify the log")

    # --- events

    def _events(self, txn: Transaction, rows: list[Row]) -> list[SqlStatement]:
        hot, cold = [], []
        for key, data in rows:
            (position,) = U64.unpack(key)
            taken = frame.unpack(position, data)
            event = self._event(txn, position, data, taken)
            at = taken.stream_id, taken.version
            hot.append((position, *at, event.header, event.hot, event.gone_at_us))
            if event.cold is not None:
                cold.append((*at, event.cold, event.archived_at_us))
        return [_put(EVENTS, hot, "ibibbi"), *([_put(ARCHIVED, cold, "bibi")] if cold else [])]

    def _event(self, txn: Transaction, position: int, data: bytes, taken: frame.Frame) -> _Event:
        stream = self._stream(txn, taken.stream_id)
        if taken.version <= stream.erased_version:  # also where the erasure is not finished yet
            at_us = stream.erased_at_us if taken.gone is None else taken.gone.erased_at_us
            return _Event(frame.split(data)[0], gone_at_us=at_us)
        if taken.gone is not None:
            raise CorruptLog(f"event {position} is erased and its stream is not: verify the log")
        if taken.place is None:
            return _Event(*frame.split(frame.moved(taken.version, data)))
        segment = self._segment(txn, SegmentId(taken.stream_id, taken.place.number))
        if segment.dropped_at_us is not None:
            return _Event(frame.split(data)[0], gone_at_us=segment.dropped_at_us)
        whole = refilled(self._files.archive, position, data, taken)
        header, payload = frame.split(frame.moved(taken.version, whole))
        return _Event(header, cold=payload, archived_at_us=segment.sealed_at_us)

    def _stream(self, txn: Transaction, sid: bytes) -> StreamRecord:
        if sid not in self._streams:
            self._streams[sid] = self._files.ledger.stream_record(txn, sid)
        return self._streams[sid]

    def _segment(self, txn: Transaction, segment: SegmentId) -> SegmentRecord:
        if segment not in self._segments:
            self._segments[segment] = load_segment(self._files.env, txn, segment)
        return self._segments[segment]

    # --- what goes with them

    def _keys(self, _txn: Transaction, rows: list[Row]) -> list[SqlStatement]:
        if any(check != key_check(key) for key, check in rows):
            raise CorruptLog("the index of keys is damaged: verify the log")
        at = frame.STREAM_ID_BYTES + KEY_ID_BYTES
        parts = [(*_of_stream(key[:at]), U64.unpack(key[at:])[0]) for key, _ in rows]
        return [_put(KEYS, parts, "bbi")]

    def _stream_records(self, txn: Transaction, rows: list[Row]) -> list[SqlStatement]:
        records = []
        for sid, _ in rows:
            one = self._stream(txn, sid)
            at_us = self._recorded_at_us(txn, sid, one.version)
            records.append(
                (sid, one.name.encode() or None, one.version, one.epoch, one.stored_bytes,
                 one.chain, at_us, one.erased_version, one.erased_at_us)
            )  # fmt: skip
        return [_put(STREAMS, records, "bbiiibiii")]

    def _recorded_at_us(self, txn: Transaction, sid: bytes, version: int) -> int:
        """Return the time of the last event of a stream."""
        if not version:
            return TIME_MIN
        at = txn.get(sid + U64.pack(version), db=self._files.env.tables["versions"])
        data = None if at is None else txn.get(at, db=self._files.env.tables["events"])
        if at is None or data is None:
            raise CorruptLog("the last event of a stream is missing: verify the log")
        return frame.unpack(U64.unpack(at)[0], data).recorded_at_us

    def _requests(self, _txn: Transaction, rows: list[Row]) -> list[SqlStatement]:
        found = []
        for key, value in rows:
            one = unseal_record(value, RequestRecord, "an idempotency key")
            if one.key != key:
                raise CorruptLog("an idempotency key is damaged: verify the log")
            found.append((*_of_stream(key), one.digest, one.first_version, one.last_version))
        return [_put(REQUESTS, found, "bbbii")]

    def _snapshots(self, _txn: Transaction, rows: list[Row]) -> list[SqlStatement]:
        found = []
        for key, value in rows:
            sid, version = _of_stream(key)
            with suppress(CorruptLog):  # nobody would read it here either
                one = unseal_record(value, SnapshotRecord, "a snapshot")
                told = one.fingerprint.encode(), seal(one.data)
                found.append((sid, U64.unpack(version)[0], *told))
        return [_put(SNAPSHOTS, found, "bibb")]

    def _checkpoints(self, _txn: Transaction, rows: list[Row]) -> list[SqlStatement]:
        found = [(name, unseal(value, "a checkpoint", name)) for name, value in rows]
        return [_put(CHECKPOINTS, found, "bb")]

    def _entries(self, _txn: Transaction, rows: list[Row]) -> list[SqlStatement]:
        found = [
            (row[:KEY_ID_BYTES], row[KEY_ID_BYTES:], unseal(value, "an entry", row))
            for row, value in rows
        ]
        return [_put(ENTRIES, found, "bbb")]


def _of_stream(key: bytes) -> Row:
    """Return the id of a stream, and what follows it in a key."""
    return key[: frame.STREAM_ID_BYTES], key[frame.STREAM_ID_BYTES :]


def _put(query: str, rows: Sequence[tuple[Any, ...]], kinds: str) -> SqlStatement:
    """Return a statement that puts rows, whose columns are of integers (i) or bytes (b)."""
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    made = [
        Ints(column) if kind == "i" else Bytes(column)
        for kind, column in zip(kinds, columns, strict=True)
    ]
    return SqlStatement(query, made)
