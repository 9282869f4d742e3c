"""A segment: a file of blocks with payloads of one stream, written once and never changed.

    magic "EVSEGMNT" | stream id 16 | number u32 | crc u32 | block | block | ...

Its name is the stream's id and the segment's number, never anything that a user gave. A payload is
found by the offset of its block and the slot in it, which its stub in the log knows; nothing in the
file has to be searched. A block begins where the one before it ends, so the file can also be walked
from front to back.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from eventlog.archive import block
from eventlog.archive.block import BLOCK_BYTES, SLOTS_MAX, ArchiveBlock, Entry
from eventlog.core.errors import CorruptLog, LogUnavailable, MissingSegment
from eventlog.core.frame import STREAM_ID_BYTES, Place
from eventlog.files.datafile import TEMPORARY, open_regular

NUMBER_MAX = 2**32 - 1

_HEADER = struct.Struct(f">8s{STREAM_ID_BYTES}sI")
_MAGIC = b"EVSEGMNT"
_CRC_BYTES = 4
_PLACE = struct.Struct(f">{STREAM_ID_BYTES}sIQ")
_NAME = re.compile(
    rf"([0-9a-f]{{{2 * STREAM_ID_BYTES}}})-([0-9]{{8,10}})\.segment({re.escape(TEMPORARY)})?"
)


class SegmentId(NamedTuple):
    """The identity of a segment: its stream, and its number there, from 1."""

    sid: bytes
    number: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.sid.hex()}-{self.number:08}.segment"


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


def build(segment: SegmentId, entries: Sequence[Entry]) -> tuple[bytes, list[Place]]:
    """Return the file of a segment, and where in it each entry is."""
    data = bytearray(_header(segment))
    places: list[Place] = []
    for together in _grouped(entries):
        offset = len(data)
        data += block.pack(together, _place(segment, offset))
        places += [Place(segment.number, offset, slot) for slot in range(len(together))]
    return bytes(data), places


def _grouped(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Yield the entries of each block: as many as make it large enough."""
    first, size = 0, 0
    for n, entry in enumerate(entries):
        size += len(entry.raw)
        if size >= BLOCK_BYTES or n + 1 - first == SLOTS_MAX:
            yield entries[first : n + 1]
            first, size = n + 1, 0
    if first < len(entries):
        yield entries[first:]


def read_block(directory: Path, segment: SegmentId, offset: int) -> ArchiveBlock:
    """Return the block at an offset of a segment's file.

    :raises CorruptLog: it is missing, or is not what was written there.
    :raises LogUnavailable: the system refuses to read it.
    :raises MissingCodec: it is not for this program.
    :raises UnknownEvent: it is not for this program.
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


def _read(fd: int, segment: SegmentId, offset: int) -> tuple[ArchiveBlock, int]:
    try:
        head = os.pread(fd, block.HEADER_BYTES, offset)
        size = block.HEADER_BYTES + block.unpack_header(head).stored_bytes
        return block.unpack(os.pread(fd, size, offset), _place(segment, offset)), size
    except CorruptLog as error:
        raise CorruptLog(
            f"{segment.name}, at {offset}: {error}: restore a backup, or run a verification"
        ) from error
    except OSError as error:
        raise LogUnavailable(f"cannot read {segment.name}: {error.strerror}") from error


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


def _header(segment: SegmentId) -> bytes:
    header = _HEADER.pack(_MAGIC, *segment)
    return header + zlib.crc32(header).to_bytes(_CRC_BYTES, "big")


def _place(segment: SegmentId, offset: int) -> bytes:
    return _PLACE.pack(*segment, offset)
