"""A block: the payloads of many archived events, compressed together. Bytes in, bytes out.

    crc u32 | magic "EVBK" | format u8 | codec u8 | slots u16 | raw bytes u32 | stored bytes u32
    | compressed: (version u64 | payload bytes u32) a slot | a salt of 16 a slot | the payloads

All integers are big-endian. The CRC covers everything behind it and begins with the block's place
(its stream, segment and offset), so a flipped bit and a block in the wrong place both show. Both
sizes are checked before anything is decompressed.

Payloads compress several times better together than alone, and a reader decompresses a block once
for all it wants of it: `BLOCK_BYTES` is where both are good.
"""

import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from eventlog.core.codec import PAYLOAD_BYTES_MAX, SALT_BYTES, inflate
from eventlog.core.errors import CorruptLog, MissingCodec, UnknownEvent

zstandard: Any
try:
    import zstandard
except ImportError:  # it is an extra: zlib then
    zstandard = None

FORMAT = 1
ZLIB, ZSTD = 1, 2
ZSTD_LEVEL = 10  # 60 MB/s; higher ones gain a few per cent and take several times as long
ZLIB_LEVEL = 9
BLOCK_BYTES = 128 << 10  # of payloads: 0.2 ms to decompress, and larger ones hardly compress better
SLOTS_MAX = 4096

_HEADER = struct.Struct(">I4sBBHII")
_MAGIC = b"EVBK"
_CRC_BYTES = 4
_SLOT = struct.Struct(">QI")
# Largest content of a block: a block is closed by the entry that makes it large enough.
_RAW_BYTES_MAX = BLOCK_BYTES + PAYLOAD_BYTES_MAX + SLOTS_MAX * (_SLOT.size + SALT_BYTES)
HEADER_BYTES = _HEADER.size


class Entry(NamedTuple):
    """One archived payload."""

    version: int
    salt: bytes
    raw: bytes
    """Uncompressed."""


class Header(NamedTuple):
    """The header of a block: all that is known before its content is read."""

    crc: int
    codec: int
    slots: int
    raw_bytes: int
    stored_bytes: int


class ArchiveBlock(msgspec.Struct, frozen=True, gc=False):
    """A block taken apart."""

    raw: bytes
    versions: list[int]
    ends: list[int]
    """The end of each payload in `raw`. The first begins where the salts end."""

    def entry(self, slot: int) -> Entry:
        """Return the entry in a slot.

        :raises CorruptLog: there is no such slot.
        """
        if not 0 <= slot < len(self.versions):
            raise CorruptLog(f"the block has no slot {slot}, but {len(self.versions)} of them")
        payloads_at = len(self.versions) * (_SLOT.size + SALT_BYTES)
        salt_at = len(self.versions) * _SLOT.size + slot * SALT_BYTES
        start = self.ends[slot - 1] if slot else payloads_at
        salt = self.raw[salt_at : salt_at + SALT_BYTES]
        return Entry(self.versions[slot], salt, self.raw[start : self.ends[slot]])


def pack(entries: Sequence[Entry], place: bytes) -> bytes:
    """Return up to `SLOTS_MAX` entries as a block at `place`."""
    raw = b"".join(
        (
            *(_SLOT.pack(entry.version, len(entry.raw)) for entry in entries),
            *(entry.salt for entry in entries),
            *(entry.raw for entry in entries),
        )
    )
    codec, stored = _compress(raw)
    header = _HEADER.pack(0, _MAGIC, FORMAT, codec, len(entries), len(raw), len(stored))
    rest = header[_CRC_BYTES:] + stored
    return zlib.crc32(rest, zlib.crc32(place)).to_bytes(_CRC_BYTES, "big") + rest


def unpack_header(data: bytes) -> Header:
    """Return the header of a block; what it says of sizes is within bounds.

    :raises CorruptLog: it is none.
    :raises UnknownEvent: the block was written in a newer format.
    """
    if len(data) < _HEADER.size:
        raise CorruptLog(f"the block is cut short: {len(data)} bytes")
    crc, magic, fmt, codec, slots, raw_bytes, stored_bytes = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptLog("there is no block")
    if fmt != FORMAT:
        raise UnknownEvent(f"the block has format {fmt}, not {FORMAT}: upgrade")
    if not 0 < raw_bytes <= _RAW_BYTES_MAX or not 0 < stored_bytes <= 2 * _RAW_BYTES_MAX:
        raise CorruptLog(f"the block says it has {raw_bytes} bytes (max: {_RAW_BYTES_MAX})")
    return Header(crc, codec, slots, raw_bytes, stored_bytes)


def unpack(data: bytes, place: bytes) -> ArchiveBlock:
    """Take a whole block apart.

    :raises CorruptLog: it is not the block that was written at this place.
    :raises MissingCodec: what it was compressed with is not installed.
    :raises UnknownEvent: it was written in a newer format.
    """
    header = unpack_header(data)
    if zlib.crc32(data[_CRC_BYTES:], zlib.crc32(place)) != header.crc:
        raise CorruptLog("the block fails its CRC")
    if len(data) != _HEADER.size + header.stored_bytes:
        raise CorruptLog(f"the block is cut short: {len(data)} bytes")
    raw = _decompress(header.codec, data[_HEADER.size :], header.raw_bytes)
    payloads_at = header.slots * (_SLOT.size + SALT_BYTES)
    if len(raw) < payloads_at:
        raise CorruptLog(f"the block has no room for its {header.slots} slots")
    index = list(_SLOT.iter_unpack(raw[: header.slots * _SLOT.size]))
    ends = list(accumulate((size for _, size in index), initial=payloads_at))[1:]
    if (ends[-1] if ends else payloads_at) != len(raw):
        raise CorruptLog("the block's payloads are not as long as it says")
    return ArchiveBlock(raw, [version for version, _ in index], ends)


def _compress(raw: bytes) -> tuple[int, bytes]:
    if zstandard is None:
        return ZLIB, zlib.compress(raw, ZLIB_LEVEL)
    return ZSTD, zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(raw)


def _decompress(codec: int, stored: bytes, raw_bytes: int) -> bytes:
    """Return exactly `raw_bytes`, which are not too many; take no more memory than that."""
    if codec == ZLIB:
        return inflate(stored, raw_bytes)
    if codec != ZSTD:
        raise UnknownEvent(f"the block has the unknown codec {codec}: upgrade")
    if zstandard is None:
        raise MissingCodec("the archive is compressed with zstd: pip install zstandard")
    try:
        if zstandard.frame_content_size(stored) != raw_bytes:
            raise CorruptLog(f"the block does not decompress to its {raw_bytes} bytes")
        raw: bytes = zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptLog(f"the block does not decompress: {error}") from error
    return raw
