"""The tables of the log in LMDB, and the records in them.

All integers in keys are big-endian, so that keys sort by number:

    events       position u64                      -> frame
    streams      stream id                         -> sealed record: name, head
    versions     stream id | version u64           -> position u64
    keys         stream id | key id | version u64  -> CRC of this row's key: which events are
                                                      about a key
    requests     stream id | key id                -> sealed record: request digest, first result
    snapshots    stream id | version u64           -> sealed record: schema fingerprint, data
    checkpoints  name id                           -> position, sealed with its key
    projections  name id | key                     -> value, sealed with its key
    meta         "format"                          -> sealed record: format, when it was created
                 "keys"                            -> identity of the keys, sealed with its key: of
                                                      an encrypted log only
                 "totals"                          -> record of all totals, sealed with its key
    segments     stream id | number u32            -> record of a file of archived payloads, sealed
                                                      with its key
    erasures     stream id                         -> record of an erasure that is under way, sealed
                                                      with its key

A sealed value opens with its CRC. Frames carry their own. In an encrypted log the ids of keys and
the digests of requests are keyed hashes, and the data of snapshots is encrypted (keys.py).
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog
from eventlog.core.keys import Cipher
from eventlog.core.plain_events import Row
from eventlog.core.records import SNAPSHOTS_KEPT, ArchiveStatistics, Checkpoint, Snapshot
from eventlog.core.rows import (
    U64,
    key_id,
    seal,
    seal_record,
    snapshot_place,
    unseal,
    unseal_record,
)  # fmt: skip
from eventlog.core.rules import StreamEnd
from eventlog.lmdb.file import Table, Transaction
from eventlog.lmdb.segment import SegmentId

TABLES = (
    "events", "streams", "versions", "keys", "requests", "snapshots", "checkpoints", "projections",
    "meta", "segments", "erasures",
)  # fmt: skip

_SEGMENT = struct.Struct(">16sI")


class StreamRecord(StreamEnd, msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream's name and its end."""

    name: str
    """Empty when the stream was erased and nobody has written to it since."""
    version: int
    epoch: int
    stored_bytes: int
    chain: bytes
    erased_version: int = 0
    erased_at_us: int = 0

    def with_chain(self, chain: bytes) -> "StreamRecord":
        """Return the record with another chain value."""
        epoch, erased = self.epoch, (self.erased_version, self.erased_at_us)
        return StreamRecord(self.name, self.version, epoch, self.stored_bytes, chain, *erased)

    def after(self, taken: frame.Frame) -> "StreamRecord":
        """Return the record after one more event from another log: whole, or the stub of one."""
        erased = self.erased_version, self.erased_at_us
        if taken.gone is not None:
            erased = taken.version, taken.gone.erased_at_us
        stored_bytes = self.stored_bytes + taken.stored_bytes
        return StreamRecord(
            self.name, taken.version, self.epoch, stored_bytes, taken.chain, *erased
        )


class RequestRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The request that an idempotency key stood for, and its result."""

    key: bytes
    digest: bytes
    first_version: int
    last_version: int
    last_position: int


class ErasureRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An erasure that is under way."""

    until: int
    """The last version that it erases."""
    at_us: int
    events: int
    """The number of events that it erases."""
    segments_until: int
    """The last segment of the stream's archive that it deletes."""
    projections: list[bytes]
    """Ids of the names of checkpoints and projections that go with the stream."""
    stubs_until: int = 0
    """The last version whose frame is a stub."""
    key_gone: bool = False
    """True once the stream's key has been deleted; until then nobody writes to it."""


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
    """The time at which retention dropped it; None: it is there."""


# --- rows


def put_events(
    txn: Transaction, position: int, frames: Sequence[bytes], key_rows: list[Row]
) -> None:
    """Put frames at the end of the log, behind a position, and their rows of both indexes.

    Rows of the indexes are sorted by key, so that each page is looked up once.

    :raises CorruptLog: there is something at or behind the position of the first one.
    """
    events, versions = list[Row](), list[Row]()
    for at, data in enumerate(frames, position + 1):
        place = U64.pack(at)
        events.append((place, data))
        versions.append((data[frame.STREAM_AND_VERSION], place))
    if not put_rows(txn, txn.tables["events"], events, append=True):
        raise CorruptLog(f"position {position + 1} is not the end of the log: verify it")
    put_rows(txn, txn.tables["versions"], versions)
    put_rows(txn, txn.tables["keys"], key_rows)


