"""The records of segments: what is in each, and whether it is still there.

A record is committed together with the stubs that point into its segment, so the two are never
apart. It stays when the segment is dropped: what is gone is said to be gone, and since when.
"""

import struct
from collections.abc import Iterator

import msgspec

from eventlog.archive.segment import SegmentId
from eventlog.core.errors import CorruptLog
from eventlog.core.records import ArchiveStatistics
from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.tables import scan, seal_record, unseal_record

TABLE = "segments"
_KEY = struct.Struct(">16sI")
_WHAT = "the record of a segment"


class SegmentRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file of archived payloads."""

    events: int
    raw_bytes: int
    """Of their payloads, uncompressed."""
    file_bytes: int
    sha256: bytes
    """Of the file."""
    sealed_at_us: int
    dropped_at_us: int | None = None
    """When retention dropped it; None: it is there."""


def put_segment(
    env: Environment, txn: Transaction, segment: SegmentId, record: SegmentRecord
) -> None:
    """Store a segment's record."""
    key = _KEY.pack(*segment)
    txn.put(key, seal_record(record, key), db=env.tables[TABLE])


def load_segment(env: Environment, txn: Transaction, segment: SegmentId) -> SegmentRecord:
    """Return the record of a segment that stubs point into.

    :raises CorruptLog: it is missing or damaged.
    """
    key = _KEY.pack(*segment)
    value = txn.get(key, db=env.tables[TABLE])
    if value is None:
        raise CorruptLog(f"{segment.name} has no record: restore a backup")
    return unseal_record(value, SegmentRecord, _WHAT, key)


def all_segments(
    env: Environment, txn: Transaction, sid: bytes = b""
) -> Iterator[tuple[SegmentId, SegmentRecord]]:
    """Yield the segments of a stream, of all streams if none is given, in order.

    :raises CorruptLog: a record is damaged, or lies under another key.
    """
    for rest, value in scan(env, txn, TABLE, sid):
        yield unpack_segment(sid + rest, value)


def unpack_segment(key: bytes, value: bytes) -> tuple[SegmentId, SegmentRecord]:
    """Return what a row of the table says.

    :raises CorruptLog: it is damaged.
    """
    record = unseal_record(value, SegmentRecord, _WHAT, key)
    return SegmentId(*_KEY.unpack(key)), record


def next_number(env: Environment, txn: Transaction, sid: bytes) -> int:
    """Return the number of a stream's next segment."""
    return max((segment.number for segment, _ in all_segments(env, txn, sid)), default=0) + 1


def archive_statistics(env: Environment, txn: Transaction, sid: bytes) -> ArchiveStatistics:
    """Return what is in the archive of a stream, of all streams if none is given."""
    records = [record for _, record in all_segments(env, txn, sid)]
    kept = [record for record in records if record.dropped_at_us is None]
    return ArchiveStatistics(
        segments=len(kept),
        events=sum(record.events for record in kept),
        raw_bytes=sum(record.raw_bytes for record in kept),
        archive_bytes=sum(record.file_bytes for record in kept),
        dropped_segments=len(records) - len(kept),
        dropped_events=sum(r.events for r in records if r.dropped_at_us is not None),
    )
