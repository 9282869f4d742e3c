"""The heap of the C library, which keeps for itself what was freed.

After a large load, or after many users have left memory, glibc holds tens of megabytes of free
pages: the process looks as large as before, to the operating system and to our own memory limits.
"""

import ctypes
from functools import lru_cache
from typing import Any


def give_back() -> None:
    """Give free pages back to the operating system, where the C library has a way to: glibc.

    It takes some milliseconds for 100 MB, in which no thread allocates anything, not even the
    loop's: call it rarely.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> Any:
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:  # no such library: musl, say, or Windows
        return None
