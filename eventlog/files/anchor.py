"""The head anchor: a small file that remembers where the log ended.

LMDB keeps two meta pages and believes the newer one that it can read. A damaged newest page
therefore rolls the last transaction back without a word, and nothing inside the file can tell. The
anchor lies outside it: after each commit it gets the position and the chain value of the last
event, and the number of LMDB's transaction (for commits without events). At the next open the event
at that position must be there with that chain, and no later transaction may be missing.

LMDB counts transactions from 1 in each file. Shrinking a log gives it a new file, so what is
compared is counted over all files the log has had: the new one stores how many were committed
before it. Its numbers are therefore higher than any in the old one. A crash between the swap and
the anchor leaves an anchor that lags, as after a power loss; the old file in the place of the new
one, or a new one that lost its last commit, is behind the anchor and is refused.

The anchor is written after the commit and not synced with it (a second fsync would halve the
throughput), so it may lag after a power loss, and never leads. Two slots are written in turn, so a
torn write leaves the other.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from eventlog.core.errors import LogUnavailable
from eventlog.core.logs import get_logger
from eventlog.files.datafile import MADE, open_regular

_SLOT = struct.Struct(">QQ32s")
_CRC_BYTES = 4
SLOTS = 2

_logger = get_logger("eventlog")


class Tail(NamedTuple):
    """The end of a log. Compares by transaction."""

    transaction: int = 0
    position: int = 0
    chain: bytes = b""

    @property
    def is_known(self) -> bool:
        """True if anything was ever committed, as far as the anchor can be read."""
        return self.transaction > 0


class Anchor:
    """The last tail known to be committed."""

    def __init__(self, path: Path):
        try:
            self._fd = open_regular(path, os.O_RDWR | MADE)
        except OSError as error:
            raise LogUnavailable(f"cannot open {path}: {error.strerror}") from error
        self._turn = 0

    def read(self) -> Tail:
        """Return the newest whole slot, `Tail()` if there is none."""
        size = _SLOT.size + _CRC_BYTES
        return max(_unpack(os.pread(self._fd, size, turn * size)) for turn in range(SLOTS))

    def write(self, tail: Tail) -> None:
        """Remember a commit. A failure is logged: the anchor then lags, and the log goes on."""
        data = _SLOT.pack(*tail)
        data += zlib.crc32(data).to_bytes(_CRC_BYTES, "big")
        self._turn = (self._turn + 1) % SLOTS
        try:
            os.pwrite(self._fd, data, self._turn * len(data))
        except OSError as error:
            _logger.warning("anchor not written", error=str(error))

    def close(self) -> None:
        """Sync and close. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            os.fsync(fd)
        except OSError as error:
            _logger.warning("anchor not synced", error=str(error))
        finally:
            os.close(fd)


def read_anchor(path: Path) -> Tail:
    """Return the content of the anchor at a path, and close it. It is made if it is missing."""
    anchor = Anchor(path)
    try:
        return anchor.read()
    finally:
        anchor.close()


def _unpack(data: bytes) -> Tail:
    content, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    if len(content) != _SLOT.size or zlib.crc32(content).to_bytes(_CRC_BYTES, "big") != crc:
        return Tail()
    transaction, position, chain = _SLOT.unpack(content)
    return Tail(transaction, position, chain if position else b"")
