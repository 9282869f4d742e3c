"""Columns with room for rows to come: large ones lie in pages of their own.

The C library's heap keeps what was freed and hands it out again. A large array made of that has all
of its pages in memory at once, those for rows to come too, and one that grows leaves its former
place behind, where only a smaller one fits. Both double what an index takes. Pages that come from
the system are in memory from the first write to them on, and go back as soon as nobody has the
array.
"""

import math
import mmap
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

PAGES_BYTES_MIN: Final = 1 << 18
"""An array of fewer bytes is left to the heap: a process may have 65,530 mappings, and with these a
gigabyte of indexes has some 4,000 at most."""
HUGE_BYTES_MIN: Final = 1 << 22
"""From here on in pages of 2 MB, as numpy has it: without them, an activation at 10,000 memories
takes a tenth longer. The last one that is begun may be nearly empty."""
_HAS_PRIVATE: Final = hasattr(mmap, "MAP_PRIVATE")

C = TypeVar("C", bound=npt.NDArray[Any])


def zeros(shape: int | tuple[int, ...], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of zeros; what is never written of a large one takes no memory."""
    dtype = np.dtype(kind)
    size = math.prod((shape,) if isinstance(shape, int) else shape) * dtype.itemsize
    if size < PAGES_BYTES_MIN or not _HAS_PRIVATE:
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE_BYTES_MIN and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


def grown(column: C, count: int) -> C:
    """Return a copy of a column with room for so many rows."""
    wider = zeros((count, *column.shape[1:]), column.dtype)
    wider[: len(column)] = column
    return cast("C", wider)
