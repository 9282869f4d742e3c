"""A segment: a file of blocks with archived payloads of one stream, written once, never changed.

    segment: magic "EVSEGMNT" | stream id 16 | number u32 | crc u32 | block | block | ...
    block:   crc u32 | magic "EVBK" | format u8 | codec u8 | slots u16 | raw bytes u32
             | stored bytes u32
             | compressed: (version u64 | payload bytes u32) a slot | a salt of 16 a slot | payloads

All integers are big-endian. A stub in the log knows the offset of its block and the slot in it. The
CRC of a block begins with its place, so a block in the wrong place shows. Both sizes are checked
before anything is decompressed.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from eventlog.core.codec import PAYLOAD_BYTES_MAX, SALT_BYTES, inflate
from eventlog.core.errors import (
    CorruptLog,
    LogUnavailable,
    MissingCodec,
    MissingSegment,
    UnknownEvent,
)
from eventlog.core.frame import STREAM_ID_BYTES, Place
from eventlog.files.datafile import TEMPORARY, open_regular

zstandard: Any
try:
    import zstandard
except ImportError:  # it is an extra: zlib then
    zstandard = None

NUMBER_MAX = 2**32 - 1
FORMAT = 1
ZLIB, ZSTD = 1, 2
ZSTD_LEVEL = 10  # 60 MB/s; higher ones gain a few per cent and take several times as long
ZLIB_LEVEL = 9
BLOCK_BYTES = 128 << 10  # of payloads: 0.2 ms to decompress, and larger ones hardly compress better
SLOTS_MAX = 4096

_SEGMENT_HEADER = struct.Struct(f">8s{STREAM_ID_BYTES}sI")
_SEGMENT_MAGIC = b"EVSEGMNT"
_PLACE = struct.Struct(f">{STREAM_ID_BYTES}sIQ")
_NAME = re.compile(
    rf"([0-9a-f]{{{2 * STREAM_ID_BYTES}}})-([0-9]{{8,10}})\.segment({re.escape(TEMPORARY)})?"
)
_BLOCK_HEADER = struct.Struct(">I4sBBHII")
_BLOCK_MAGIC = b"EVBK"
_CRC_BYTES = 4
_SLOT = struct.Struct(">QI")
# Largest content of a block: a block is closed by the entry that makes it large enough.
_RAW_BYTES_MAX = BLOCK_BYTES + PAYLOAD_BYTES_MAX + SLOTS_MAX * (_SLOT.size + SALT_BYTES)


class SegmentId(NamedTuple):
    """The identity of a segment: its stream, and its number there, from 1."""

    sid: bytes
    number: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.sid.hex()}-{self.number:08}.segment"


class Entry(NamedTuple):
    """One archived payload."""

    version: int
    salt: bytes
    raw: bytes
    """Uncompressed."""


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


def parse_name(name: str) -> tuple[SegmentId, bool] | None:
    """Return the segment of an archive file, and whether it is unfinished; or None for other files.

    Only a name that `SegmentId.name` gives is ours.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    segment = SegmentId(bytes.fromhex(match[1]), int(match[2]))
    ours = segment.number <= NUMBER_MAX and name.startswith(segment.name)
    return (segment, match[3] is not None) if ours else None


# --- writing


def build(segment: SegmentId, entries: Sequence[Entry]) -> tuple[bytes, list[Place]]:
    """Return the file of a segment, and where in it each entry is."""
    data = bytearray(_header(segment))
    places: list[Place] = []
    first, size = 0, 0
    for n, entry in enumerate(entries, 1):
        size += len(entry.raw)
        if size >= BLOCK_BYTES or n - first == SLOTS_MAX or n == len(entries):
            offset = len(data)
            data += pack(entries[first:n], place(segment, offset))
            places += [Place(segment.number, offset, slot) for slot in range(n - first)]
            first, size = n, 0
    return bytes(data), places


def pack(entries: Sequence[Entry], place: bytes) -> bytes:
    """Return up to `SLOTS_MAX` entries as a block at `place`."""
    raw = b"".join(
        (
            *(_SLOT.pack(entry.version, len(entry.raw)) for entry in entries),
            *(entry.salt for entry in entries),
            *(entry.raw for entry in entries),
        )
    )
    if zstandard is None:
        codec, stored = ZLIB, zlib.compress(raw, ZLIB_LEVEL)
    else:
        codec, stored = ZSTD, zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(raw)
    sizes = len(entries), len(raw), len(stored)
    header = _BLOCK_HEADER.pack(0, _BLOCK_MAGIC, FORMAT, codec, *sizes)
    rest = header[_CRC_BYTES:] + stored
    return zlib.crc32(rest, zlib.crc32(place)).to_bytes(_CRC_BYTES, "big") + rest


