"""Moving payloads out of the log: reads, writes and the changes of one transaction.

    take      read the payloads, a segment's worth, and check each against its digest
    write     the segment, in a file that is on disk for good
    replace   in one transaction: the frames by stubs, and the segment's record beside them

Nothing is changed before the last step, and the last step is atomic. It looks once more whether the
frames are those that were taken.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog
from eventlog.core.records import Archived, DroppedPayloads
from eventlog.lmdb.archive import Archive, WrittenBlock
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.opening import add_slack
from eventlog.lmdb.reading import LogReading
from eventlog.lmdb.segment import Entry, SegmentId
from eventlog.lmdb.tables import (
    U64,
    SegmentRecord,
    all_segments,
    load_segment,
    next_number,
    put_segment,
)

SEGMENT_BYTES = 8 << 20  # of payloads: they are in memory until they are written
SEGMENT_EVENTS = 512  # replaced in one transaction: some 3 ms, which an append may have to wait
OVERFLOW_BYTES = 2022  # a row above has pages of its own, which are free once it is replaced


class Hot(NamedTuple):
    """An event whose payload is still in the log."""

    position: int
    header: bytes
    row_bytes: int
    entry: Entry


@dataclass(slots=True)
class Batch:
    """A segment's worth of events of one stream."""

    sid: bytes
    number: int
    """Number of the segment, unless a file has it."""
    hot: list[Hot] = field(default_factory=list)
    asked: int = 0
    """The number of versions that were looked at: the others wait."""

    @property
    def raw_bytes(self) -> int:
        """Of all payloads."""
        return sum(len(event.entry.raw) for event in self.hot)


class Archiving:
    """The steps of archiving and dropping."""

    def __init__(self, env: Environment, reading: LogReading, archive: Archive):
        self._env = env
        self._reading = reading
        self._archive = archive

    def take(self, stream: str, versions: Sequence[int]) -> Batch:
        """Read the payloads of the first of these versions, up to a segment's worth. Blocks.

        :raises CorruptLog: one is missing or damaged.
        """
        sid, size = frame.stream_id(stream), 0
        with self._env.read() as txn:
            batch = Batch(sid, next_number(self._env, txn, sid))
            for version in versions:
                hot = self._hot(txn, stream, sid, version)
                batch.asked += 1
                if hot is not None:
                    batch.hot.append(hot)
                    size += len(hot.entry.raw)
                if size >= SEGMENT_BYTES or len(batch.hot) == SEGMENT_EVENTS:
                    break
        return batch

    def _hot(self, txn: Transaction, stream: str, sid: bytes, version: int) -> Hot | None:
        """Return an event with its payload, None if that is in the archive or erased."""
        position, data = self._reading.row(txn, stream, sid, version)
        taken = frame.unpack(position, data)
        if taken.place is not None or taken.gone is not None:
            return None
        raw = frame.payload(taken)
        whole = frame.digest_of(taken.salt, raw) == taken.digest
        if not whole or (taken.stream_id, taken.version) != (sid, version):
            raise CorruptLog(f"event {position} is not version {version} of stream {stream!r}")
        return Hot(position, frame.header_of(data), len(data), Entry(version, taken.salt, raw))

    def write(self, batch: Batch) -> WrittenBlock:
        """Write a batch's payloads to a segment. Blocks.

        :raises DiskFull: the disk is full; no file remains.
        :raises StorageFailed: a write failed; no file remains.
        """
        return self._archive.write(batch.sid, batch.number, [event.entry for event in batch.hot])

    def replace(
        self, txn: Transaction, batch: Batch, written: WrittenBlock, now_us: int
    ) -> Archived:
        """Put stubs in the place of frames whose payloads have been written.

        :raises CorruptLog: one is not what was taken.
        """
        moved = slack = 0
        for event, place in zip(batch.hot, written.places, strict=True):
            freed = self._put_stub(txn, event, place)
            moved += freed
            slack += freed if event.row_bytes <= OVERFLOW_BYTES else 0
        record = SegmentRecord(
            len(batch.hot), batch.raw_bytes, written.file_bytes, written.sha256, now_us
        )
        put_segment(self._env, txn, written.segment, record)
        add_slack(self._env, txn, slack)
        return Archived(len(batch.hot), 1, moved, written.file_bytes)

    def _put_stub(self, txn: Transaction, event: Hot, place: frame.Place) -> int:
        """Replace a frame; return by how much it became shorter."""
        key, table = U64.pack(event.position), self._env.tables["events"]
        data = txn.get(key, b"", db=table)
        if frame.header_of(data) != event.header or len(data) != event.row_bytes:
            raise CorruptLog(f"event {event.position} has changed while it was archived: verify")
        stub = frame.stub(event.position, data, place)
        txn.put(key, stub, db=table)
        return len(data) - len(stub)

    # --- retention

    def sealed_before(self, time_us: int, sid: bytes) -> list[SegmentId]:
        """Return the segments that were sealed before a time and are still there. Blocks."""
        with self._env.read() as txn:
            return [
                segment
                for segment, record in all_segments(self._env, txn, sid)
                if record.dropped_at_us is None and record.sealed_at_us < time_us
            ]

    def drop(self, txn: Transaction, segments: Sequence[SegmentId], now_us: int) -> DroppedPayloads:
        """Write down that segments are dropped; their files may go then."""
        records = [load_segment(self._env, txn, segment) for segment in segments]
        for segment, record in zip(segments, records, strict=True):
            gone = msgspec.structs.replace(record, dropped_at_us=now_us)
            put_segment(self._env, txn, segment, gone)
        return DroppedPayloads(
            events=sum(record.events for record in records),
            segments=len(records),
            archive_bytes=sum(record.file_bytes for record in records),
        )

    def forget(self, segments: Iterable[SegmentId]) -> None:
        """Remove the files of dropped segments. Blocks."""
        self._archive.remove(set(segments))
