"""The head anchor: a small file that remembers where the log ended.

LMDB keeps two meta pages and believes the newer one that it can read. A damaged newest page
therefore rolls the last transaction back without a word, and nothing inside the file can tell. The
anchor lies outside it: after each commit it gets the position and the chain value of the last
event. At the next open the event at that position must be there and have that chain.

The anchor is written after the commit and not synced with it (a second fsync would halve the
throughput), so it may lag after a power loss, and never leads. Two slots are written in turn, so a
torn write leaves the other.
"""

import os
import struct
import zlib
from pathlib import Path

from eventlog.errors import LogUnavailable

_SLOT = struct.Struct(">Q32sI")
SLOTS = 2


class Anchor:
    """Position and chain of the last event known to be committed."""

    def __init__(self, path: Path):
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LogUnavailable(f"cannot open {path}: {error.strerror}") from error
        self._turn = 0

    def read(self) -> tuple[int, bytes]:
        """Return the newest whole slot, `(0, b"")` if there is none."""
        slots = [os.pread(self._fd, _SLOT.size, turn * _SLOT.size) for turn in range(SLOTS)]
        return max((_slot(data) for data in slots), default=(0, b""))

    def write(self, position: int, chain: bytes) -> None:
        """Remember a commit."""
        content = _SLOT.pack(position, chain, 0)[:-4]
        data = content + zlib.crc32(content).to_bytes(4, "big")
        self._turn = (self._turn + 1) % SLOTS
        os.pwrite(self._fd, data, self._turn * _SLOT.size)

    def close(self) -> None:
        """Sync and close."""
        os.fsync(self._fd)
        os.close(self._fd)


def _slot(data: bytes) -> tuple[int, bytes]:
    if len(data) < _SLOT.size:
        return 0, b""
    position, chain, crc = _SLOT.unpack(data)
    return (position, chain) if zlib.crc32(data[:-4]) == crc else (0, b"")
