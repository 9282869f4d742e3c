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
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from eventlog.core.errors import CorruptLog
from eventlog.core.keys import Cipher
from eventlog.lmdb.environment import Environment, Transaction

TABLES = (
    "events", "streams", "versions", "keys", "requests", "snapshots", "checkpoints", "projections",
    "meta", "segments", "erasures",
)  # fmt: skip

KEY_ID_BYTES = 16
"""Of a SHA-256, or of a keyed hash: what a row has of a key or name of any length."""
U64 = struct.Struct(">Q")
_CRC = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
Record = TypeVar("Record", bound=msgspec.Struct)


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