def place(segment: SegmentId, offset: int) -> bytes:
    """Return the place that the CRC of a block begins with."""
    return _PLACE.pack(*segment, offset)


def _header(segment: SegmentId) -> bytes:
    header = _SEGMENT_HEADER.pack(_SEGMENT_MAGIC, *segment)
    return header + zlib.crc32(header).to_bytes(_CRC_BYTES, "big")


# --- reading


def read_block(directory: Path, segment: SegmentId, offset: int) -> ArchiveBlock:
    """Return the block at an offset of a segment's file.

    :raises CorruptLog: it is missing, or is not what was written there.
    :raises LogUnavailable: the system refuses to read it.
    :raises MissingCodec, UnknownEvent: it is not for this program.
    """
    with _opened(directory, segment) as fd:
        return _read(fd, segment, offset)[0]


def walk(directory: Path, segment: SegmentId) -> Iterator[tuple[int, ArchiveBlock]]:
    """Yield each block of a segment's file with its offset. Raises as `read_block` does."""
    with _opened(directory, segment) as fd:
        size = os.fstat(fd).st_size
        offset = len(_header(segment))
        if os.pread(fd, offset, 0) != _header(segment):
            raise CorruptLog(f"{segment.name} does not begin as a segment")
        while offset < size:
            taken, size_of_block = _read(fd, segment, offset)
            yield offset, taken
            offset += size_of_block


@contextmanager
def _opened(directory: Path, segment: SegmentId) -> Iterator[int]:
    try:
        fd = open_regular(directory / segment.name)
    except FileNotFoundError as error:
        raise MissingSegment(f"{segment.name} is missing: restore a backup") from error
    except OSError as error:
        raise LogUnavailable(f"cannot open {segment.name}: {error.strerror}") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _read(fd: int, segment: SegmentId, offset: int) -> tuple[ArchiveBlock, int]:
    try:
        head = os.pread(fd, _BLOCK_HEADER.size, offset)
        size = block_bytes(head)
        return unpack(os.pread(fd, size, offset), place(segment, offset)), size
    except (CorruptLog, OverflowError) as error:  # or an offset that no file has
        raise CorruptLog(
            f"{segment.name}, at {offset}: {error}: restore a backup, or run a verification"
        ) from error
    except OSError as error:
        raise LogUnavailable(f"cannot read {segment.name}: {error.strerror}") from error


def block_bytes(data: bytes) -> int:
    """Return the size of a block by its header, within bounds.

    :raises CorruptLog: there is no block.
    :raises UnknownEvent: the block was written in a newer format.
    """
    if len(data) < _BLOCK_HEADER.size:
        raise CorruptLog(f"the block is cut short: {len(data)} bytes")
    _, magic, fmt, _, _, raw_bytes, stored_bytes = _BLOCK_HEADER.unpack_from(data)
    if magic != _BLOCK_MAGIC:
        raise CorruptLog("there is no block")
    if fmt != FORMAT:
        raise UnknownEvent(f"the block has format {fmt}, not {FORMAT}: upgrade")
    if not 0 < raw_bytes <= _RAW_BYTES_MAX or not 0 < stored_bytes <= 2 * _RAW_BYTES_MAX:
        raise CorruptLog(f"the block says it has {raw_bytes} bytes (max: {_RAW_BYTES_MAX})")
    return _BLOCK_HEADER.size + int(stored_bytes)


def unpack(data: bytes, place: bytes) -> ArchiveBlock:
    """Take a whole block apart.

    :raises CorruptLog: it is not the block that was written at this place.
    :raises MissingCodec: what it was compressed with is not installed.
    :raises UnknownEvent: it was written in a newer format.
    """
    size = block_bytes(data)
    crc, _, _, codec, slots, raw_bytes, _ = _BLOCK_HEADER.unpack_from(data)
    if zlib.crc32(data[_CRC_BYTES:], zlib.crc32(place)) != crc:
        raise CorruptLog("the block fails its CRC")
    if len(data) != size:
        raise CorruptLog(f"the block is cut short: {len(data)} bytes")
    raw = _decompress(codec, data[_BLOCK_HEADER.size :], raw_bytes)
    payloads_at = slots * (_SLOT.size + SALT_BYTES)
    if len(raw) < payloads_at:
        raise CorruptLog(f"the block has no room for its {slots} slots")
    index = list(_SLOT.iter_unpack(raw[: slots * _SLOT.size]))
    ends = list(accumulate((size for _, size in index), initial=payloads_at))
    if ends[-1] != len(raw):
        raise CorruptLog("the block's payloads are not as long as it says")
    return ArchiveBlock(raw, [version for version, _ in index], ends[1:])


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
