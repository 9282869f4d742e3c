"""The frame: how one event lies in the log, and what makes damage show.

    crc u32 | format u8 | flags u8 | schema u16 | tag length u8 | stream id 16 | version u64
    | recorded_at_us i64 | raw bytes u32 | stored bytes u32 | payload digest 32 | chain 32
    | tag | salt 16 | body

All integers are big-endian.

- The CRC covers every byte after it and is combined (xor) with the event's position, so a flipped
  bit and a frame in the wrong place both show, cheaply, on every read.
- The payload digest is SHA-256 over salt and uncompressed payload.
- The chain is SHA-256 over the chain of the event before it in the stream, the immutable header
  fields and the payload digest. It does not cover the payload itself, so a payload can be erased
  and the chain still verifies; the salt goes with the payload, so nobody can test a guess at what
  was erased against the digest that stays.
- The two sizes are those at the time of the append. They stay when a payload is moved or erased.
"""

import functools
import hashlib
import struct
import zlib
from typing import TypeAlias

import msgspec

from eventlog.codec import SALT_BYTES, decompress
from eventlog.errors import CorruptLog, UnknownEvent
from eventlog.records import Prepared

FORMAT = 1
COMPRESSED = 1  # flag: the body is zlib
STREAM_ID_BYTES = 16  # of a SHA-256; the stream's record holds the whole name to compare
CHAIN_BYTES = 32

_HEADER = struct.Struct(">IBBHB16sQqII32s32s")
_READ = struct.Struct(">IBBHB16sQqII64x")  # the header without digest and chain
_CHAINED = struct.Struct(">BHB16sQqII")
_CRC = struct.Struct(">I")


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A frame taken apart, its CRC checked."""

    flags: int
    schema: int
    stream_id: bytes
    version: int
    recorded_at_us: int
    raw_bytes: int
    stored_bytes: int
    digest: bytes
    chain: bytes
    tag: str
    salt: bytes
    body: bytes


@functools.lru_cache(8192)
def stream_id(name: str) -> bytes:
    """Return the fixed-size key of a stream: no name is a prefix of another."""
    return hashlib.sha256(name.encode()).digest()[:STREAM_ID_BYTES]


def chain_start(sid: bytes) -> bytes:
    """Return the chain of a stream before its first event."""
    return hashlib.sha256(b"eventlog:" + sid).digest()


def pack(
    prepared: Prepared, *, position: int, sid: bytes, version: int, recorded_at_us: int, prev: bytes
) -> tuple[bytes, bytes]:
    """Return the frame of an event and its chain value."""
    digest = hashlib.sha256(prepared.salt + prepared.raw).digest()
    tag = prepared.tag.encode()
    sizes = len(prepared.raw), len(prepared.body)
    chain = _chain(prev, tag, digest, prepared.schema, sid, version, recorded_at_us, *sizes)
    flags = COMPRESSED if prepared.compressed else 0
    header = _HEADER.pack(
        0, FORMAT, flags, prepared.schema, len(tag), sid, version, recorded_at_us, *sizes,
        digest, chain,
    )  # fmt: skip
    rest = b"".join((header[_CRC.size :], tag, prepared.salt, prepared.body))
    return _CRC.pack(zlib.crc32(rest) ^ _place(position)) + rest, chain


Taken: TypeAlias = tuple[bytes, int, int, int, int, int, bytes, bytes]
"""Stream id, version, recorded_at_us, raw and stored bytes, schema, tag, uncompressed payload."""


def read(position: int, data: bytes) -> Taken:
    """Return what a reader needs of a frame, its CRC checked: the hot path of every replay.

    A plain tuple, because an object with names would cost a tenth of it. Raises as `unpack` does.
    """
    if len(data) < _READ.size:
        raise CorruptLog(f"event {position} is cut short: {len(data)} bytes")
    crc, fmt, flags, schema, tag_bytes, sid, version, at_us, raw_bytes, stored_bytes = (
        _READ.unpack_from(data)
    )
    _check(position, data, crc, fmt, flags)
    body_at = _READ.size + tag_bytes + SALT_BYTES
    body = data[body_at:]
    if flags & COMPRESSED:
        body = decompress(body, raw_bytes)
    tag = data[_READ.size : _READ.size + tag_bytes]
    return sid, version, at_us, raw_bytes, stored_bytes, schema, tag, body


def unpack(position: int, data: bytes) -> Frame:
    """Take a frame apart, digest and chain included.

    :raises CorruptLog: it is not the frame that was written at this position.
    :raises UnknownEvent: it was written in a newer format.
    """
    if len(data) < _HEADER.size:
        raise CorruptLog(f"event {position} is cut short: {len(data)} bytes")
    (
        crc, fmt, flags, schema, tag_bytes, sid, version, recorded_at_us, raw_bytes, stored_bytes,
        digest, chain,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    _check(position, data, crc, fmt, flags)
    salt_at = _HEADER.size + tag_bytes
    body_at = salt_at + SALT_BYTES
    tag = data[_HEADER.size : salt_at].decode()
    return Frame(
        flags, schema, sid, version, recorded_at_us, raw_bytes, stored_bytes, digest, chain,
        tag, data[salt_at:body_at], data[body_at:],
    )  # fmt: skip


def _check(position: int, data: bytes, crc: int, fmt: int, flags: int) -> None:
    if zlib.crc32(data[_CRC.size :]) ^ _place(position) != crc:
        raise CorruptLog(f"event {position} fails its CRC: restore a backup, or run a verification")
    if fmt != FORMAT:
        raise UnknownEvent(f"event {position} has frame format {fmt}, not {FORMAT}: upgrade")
    if flags & ~COMPRESSED:
        raise UnknownEvent(f"event {position} has unknown flags {flags:#x}: upgrade")


def chain_of(data: bytes) -> bytes:
    """Return the chain value in a frame, unchecked."""
    return data[_HEADER.size - CHAIN_BYTES : _HEADER.size]


def payload(frame: Frame) -> bytes:
    """Return the uncompressed payload of a frame."""
    return decompress(frame.body, frame.raw_bytes) if frame.flags & COMPRESSED else frame.body


def check_chain(frame: Frame, prev: bytes) -> bool:
    """Say whether digest and chain of a frame follow from its content and `prev`."""
    digest = hashlib.sha256(frame.salt + payload(frame)).digest()
    chain = _chain(
        prev, frame.tag.encode(), frame.digest, frame.schema, frame.stream_id, frame.version,
        frame.recorded_at_us, frame.raw_bytes, frame.stored_bytes,
    )  # fmt: skip
    return digest == frame.digest and chain == frame.chain


def _chain(
    prev: bytes, tag: bytes, digest: bytes, schema: int, sid: bytes, version: int, *rest: int
) -> bytes:
    header = _CHAINED.pack(FORMAT, schema, len(tag), sid, version, *rest)
    return hashlib.sha256(b"".join((prev, header, tag, digest))).digest()


def _place(position: int) -> int:
    """Fold a position into 32 bits: two that differ in one bit, or below 2**32, fold apart."""
    return (position ^ position >> 32) & 0xFFFFFFFF
