"""Memory that the process has and does not need.

The heap of the C library keeps for itself what was freed: after a large load, or after many users
have left memory, glibc holds tens of megabytes of free pages. And files that are mapped stay in the
resident memory as far as they were read (mapped.py). To the operating system, and to our own memory
limits, the process then looks as large as before.
"""

import ctypes
from functools import lru_cache
from typing import Any, Final

from eventlog.files import mapped

LOOSE_BYTES: Final = 2 << 20
LOOSE_SHARE: Final = 1 / 16
"""See `HeapTrimming`. At 10,000 memories giving back takes 1 ms, and brings 5 to 8 MB."""


def give_back() -> None:
    """Give free pages back to the operating system, where the C library has a way to: glibc.

    It takes some milliseconds for 100 MB, in which no thread allocates anything, not even the
    loop's: call it rarely.
    """
    trim = _trim()
    if trim is not None:
        trim(0)
    mapped.release_pages()


class HeapTrimming:
    """Tells from time to time whether giving back pays, by what is held in the heap.

    The size of the heap changes as users come, grow and leave. On the way as much again is
    allocated and freed: snapshots, files, rows made anew. Trimming pays after a change of
    `LOOSE_BYTES`, or of `LOOSE_SHARE` if that is more, because a larger heap takes longer to trim;
    and once all is quiet, after one of `LOOSE_SHARE` of that.
    """

    def __init__(self) -> None:
        self._given_back_at_bytes = 0
        self._uses = 0

    def take_due(self, held_bytes: int, uses: int) -> bool:
        """Say whether pages are due to be given back, and take it that they will be.

        `uses` counts whatever allocates.
        """
        least = max(LOOSE_BYTES, LOOSE_SHARE * held_bytes)
        if uses == self._uses:
            least *= LOOSE_SHARE
        self._uses = uses
        if abs(held_bytes - self._given_back_at_bytes) < least:
            return False
        self._given_back_at_bytes = held_bytes
        return True


@lru_cache(maxsize=1)
def _trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:  # no such library: musl, say, or Windows
        return None