def put_rows(txn: Transaction, table: Table, rows: list[Row], *, append: bool = False) -> bool:
    """Put rows into a table, in order of their keys; with `append` at its end, in their order.

    False: one of those to append is not behind the last row.
    """
    if len(rows) == 1:  # as most appends have: a cursor would cost as much as the row
        return txn.put(*rows[0], db=table, append=append)
    if not rows:
        return True
    with txn.cursor(table) as cursor:
        return cursor.putmulti(rows if append else sorted(rows), append=append)[1] == len(rows)


def stream_records(txn: Transaction) -> Iterator[tuple[bytes, StreamRecord]]:
    """Yield the id and the record of every stream, in order of id.

    :raises CorruptLog: a record is damaged.
    """
    for sid, value in scan(txn, "streams", b""):
        yield sid, unseal_record(value, StreamRecord, "a stream's record")


def event_at(txn: Transaction, sid: bytes, version: int) -> tuple[bytes, bytes]:
    """Return the packed position of an event of a stream and its frame; empty what is missing."""
    at = txn.get(sid + U64.pack(version), b"", db=txn.tables["versions"])
    return at, txn.get(at, b"", db=txn.tables["events"]) if at else b""


def scan(txn: Transaction, table: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what follows `prefix` in each key that has it, and its value, in order of key."""
    with txn.cursor(txn.tables[table]) as cursor:
        if not cursor.set_range(prefix):
            return
        for key, value in cursor:
            if not key.startswith(prefix):
                return
            yield key[len(prefix) :], value


def neighbours(txn: Transaction, table: str, key: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the row at or behind `key` and the one before it.

    A row whose key was damaged still lies where it lay, so a search for the key that it had ends
    beside it: checking the neighbours of a miss shows the damage.
    """
    with txn.cursor(txn.tables[table]) as cursor:
        behind = cursor.set_range(key)
        if behind:
            yield cursor.item()
        if cursor.prev() if behind else cursor.last():
            yield cursor.item()


# --- segments of the archive: a record is committed together with the stubs that point into its
# segment, so the two are never apart. It stays when the segment is dropped: what is gone is said to
# be gone, and since when.


def put_segment(txn: Transaction, segment: SegmentId, record: SegmentRecord) -> None:
    """Store a segment's record."""
    key = _SEGMENT.pack(*segment)
    txn.put(key, seal_record(record, key), db=txn.tables["segments"])


def load_segment(txn: Transaction, segment: SegmentId) -> SegmentRecord:
    """Return the record of a segment that stubs point into.

    :raises CorruptLog: it is missing or damaged.
    """
    key = _SEGMENT.pack(*segment)
    value = txn.get(key, db=txn.tables["segments"])
    if value is None:
        raise CorruptLog(f"{segment.name} has no record: restore a backup")
    return unseal_record(value, SegmentRecord, "the record of a segment", key)


def all_segments(txn: Transaction, sid: bytes = b"") -> Iterator[tuple[SegmentId, SegmentRecord]]:
    """Yield the segments of a stream, of all streams if none is given, in order.

    :raises CorruptLog: a record is damaged, or lies under another key.
    """
    for rest, value in scan(txn, "segments", sid):
        yield unpack_segment(sid + rest, value)


def unpack_segment(key: bytes, value: bytes) -> tuple[SegmentId, SegmentRecord]:
    """Return the id and the record of a row of the table.

    :raises CorruptLog: it is damaged.
    """
    record = unseal_record(value, SegmentRecord, "the record of a segment", key)
    return SegmentId(*_SEGMENT.unpack(key)), record


def next_number(txn: Transaction, sid: bytes) -> int:
    """Return the number of a stream's next segment."""
    return max((segment.number for segment, _ in all_segments(txn, sid)), default=0) + 1


def archive_statistics(txn: Transaction, sid: bytes) -> ArchiveStatistics:
    """Return statistics of a stream's archive, or of the whole archive without a stream."""
    records = [record for _, record in all_segments(txn, sid)]
    kept = [record for record in records if record.dropped_at_us is None]
    return ArchiveStatistics(
        segments=len(kept),
        events=sum(record.events for record in kept),
        raw_bytes=sum(record.raw_bytes for record in kept),
        archive_bytes=sum(record.file_bytes for record in kept),
        dropped_segments=len(records) - len(kept),
        dropped_events=sum(r.events for r in records if r.dropped_at_us is not None),
    )


# --- snapshots
#
# A snapshot is derived data. One that is ahead of its stream rests on a relaxed append that was
# lost, and is not kept. One that fails its CRC or was taken under another schema of the state is
# passed over, and the one before it, or the whole stream, is read instead.


class SnapshotRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A snapshot and the fingerprint of the state's schema when it was taken."""

    fingerprint: str
    data: bytes


def put_snapshot(
    txn: Transaction,
    stream: str,
    snapshot: Snapshot,
    fingerprint: str,
    cipher: Cipher | None = None,
) -> None:
    """Keep a snapshot that is not ahead of its stream; drop all but the newest two."""
    sid, table = frame.stream_id(stream), txn.tables["snapshots"]
    data = snapshot.data
    if cipher is not None:
        data = cipher.encrypt(data, snapshot_place(sid, snapshot.version, fingerprint))
    record = SnapshotRecord(fingerprint, data)
    txn.put(sid + U64.pack(snapshot.version), seal_record(record), db=table)
    for key in snapshot_keys(txn, sid)[:-SNAPSHOTS_KEPT]:
        txn.delete(key, db=table)


def snapshot_keys(txn: Transaction, sid: bytes) -> list[bytes]:
    """Return the keys of a stream's snapshots, the oldest first. This reads only keys."""
    with txn.cursor(txn.tables["snapshots"]) as cursor:
        there = cursor.iternext(keys=True, values=False) if cursor.set_range(sid) else ()
        return list(takewhile(lambda key: key.startswith(sid), there))


def load_snapshot(
    txn: Transaction, stream: str, fingerprint: str, version_max: int, cipher: Cipher | None = None
) -> Snapshot | None:
    """Return the newest snapshot that is whole, of this schema and not beyond a version."""
    sid, table = frame.stream_id(stream), txn.tables["snapshots"]
    for key in reversed(snapshot_keys(txn, sid)):
        version, value = U64.unpack(key[len(sid) :])[0], txn.get(key, b"", db=table)
        try:
            record = unseal_record(value, SnapshotRecord, "a snapshot")
            if record.fingerprint == fingerprint and version <= version_max:
                place = snapshot_place(sid, version, fingerprint)
                data = record.data if cipher is None else cipher.decrypt(record.data, place)
                return Snapshot(version, data)
        except CorruptLog:
            continue
    return None


# --- checkpoints: how far a subscriber has come, stored with what the subscriber keeps, in one
# transaction


def put_checkpoint(txn: Transaction, checkpoint: Checkpoint) -> None:
    """Store a checkpoint and the entries it guards."""
    name, table = key_id(checkpoint.name), txn.tables["projections"]
    position = seal(U64.pack(checkpoint.position), name)
    txn.put(name, position, db=txn.tables["checkpoints"])
    for key, value in checkpoint.writes.items():
        if value is None:
            txn.delete(name + key, db=table)
        else:
            txn.put(name + key, seal(value, name + key), db=table)


def load_checkpoint(txn: Transaction, name: str) -> int:
    """Return the position a subscriber has stored, 0 if none.

    :raises CorruptLog: it, or a row beside it, is not what was stored.
    """
    value = _found(txn, "checkpoints", key_id(name))
    return 0 if value is None else U64.unpack(value)[0]


def load_entry(txn: Transaction, name: str, key: bytes) -> bytes | None:
    """Return one entry of a projection.

    :raises CorruptLog: it, or a row beside it, is not what was stored.
    """
    return _found(txn, "projections", key_id(name) + key)


def _found(txn: Transaction, table: str, key: bytes) -> bytes | None:
    """Return a row's content; what looks like a miss may be a row whose key was damaged."""
    found = None
    for row, value in neighbours(txn, table, key):
        content = unseal(value, f"a row of {table}", row)
        if row == key:
            found = content
    return found
