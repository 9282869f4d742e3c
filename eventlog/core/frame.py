"""The frame: how one event lies in the log, and what makes damage show.

    crc u32 | format u8 | flags u8 | schema u16 | tag length u8 | stream id 16 | version u64
    | recorded_at_us i64 | raw bytes u32 | stored bytes u32 | payload digest 32 | chain 32
    | tag | salt 16 | body

All integers are big-endian. The sizes are those at the time of the append, before encryption. A
payload that is archived or erased leaves a stub: behind the tag, in the place of salt and body,

    ARCHIVED    segment number u32 | offset of the block u64 | slot in the block u16
    ERASED      erased_at_us i64

Chains verify from stubs as they did before. docs/internals/log-format.md says what CRC, digest and
chain cover, and what `REDACTED` and `ENCRYPTED` frames have.
"""

import functools
import hashlib
import struct
import zlib
from typing import NamedTuple, TypeAlias

from eventlog.core.codec import SALT_BYTES, decompress
from eventlog.core.errors import CorruptLog, UnknownEvent
from eventlog.core.keys import Cipher
from eventlog.core.records import Prepared

FORMAT = 1
COMPRESSED = 1  # flag: the body is zlib
ARCHIVED = 2  # flag: a pointer into the archive stands in the place of salt and body
ERASED = 4  # flag: the time when they were erased does
ENCRYPTED = 8  # flag: the body is encrypted; stays with a stub of the archive
REDACTED = 16  # flag: another payload stands in the place of the one that the digest is of
STREAM_ID_BYTES = 16  # of a SHA-256; the stream's record holds the whole name to compare
CHAIN_BYTES = 32

_HEADER = struct.Struct(">IBBHB16sQqII32s32s")
_READ = struct.Struct(">IBBHB16sQqII64x")  # the header without digest and chain
FIELDS = struct.Struct(">BBHB16sQqII")  # that, without the CRC
_CRC = struct.Struct(">I")
_POINTER = struct.Struct(">IQH")
_TIME = struct.Struct(">q")
_PLACE = struct.Struct(">5s16sQH")
_head = _READ.unpack_from
_READ_BYTES = _READ.size
_CRC_BYTES = _CRC.size
_FLAGS_AT = 5
_TAG_BYTES_AT = 8
_HEADER_BYTES = _HEADER.size
BESIDE_FIELDS_BYTES = _HEADER_BYTES - FIELDS.size  # CRC, digest and chain
# Slices of a frame that are made once: to make one costs as much as to take it.
STREAM = slice(_TAG_BYTES_AT + 1, _TAG_BYTES_AT + 1 + STREAM_ID_BYTES)
STREAM_AND_VERSION = slice(STREAM.start, STREAM.stop + 8)
CHAIN = slice(_HEADER_BYTES - CHAIN_BYTES, _HEADER_BYTES)
_DIGEST = slice(CHAIN.start - CHAIN_BYTES, CHAIN.start)
_BEHIND_CRC = slice(_CRC_BYTES, None)
_BEHIND_FLAGS = slice(_FLAGS_AT + 1, _DIGEST.start)
_FORMAT_BYTE = bytes([FORMAT])
_sha256, _crc32 = hashlib.sha256, zlib.crc32  # a name to look up costs as much as a slice


class Place(NamedTuple):
    """The place of a payload in the archive of its stream."""

    number: int
    """Of the segment."""
    offset: int
    """Offset of the block in the segment."""
    slot: int
    """In the block."""


class Pointer(NamedTuple):
    """A pointer that a stub has in the place of a payload."""

    place: Place
    digest: bytes
    is_encrypted: bool = False


class Encrypted(NamedTuple):
    """A payload that is encrypted."""

    data: bytes
    is_redacted: bool = False
    """True: the sizes in the header are those of another one."""


class ErasedMark(NamedTuple):
    """The mark that stays of a payload that was erased."""

    erased_at_us: int


Payload: TypeAlias = bytes | Pointer | ErasedMark | Encrypted
Taken: TypeAlias = tuple[bytes, int, int, int, int, int, bytes, Payload]
"""Stream id, version, recorded_at_us, raw and stored bytes, schema, tag, uncompressed payload."""


class Frame(NamedTuple):
    """A frame taken apart, its CRC checked."""

    stream_id: bytes
    version: int
    recorded_at_us: int
    raw_bytes: int
    stored_bytes: int
    schema: int
    tag: bytes
    payload: Payload
    """Uncompressed; or the mark that stands for it."""
    data: bytes
    """All of it."""

    @property
    def place(self) -> Place | None:
        """The place of the payload in the archive, None if it is not there."""
        return self.payload.place if isinstance(self.payload, Pointer) else None

    @property
    def gone(self) -> ErasedMark | None:
        """The mark of a payload that was erased."""
        return self.payload if isinstance(self.payload, ErasedMark) else None

    @property
    def is_encrypted(self) -> bool:
        """True if the payload is encrypted."""
        return bool(self.data[_FLAGS_AT] & ENCRYPTED)

    @property
    def salt(self) -> bytes:
        """The salt before the payload of a frame that has it."""
        salt_at = _HEADER_BYTES + len(self.tag)
        return self.data[salt_at : salt_at + SALT_BYTES]

    @property
    def digest(self) -> bytes:
        """The digest of salt and payload."""
        return self.data[_DIGEST]

    @property
    def chain(self) -> bytes:
        """The chain value of the event."""
        return self.data[CHAIN]

    def follows(self, prev: bytes) -> bool:
        """Say whether digest and chain follow from the content and a chain value."""
        return follows(self.data, self.tag, self.payload, prev)


