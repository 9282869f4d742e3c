"""The files that are mapped into this process, and letting go of their pages.

Pages that were read from a mapped file stay in the resident memory of the process, with pages
around them, up to the whole file: so a limit on that memory is reached by files that are only read.
Pages that are let go stay in the system's cache, and come back with the next read of each, in a
microsecond.
"""

import ctypes
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

mapping_lock: Final = threading.Lock()
"""Held while a file is mapped or unmapped, so that an address found in /proc/self/maps is still
that file's when its pages are released."""
_MAPS: Final = Path("/proc/self/maps")
_SHARED: Final = " r--s "
"""How one that is only read is mapped."""
if hasattr(os, "register_at_fork"):  # else a child could have it from a thread that it has not
    os.register_at_fork(
        before=mapping_lock.acquire,
        after_in_parent=mapping_lock.release,
        after_in_child=mapping_lock.release,
    )


class MappedFile(NamedTuple):
    """A file by all that the system may name it by."""

    inode: int
    device: int
    """In a btrfs subvolume it differs from the device in /proc/self/maps."""
    path: str


_files: set[MappedFile] = set()


def note_mapped(path: Path) -> MappedFile:
    """Take note that a file is mapped; return what it is known by."""
    about = path.stat()
    file = MappedFile(about.st_ino, about.st_dev, str(path.resolve()))
    _files.add(file)
    return file


def note_unmapped(file: MappedFile) -> None:
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
        place, _, _, numbers, inode, *named = line.split(maxsplit=5)
        path = "".join(named)
        device = os.makedev(*(int(number, 16) for number in numbers.split(":")))
        known = [file for file in _files if file.inode == int(inode)]
        if any(device == file.device or path == file.path for file in known):
            start, end = (int(number, 16) for number in place.split("-"))
            yield start, end


@lru_cache(maxsize=1)
def _madvise() -> Any:
    if not hasattr(mmap, "MADV_DONTNEED"):
        return None
    return getattr(ctypes.CDLL(None), "madvise", None)
