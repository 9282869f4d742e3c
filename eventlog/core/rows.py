"""Small values as stores keep them: sealed by a CRC, and names of any length as ids of one size."""

import hashlib
import struct
import zlib
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from eventlog.core.errors import CorruptLog
from eventlog.core.keys import Cipher

KEY_ID_BYTES = 16
"""Bytes of a SHA-256, or of a keyed hash: what a row has of a key or name of any length."""
U64 = struct.Struct(">Q")
_CRC = struct.Struct(">I")
_sha256 = hashlib.sha256
_encode = msgspec.msgpack.Encoder().encode
Record = TypeVar("Record", bound=msgspec.Struct)


def seal(data: bytes, row_key: bytes = b"") -> bytes:
    """Return `data` behind a CRC over it and, if given, the key of its row."""
    return _CRC.pack(zlib.crc32(data, zlib.crc32(row_key))) + data


def unseal(data: bytes, what: str, row_key: bytes = b"") -> bytes:
    """Return the content that `seal` was given.

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
    return _sha256(key.encode()).digest()[:KEY_ID_BYTES]


def key_rows(sid: bytes, keys: Iterable[str], version: bytes, cipher: Cipher | None) -> list[bytes]:
    """Return the rows that an event of a stream has in an index of keys; its version is packed."""
    if cipher is None:
        return [sid + _sha256(key.encode()).digest()[:KEY_ID_BYTES] + version for key in keys]
    return [sid + blind_id(key, cipher) + version for key in keys]


def key_check(row_key: bytes) -> bytes:
    """Return the check value of a row of `keys`, which reveals a bit flip in the key."""
    return _CRC.pack(zlib.crc32(row_key))


def blind_id(key: str, cipher: Cipher | None) -> bytes:
    """Return the fixed-size form of a key that reveals content: a keyed hash, with a cipher."""
    return key_id(key) if cipher is None else cipher.blind(key.encode())[:KEY_ID_BYTES]


def blind_digest(digest: bytes, cipher: Cipher | None) -> bytes:
    """Return the digest of a request as it is stored: nobody may test a guess at what it was."""
    return digest if cipher is None else cipher.blind(digest)


def snapshot_place(sid: bytes, version: int, fingerprint: str) -> bytes:
    """Return the place that binds an encrypted snapshot."""
    return b"snapshot" + sid + version.to_bytes(8, "big") + fingerprint.encode()