@functools.lru_cache(8192)
def stream_id(name: str) -> bytes:
    """Return the fixed-size key of a stream: no name is a prefix of another."""
    return hashlib.sha256(name.encode()).digest()[:STREAM_ID_BYTES]


def chain_start(sid: bytes) -> bytes:
    """Return the chain of a stream before its first event."""
    return hashlib.sha256(b"eventlog:" + sid).digest()


def place_of(sid: bytes, version: int, schema: int, tag: bytes) -> bytes:
    """Return the place that binds an encrypted payload."""
    return _PLACE.pack(b"event", sid, version, schema) + tag


def pack(
    prepared: Prepared,
    *,
    position: int,
    sid: bytes,
    version: int,
    recorded_at_us: int,
    prev: bytes,
    cipher: Cipher | None = None,
) -> tuple[bytes, bytes]:
    """Return the frame of an event and its chain value; encrypted, if there is a cipher."""
    tag, raw, body = prepared.tag.encode(), prepared.raw, prepared.body
    flags, digested, stored_bytes = COMPRESSED if prepared.compressed else 0, raw, len(body)
    if cipher is not None:
        body = cipher.encrypt(body, place_of(sid, version, prepared.schema, tag))
        flags, digested = ENCRYPTED, body
    digest = digest_of(prepared.salt, digested)
    fields = FIELDS.pack(
        FORMAT, flags, prepared.schema, len(tag), sid, version, recorded_at_us, len(raw),
        stored_bytes,
    )  # fmt: skip
    chain = _sha256(b"".join((prev, fields[:1], fields[2:], tag, digest))).digest()
    rest = b"".join((fields, digest, chain, tag, prepared.salt, body))
    return _CRC.pack(zlib.crc32(rest) ^ _fold(position)) + rest, chain


def read(position: int, data: bytes) -> Taken:
    """Return a frame's fields after checking its CRC: the hot path of every replay.

    A plain tuple, because an object with names would cost a tenth of it.

    :raises CorruptLog: it is not the frame that was written at this position.
    :raises UnknownEvent: it was written in a newer format.
    """
    if len(data) < _READ_BYTES:
        raise CorruptLog(f"event {position} is cut short: {len(data)} bytes")
    crc, fmt, flags, schema, tag_bytes, sid, version, at_us, raw_bytes, stored_bytes = _head(data)
    if flags or fmt != FORMAT or _crc32(data[_BEHIND_CRC]) ^ position != crc:
        _check(position, data, crc, fmt, flags)  # mostly not called: it costs a tenth of a read
    tag_end = _READ_BYTES + tag_bytes
    tag, body = data[_READ_BYTES:tag_end], data[tag_end + SALT_BYTES :]
    if not flags:
        return sid, version, at_us, raw_bytes, stored_bytes, schema, tag, body
    if flags == ENCRYPTED:
        return sid, version, at_us, raw_bytes, stored_bytes, schema, tag, Encrypted(body)
    if flags == COMPRESSED:
        raw = decompress(body, raw_bytes)
        return sid, version, at_us, raw_bytes, stored_bytes, schema, tag, raw
    if flags & REDACTED:
        instead = Encrypted(body, True) if flags & ENCRYPTED else body
        return sid, version, at_us, raw_bytes, stored_bytes, schema, tag, instead
    _check_text(position, tag)
    payload: Payload
    if flags == ERASED:
        if len(data) != tag_end + _TIME.size:
            raise CorruptLog(f"event {position} is erased and does not say when")
        payload = ErasedMark(*_TIME.unpack_from(data, tag_end))
    else:
        if len(data) != tag_end + _POINTER.size:
            raise CorruptLog(f"event {position} is in the archive and does not say where")
        place = Place(*_POINTER.unpack_from(data, tag_end))
        payload = Pointer(place, data[_DIGEST], bool(flags & ENCRYPTED))
    return sid, version, at_us, raw_bytes, stored_bytes, schema, tag, payload


def unpack(position: int, data: bytes) -> Frame:
    """Take a frame apart. Raises as `read` does."""
    taken = Frame(*read(position, data), data)
    _check_text(position, taken.tag)
    return taken


def _check_text(position: int, tag: bytes) -> None:
    try:
        tag.decode()
    except UnicodeDecodeError as error:
        raise CorruptLog(f"event {position} has a type whose name is no text") from error


