"""The files that are mapped into this process, and letting go of their pages.

What was read of a mapped file stays in the resident memory of the process, with pages around it, up
to the whole file: so a limit on that memory is reached by files that are only read. Pages that are
let go stay in the system's cache, and come back with the next read of each, in a microsecond.
"""

import ctypes
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

mapping_lock: Final = threading.Lock()
"""Held while a file is mapped or unmapped, so that an address found in /proc/self/maps is still
that file's when its pages are released."""
_MAPS: Final = Path("/proc/self/maps")
_SHARED: Final = " r--s "
"""How one that is only read is mapped."""
_files: set[tuple[int, int]] = set()
"""Device and inode of each."""


def note_mapped(path: Path) -> tuple[int, int]:
    """Take note that a file is mapped; return what it is known by."""
    about = path.stat()
    file = about.st_dev, about.st_ino
    _files.add(file)
    return file


def note_unmapped(file: tuple[int, int]) -> None:
    """Take note that a file is not mapped any more."""
    _files.discard(file)


def release_pages() -> None:
    """Let go of the pages of all files, where the system tells where they are: Linux."""
    call = _madvise()
    if call is None:
        return
    with mapping_lock, suppress(OSError):  # it may not tell
        for start, end in _places():
            call(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def _places() -> Iterator[tuple[int, int]]:
    for line in _MAPS.read_text(errors="replace").splitlines():
        if _SHARED not in line:
            continue
        place, _, _, device, inode, *_ = line.split()
        major, minor = (int(number, 16) for number in device.split(":"))
        if (os.makedev(major, minor), int(inode)) in _files:
            start, end = (int(number, 16) for number in place.split("-"))
            yield start, end


@lru_cache(maxsize=1)
def _madvise() -> Any:
    if not hasattr(mmap, "MADV_DONTNEED"):
        return None
    return getattr(ctypes.CDLL(None), "madvise", None)
