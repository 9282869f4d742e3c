"""Memory that the process does not need: free pages that glibc keeps, pages of mapped files."""

import ctypes
from contextlib import suppress
from typing import Final

from eventlog.files import mapped

LOOSE_BYTES: Final = 2 << 20
_LARGE_BYTES: Final = 1 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names for `mallopt`
LOOSE_SHARE: Final = 1 / 16
"""See `HeapTrimming`. At 10,000 memories giving back takes 1 ms, and brings 5 to 8 MB."""


def give_back() -> None:
    """Give free pages back to the operating system, with glibc.

    For some milliseconds a 100 MB no thread can allocate anything: call it rarely.
    """
    _in_glibc("malloc_trim", 0)
    mapped.release_pages()


def keep_large_apart() -> None:
    """Have glibc take buffers from 1 MiB on from the system, and give each back when it is freed.

    In its heap they leave holes: a third of the memory of a process after a load.
    """
    _in_glibc("mallopt", _MMAP_THRESHOLD, _LARGE_BYTES)
    _in_glibc("mallopt", _TRIM_THRESHOLD, 2 * _LARGE_BYTES)  # as it would set by itself


class HeapTrimming:
    """Tells from time to time whether giving back pays, by what is held in the heap.

    Trimming pays after a change of `LOOSE_BYTES`, or of `LOOSE_SHARE` if that is more, because a
    larger heap takes longer to trim; once all is quiet, after `LOOSE_SHARE` of that change, and
    always if it was done in use: work behind the last call leaves free pages as well.
    """

    def __init__(self) -> None:
        self._given_back_at_bytes = 0
        self._uses = 0
        self._given_back_in_use = False

    def take_due(self, held_bytes: int, uses: int) -> bool:
        """Say whether pages are due to be given back, and take it that they will be.

        `uses` counts whatever allocates.
        """
        least = max(LOOSE_BYTES, LOOSE_SHARE * held_bytes)
        in_use, self._uses = uses != self._uses, uses
        if not in_use:
            least *= 0 if self._given_back_in_use else LOOSE_SHARE
        if abs(held_bytes - self._given_back_at_bytes) < least:
            return False
        self._given_back_at_bytes, self._given_back_in_use = held_bytes, in_use
        return True


def _in_glibc(name: str, *values: int) -> None:
    """Call a function that other C libraries, of musl or Windows, do not have."""
    with suppress(OSError, AttributeError, TypeError):
        getattr(ctypes.CDLL(None), name)(*values)