def stub(position: int, data: bytes, place: Place) -> bytes:
    """Return the stub of a frame with a valid CRC, whose payload moves to `place`."""
    return _stub(position, data, ARCHIVED | data[_FLAGS_AT] & ENCRYPTED, _POINTER.pack(*place))


def erased(position: int, data: bytes, at_us: int) -> bytes:
    """Return the stub of a frame whose payload is erased, even if that is damaged.

    The CRC is made anew, so damage to the header no longer fails it; it breaks the chain.

    :raises CorruptLog: it is cut short.
    """
    if len(data) < _HEADER.size or len(data) < _HEADER.size + data[_TAG_BYTES_AT]:
        raise CorruptLog(f"event {position} is cut short: {len(data)} bytes")
    return _stub(position, data, ERASED, _TIME.pack(at_us))


def redacted(position: int, data: bytes, body: bytes) -> bytes:
    """Return a frame with a valid CRC, or the stub of one, with another payload.

    `body` is not compressed; it is encrypted where the payload was.
    """
    flags = REDACTED | data[_FLAGS_AT] & ENCRYPTED
    return _stub(position, data, flags, bytes(SALT_BYTES) + body)


def is_redacted(data: bytes) -> bool:
    """Say whether another payload stands in a frame than the one that it had, unchecked."""
    return bool(data[_FLAGS_AT] & REDACTED)


def _stub(position: int, data: bytes, flags: int, instead: bytes) -> bytes:
    """Return the header of a frame with other flags, its tag, and `instead` of the rest."""
    kept = data[_FLAGS_AT + 1 : _HEADER.size + data[_TAG_BYTES_AT]]
    return moved(position, b"".join((data[:_FLAGS_AT], bytes([flags]), kept, instead)))


def refilled(position: int, data: bytes, salt: bytes, raw: bytes) -> bytes:
    """Return the frame of which a stub is left, with its payload, uncompressed, in its place."""
    return _stub(position, data, data[_FLAGS_AT] & ENCRYPTED, salt + raw)


def moved(position: int, data: bytes) -> bytes:
    """Return a frame, whose CRC was checked, as it lies at another position."""
    rest = data[_CRC.size :]
    return _CRC.pack(zlib.crc32(rest) ^ _fold(position)) + rest


def split(data: bytes) -> tuple[bytes, bytes]:
    """Return a frame that has its payload as two: header with tag, and salt with body."""
    payload_at = _HEADER.size + data[_TAG_BYTES_AT]
    return data[:payload_at], data[payload_at:]


def is_erased(data: bytes) -> bool:
    """Say whether a frame is the stub of an erased payload, unchecked."""
    return len(data) > _FLAGS_AT and data[_FLAGS_AT] == ERASED


def header_of(data: bytes) -> bytes:
    """Return the part of a frame before its tag: no two frames have the same."""
    return data[: _HEADER.size]


def _check(position: int, data: bytes, crc: int, fmt: int, flags: int) -> None:
    if zlib.crc32(data[_CRC.size :]) ^ _fold(position) != crc:
        raise CorruptLog(f"event {position} fails its CRC: restore a backup, or run a verification")
    if fmt != FORMAT:
        raise UnknownEvent(f"event {position} has frame format {fmt}, not {FORMAT}: upgrade")
    known = (0, COMPRESSED, ARCHIVED, ERASED, ENCRYPTED, ENCRYPTED | ARCHIVED)
    if flags not in (*known, REDACTED, ENCRYPTED | REDACTED):
        raise UnknownEvent(f"event {position} has unknown flags {flags:#x}: upgrade")


def chain_of(data: bytes) -> bytes:
    """Return the chain value in a frame, unchecked."""
    return data[CHAIN]


def digest_of(salt: bytes, raw: bytes) -> bytes:
    """Return the digest of an uncompressed payload."""
    return _sha256(salt + raw).digest()


def follows(data: bytes, tag: bytes, payload: Payload, prev: bytes) -> bool:
    """Say whether digest and chain of a frame, of which `read` gave this tag and payload, follow.

    The payload of a stub is not there to be compared with its digest.
    """
    digest = data[_DIGEST]
    covered = b"".join((prev, _FORMAT_BYTE, data[_BEHIND_FLAGS], tag, digest))
    if _sha256(covered).digest() != data[CHAIN]:
        return False
    if is_redacted(data):
        return True
    salted = data[_HEADER_BYTES + len(tag) :]
    if type(payload) is bytes:
        if len(payload) != len(salted) - SALT_BYTES:  # it is compressed in the frame
            salted = salted[:SALT_BYTES] + payload
    elif type(payload) is not Encrypted:
        return True
    return _sha256(salted).digest() == digest


def _fold(position: int) -> int:
    """Fold a position into 32 bits: two that differ in one bit, or below 2**32, fold apart."""
    return (position ^ position >> 32) & 0xFFFFFFFF


def erased_name(sid: bytes) -> str:
    """Return the stream name that erased events have."""
    return f"erased:{sid.hex()}"
