"""Taking payloads out of the tables: archiving, retention, redacting, and erasing a stream.

Archiving writes a segment for good before anything is changed. Then one transaction replaces the
frames by stubs, after looking whether they are still those that were read, and puts the segment's
record beside them.

An erasure is marked in one transaction, from which on the stream reads as erased. A row in the
table `erasures` says what remains to be done, a bounded piece a transaction: the key, the frames,
rows of other tables, segments, a new file without the bytes. Each step looks in the store for what
remains, so it can be repeated; after a crash the next opening finishes the job. Until its key is
gone the stream takes no writes, for they would be under it; no step touches later versions.

The steps are listed in docs/internals/log-format.md.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog, Fenced
from eventlog.core.keys import Keys
from eventlog.core.records import Archived, Dropped, DroppedPayloads, Rewrite
from eventlog.core.rows import KEY_ID_BYTES, U64, key_id, seal_record, unseal_record
from eventlog.lmdb import tables
from eventlog.lmdb.archive import Archive, WrittenSegment
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import Ledger
from eventlog.lmdb.reading import LogReading, refilled
from eventlog.lmdb.segment import Entry, SegmentId

TABLE = "erasures"
SEGMENT_BYTES = 8 << 20  # of payloads: they are in memory until they are written
STUBS_AT_ONCE = 512  # replaced in one transaction: some 3 ms, which an append may have to wait
ROWS_AT_ONCE = 2048  # deleted in one transaction
OVERFLOW_BYTES = 2022  # a row above has pages of its own, which are free once it is replaced


class _Hot(NamedTuple):
    """An event whose payload is still in the log."""

    position: int
    header: bytes
    row_bytes: int
    entry: Entry


class ToArchive(NamedTuple):
    """Events of a stream whose payloads are in a segment, and in the log until it is changed."""

    asked: int
    """The number of versions that were looked at: the others wait."""
    hot: Sequence[_Hot]
    written: WrittenSegment | None
    """None: all payloads had already been moved or erased."""


class Replaced(NamedTuple):
    """A frame that takes the place of another one."""

    position: int
    header: bytes
    """The header of the present frame."""
    data: bytes


class ToRedact(NamedTuple):
    """Frames of a stream with other payloads, and what leaves the archive for them."""

    sid: bytes
    frames: list[Replaced]
    refilled: list[int]
    """Versions among them that get their own payload back."""
    segments: set[SegmentId]


@dataclass(eq=False)
class Erasing:
    """The steps of archiving, dropping and erasing."""

    _env: Environment
    _ledger: Ledger
    _reading: LogReading
    _archive: Archive
    _keys: Keys | None

    # --- archiving

    def write_segment(self, stream: str, versions: Sequence[int]) -> ToArchive:
        """Write the payloads of the first of these versions to a segment. Blocks.

        :raises CorruptLog: a payload is missing or damaged.
        :raises DiskFull: the disk is full; no file remains.
        :raises StorageFailed: a write failed; no file remains.
        """
        sid, size, asked = frame.stream_id(stream), 0, 0
        events: list[_Hot] = []
        with self._env.read() as txn:
            number = tables.next_number(txn, sid)
            for version in versions:
                hot = self._hot(txn, stream, sid, version)
                asked += 1
                if hot is not None:
                    events.append(hot)
                    size += len(hot.entry.raw)
                if size >= SEGMENT_BYTES or len(events) == STUBS_AT_ONCE:
                    break
        if not events:
            return ToArchive(asked, events, None)
        written = self._archive.write(sid, number, [event.entry for event in events])
        return ToArchive(asked, events, written)

    def _hot(self, txn: Transaction, stream: str, sid: bytes, version: int) -> _Hot | None:
        """Return an event with its payload, None if that is in the archive or erased."""
        position, data = self._reading.row(txn, stream, sid, version)
        taken = frame.unpack(position, data)
        if taken.place is not None or taken.gone is not None or frame.is_redacted(data):
            return None
        raw = taken.payload.data if isinstance(taken.payload, frame.Encrypted) else taken.payload
        assert isinstance(raw, bytes)
        whole = frame.digest_of(taken.salt, raw) == taken.digest
        if not whole or (taken.stream_id, taken.version) != (sid, version):
            raise CorruptLog(f"event {position} is not version {version} of stream {stream!r}")
        return _Hot(position, frame.header_of(data), len(data), Entry(version, taken.salt, raw))

    def replace(
        self, txn: Transaction, hot: Sequence[_Hot], written: WrittenSegment, now_us: int
    ) -> tuple[Archived, int]:
        """Put stubs in the place of frames whose payloads have been written.

        Also return the bytes that a new file would not have.

        :raises CorruptLog: one is not what was read.
        """
        moved = slack = 0
        table = txn.tables["events"]
        for event, place in zip(hot, written.places, strict=True):
            key = U64.pack(event.position)
            data = txn.get(key, b"", db=table)
            if frame.header_of(data) != event.header or len(data) != event.row_bytes:
                message = f"event {event.position} has changed while it was archived: verify"
                raise CorruptLog(message)
            stub = frame.stub(event.position, data, place)
            txn.put(key, stub, db=table)
            moved += len(data) - len(stub)
            slack += len(data) - len(stub) if event.row_bytes <= OVERFLOW_BYTES else 0
        raw_bytes = sum(len(event.entry.raw) for event in hot)
        sizes = len(hot), raw_bytes, written.file_bytes
        record = tables.SegmentRecord(*sizes, written.sha256, now_us)
        tables.put_segment(txn, written.segment, record)
        return Archived(len(hot), 1, moved, written.file_bytes), slack

    # --- retention

    def sealed_before(
        self, txn: Transaction, time_us: int, sid: bytes
    ) -> dict[SegmentId, tables.SegmentRecord]:
        """Return the segments that were sealed before a time and are still there."""
        return {
            segment: record
            for segment, record in tables.all_segments(txn, sid)
            if record.dropped_at_us is None and record.sealed_at_us < time_us
        }

    def drop(
        self, txn: Transaction, segments: Mapping[SegmentId, tables.SegmentRecord], now_us: int
    ) -> DroppedPayloads:
        """Write down that segments are dropped; their files may go then."""
        for segment, record in segments.items():
            gone = msgspec.structs.replace(record, dropped_at_us=now_us)
            tables.put_segment(txn, segment, gone)
        return DroppedPayloads(
            events=sum(record.events for record in segments.values()),
            segments=len(segments),
            archive_bytes=sum(record.file_bytes for record in segments.values()),
        )

    # --- redacting

    def to_redact(self, stream: str, rewrite: Rewrite) -> ToRedact:
        """Return the frames of a stream whose data `rewrite` changes, changed. Blocks.

        :raises CorruptLog: an event is missing or damaged.
        """
        sid = frame.stream_id(stream)
        found, places = ToRedact(sid, [], [], set()), list[tuple[int, bytes, frame.Frame]]()
        with self._env.read() as txn:
            record = self._ledger.stream(txn, stream)
            for version in range(record.erased_version + 1, record.version + 1):
                position, data = self._reading.row(txn, stream, sid, version)
                taken = frame.unpack(position, data)
                payload = self._reading.payload(txn, taken[:8])
                if isinstance(payload, Dropped):
                    continue
                body = self._reading.rewritten(taken[:8], stream, payload, rewrite)
                if body is not None:
                    instead = frame.redacted(position, data, body)
                    found.frames.append(Replaced(position, frame.header_of(data), instead))
                    if taken.place is not None:
                        found.segments.add(SegmentId(sid, taken.place.number))
                elif taken.place is not None:
                    places.append((position, data, taken))
        for position, data, taken in places:
            if taken.place and SegmentId(sid, taken.place.number) in found.segments:
                whole = refilled(self._archive, position, data, taken)
                found.frames.append(Replaced(position, frame.header_of(data), whole))
                found.refilled.append(taken.version)
        return found

    def redact(self, txn: Transaction, found: ToRedact, now_us: int) -> None:
        """Put the changed frames in their places, and delete the snapshots of the stream.

        :raises CorruptLog: one is not what was read.
        """
        events = txn.tables["events"]
        for position, header, instead in found.frames:
            key = U64.pack(position)
            if frame.header_of(txn.get(key, b"", db=events)) != header:
                raise CorruptLog(f"event {position} has changed while it was read: verify")
            txn.put(key, instead, db=events)
        for segment in found.segments:
            tables.put_segment(txn, segment, tables.SegmentRecord(0, 0, 0, b"", now_us, now_us))
        for key in tables.snapshot_keys(txn, found.sid):
            txn.delete(key, db=txn.tables["snapshots"])

    # --- erasing a stream

    def mark(
        self,
        txn: Transaction,
        stream: str,
        now_us: int,
        counted: Mapping[str, int],
        projections: Sequence[str],
        epoch: int | None,
    ) -> tables.ErasureRecord | None:
        """Let a stream read as erased from now on; return the erasure that is under way, if any.

        `counted` is taken out of the totals, down to 0; only when there is something to erase.

        :raises Fenced: the stream has another epoch.
        """
        sid, record = frame.stream_id(stream), self._ledger.stream(txn, stream)
        if epoch is not None and epoch != record.epoch:
            raise Fenced(stream, epoch, record.epoch)
        pending = self.pending(txn).get(sid)
        if record.is_empty:
            return pending
        self._ledger.take_out(txn, counted)
        names = [key_id(name) for name in projections]
        fresh = tables.ErasureRecord(
            until=record.version,
            at_us=now_us,
            events=record.version - record.erased_version + (pending.events if pending else 0),
            segments_until=tables.next_number(txn, sid) - 1,
            projections=[*names, *(pending.projections if pending else ())],
            stubs_until=pending.stubs_until if pending else record.erased_version,
        )
        erased = msgspec.structs.replace(
            record, name="", erased_version=record.version, erased_at_us=fresh.at_us
        )
        self._ledger.put_stream(txn, sid, erased)
        self._put(txn, sid, fresh)
        for key in tables.snapshot_keys(txn, sid):
            txn.delete(key, db=txn.tables["snapshots"])
        for name in fresh.projections:
            txn.delete(name, db=txn.tables["checkpoints"])
        return fresh

    def pending(self, txn: Transaction) -> dict[bytes, tables.ErasureRecord]:
        """Return the erasures that are under way, by stream id.

        :raises CorruptLog: a row is damaged.
        """
        return {
            sid: unseal_record(value, tables.ErasureRecord, "the record of an erasure", sid)
            for sid, value in tables.scan(txn, TABLE, b"")
        }

    def carry_out(self, sid: bytes) -> tuple[bool, int]:
        """Delete the key and the payloads of a stream that is marked. Blocks.

        Return whether it had a key, and the number of archive files that were deleted.

        :raises CorruptLog: an event or a table is damaged; the erasure is still under way.
        :raises DiskFull, StorageFailed: it could not be finished now; it is still under way.
        """
        with self._env.read() as txn:
            record = self.pending(txn)[sid]
        key_deleted = record.key_gone
        if self._keys is not None and not key_deleted:
            key_deleted = self._keys.forget(sid)
            self._env.write(partial(self.key_gone, sid=sid))
        while self._env.write(partial(self.step, sid=sid)):
            pass
        with self._env.read() as txn:
            segments = tables.all_segments(txn, sid)
            kept = {segment for segment, record in segments if record.dropped_at_us is None}
        return key_deleted, self._archive.remove_stream(sid, kept)

    def key_gone(self, txn: Transaction, sid: bytes) -> None:
        """Write down that the key was deleted, for good; the stream may be written to."""
        self._put(txn, sid, msgspec.structs.replace(self.pending(txn)[sid], key_gone=True))

    def step(self, txn: Transaction, sid: bytes) -> bool:
        """Do the next piece of an erasure; say whether there is more of them."""
        record = self.pending(txn)[sid]
        if record.stubs_until < record.until:
            self._put_erased(txn, sid, record)
            return True
        rows = list(islice(self._rows(txn, sid, record), ROWS_AT_ONCE))
        for table, key in rows:
            txn.delete(key, db=txn.tables[table])
        if rows:
            return True
        for segment, _ in list(tables.all_segments(txn, sid)):
            if segment.number <= record.segments_until:
                gone = tables.SegmentRecord(0, 0, 0, b"", record.at_us, record.at_us)
                tables.put_segment(txn, segment, gone)
        return False

    def done(self, txn: Transaction, sids: Collection[bytes]) -> None:
        """Write down that nothing of these erasures is left to be done."""
        for sid in sids:
            txn.delete(sid, db=txn.tables[TABLE])

    def _put(self, txn: Transaction, sid: bytes, record: tables.ErasureRecord) -> None:
        txn.put(sid, seal_record(record, sid), db=txn.tables[TABLE])

    def _put_erased(self, txn: Transaction, sid: bytes, record: tables.ErasureRecord) -> None:
        first = record.stubs_until + 1
        last = min(record.until, record.stubs_until + STUBS_AT_ONCE)
        for version in range(first, last + 1):
            at, data = tables.event_at(txn, sid, version)
            if not data:
                raise CorruptLog(f"event {version} of an erased stream is missing: verify the log")
            if not frame.is_erased(data):
                gone = frame.erased(U64.unpack(at)[0], data, record.at_us)
                txn.put(at, gone, db=txn.tables["events"])
        self._put(txn, sid, msgspec.structs.replace(record, stubs_until=last))

    def _rows(
        self, txn: Transaction, sid: bytes, record: tables.ErasureRecord
    ) -> Iterator[tuple[str, bytes]]:
        for rest, _ in tables.scan(txn, "keys", sid):
            if U64.unpack(rest[KEY_ID_BYTES:])[0] <= record.until:
                yield "keys", sid + rest
        for rest, value in tables.scan(txn, "requests", sid):
            request = unseal_record(value, tables.RequestRecord, "an idempotency key")
            if request.last_version <= record.until:
                yield "requests", sid + rest
        for name in record.projections:
            for rest, _ in tables.scan(txn, "projections", name):
                yield "projections", name + rest
