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

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from eventlog.archive.segment import SegmentId
from eventlog.core.errors import CorruptLog
from eventlog.core.keys import Cipher
from eventlog.core.records import Appended, ArchiveStatistics, StreamHead
from eventlog.lmdb.environment import Environment, Tables, Transaction

TABLES = (
    "events", "streams", "versions", "keys", "requests", "snapshots", "checkpoints", "projections",
    "meta", "segments", "erasures",
)  # fmt: skip

KEY_ID_BYTES = 16
"""Of a SHA-256, or of a keyed hash: what a row has of a key or name of any length."""
U64 = struct.Struct(">Q")
_CRC = struct.Struct(">I")
_SEGMENT = struct.Struct(">16sI")
_encode = msgspec.msgpack.Encoder().encode
Record = TypeVar("Record", bound=msgspec.Struct)


class StreamRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream's name and its end."""

    name: str
    """Empty when the stream was erased and nobody has written to it since."""
    version: int
    epoch: int
    stored_bytes: int
    chain: bytes
    erased_version: int = 0
    erased_at_us: int = 0

    def head(self) -> StreamHead:
        """Return it as callers see it."""
        return StreamHead(
            self.version, self.epoch, self.stored_bytes, self.chain, self.erased_version
        )


class RequestRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The request that an idempotency key stood for, and its result."""

    key: bytes
    digest: bytes
    first_version: int
    last_version: int
    last_position: int

    def result(self, stream: str) -> Appended:
        """Return the first result again."""
        return Appended(
            stream, self.first_version, self.last_version, self.last_position, duplicate=True
        )


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


def seal(data: bytes, row_key: bytes = b"") -> bytes:
    """Return `data` behind a CRC over it and, if given, the key of its row."""
    return _CRC.pack(zlib.crc32(data, zlib.crc32(row_key))) + data


def unseal(data: bytes, what: str, row_key: bytes = b"") -> bytes:
    """Return what `seal` was given.

    :raises CorruptLog: these are other bytes, or they lie under another key.
    """
    content = data[_CRC.size :]
    crc = zlib.crc32(content, zlib.crc32(row_key))
    if len(data) < _CRC.size or crc != _CRC.unpack_from(data)[0]:
        raise CorruptLog(f"{what} fails its CRC: restore a backup, or run a verification")
    return content


def seal_record(record: msgspec.Struct, row_key: bytes = b"") -> bytes:
    """Return a record as a sealed value."""
    return seal(_encode(record), row_key)


def unseal_record(data: bytes, cls: type[Record], what: str, row_key: bytes = b"") -> Record:
    """Return the record in a sealed value.

    :raises CorruptLog: it is not one.
    """
    try:
        return msgspec.msgpack.decode(unseal(data, what, row_key), type=cls)
    except (ValueError, RecursionError) as error:  # of msgspec or of UTF-8
        raise CorruptLog(f"{what} does not decode: restore a backup") from error


def key_id(key: str) -> bytes:
    """Return the fixed-size form of a key or name of any length."""
    return hashlib.sha256(key.encode()).digest()[:KEY_ID_BYTES]


def blind_id(key: str, cipher: Cipher | None) -> bytes:
    """Return the same of a key that says something about content: a keyed hash, if encrypted."""
    return key_id(key) if cipher is None else cipher.blind(key.encode())[:KEY_ID_BYTES]


def key_check(row_key: bytes) -> bytes:
    """Return what a row of `keys` holds, so that a bit that moves it elsewhere shows."""
    return _CRC.pack(zlib.crc32(row_key))


def put_event(
    tables: Tables,
    txn: Transaction,
    position: int,
    sid: bytes,
    version: int,
    data: bytes,
    key_rows: Iterable[bytes],
) -> None:
    """Put the frame of an event at the end of the log, and into the indexes.

    `key_rows` are the keys of its rows in the index of keys.

    :raises CorruptLog: there is something at or behind that position.
    """
    at = U64.pack(position)
    if not txn.put(at, data, db=tables["events"], append=True):
        raise CorruptLog(f"position {position} is not the end of the log: verify it")
    txn.put(sid + U64.pack(version), at, db=tables["versions"])
    for row in key_rows:
        txn.put(row, key_check(row), db=tables["keys"])


def stream_records(env: Environment, txn: Transaction) -> Iterator[tuple[bytes, StreamRecord]]:
    """Yield the id and the record of every stream, in order of id.

    :raises CorruptLog: a record is damaged.
    """
    for sid, value in scan(env, txn, "streams", b""):
        yield sid, unseal_record(value, StreamRecord, "a stream's record")


def scan(
    env: Environment, txn: Transaction, table: str, prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Yield what follows `prefix` in each key that has it, and its value, in order of key."""
    with txn.cursor(env.tables[table]) as cursor:
        if not cursor.set_range(prefix):
            return
        for key, value in cursor:
            if not key.startswith(prefix):
                return
            yield key[len(prefix) :], value


def neighbours(
    env: Environment, txn: Transaction, table: str, key: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the row at or behind `key` and the one before it.

    A row whose key was damaged still lies where it lay, so a search for the key that it had ends
    beside it: checking the neighbours of a miss shows the damage.
    """
    with txn.cursor(env.tables[table]) as cursor:
        behind = cursor.set_range(key)
        if behind:
            yield cursor.item()
        if cursor.prev() if behind else cursor.last():
            yield cursor.item()


# --- segments of the archive: a record is committed together with the stubs that point into its
# segment, so the two are never apart. It stays when the segment is dropped: what is gone is said to
# be gone, and since when.


def put_segment(
    env: Environment, txn: Transaction, segment: SegmentId, record: SegmentRecord
) -> None:
    """Store a segment's record."""
    key = _SEGMENT.pack(*segment)
    txn.put(key, seal_record(record, key), db=env.tables["segments"])


def load_segment(env: Environment, txn: Transaction, segment: SegmentId) -> SegmentRecord:
    """Return the record of a segment that stubs point into.

    :raises CorruptLog: it is missing or damaged.
    """
    key = _SEGMENT.pack(*segment)
    value = txn.get(key, db=env.tables["segments"])
    if value is None:
        raise CorruptLog(f"{segment.name} has no record: restore a backup")
    return unseal_record(value, SegmentRecord, "the record of a segment", key)


def all_segments(
    env: Environment, txn: Transaction, sid: bytes = b""
) -> Iterator[tuple[SegmentId, SegmentRecord]]:
    """Yield the segments of a stream, of all streams if none is given, in order.

    :raises CorruptLog: a record is damaged, or lies under another key.
    """
    for rest, value in scan(env, txn, "segments", sid):
        yield unpack_segment(sid + rest, value)


def unpack_segment(key: bytes, value: bytes) -> tuple[SegmentId, SegmentRecord]:
    """Return what a row of the table says.

    :raises CorruptLog: it is damaged.
    """
    record = unseal_record(value, SegmentRecord, "the record of a segment", key)
    return SegmentId(*_SEGMENT.unpack(key)), record


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
