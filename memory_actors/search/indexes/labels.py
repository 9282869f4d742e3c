"""The rows that all parts of an index share: their labels, with tombstones, and room for more.

Rows are only appended, and a removed row is only marked. The way back from a label to its row is a
sorted array, which takes 12 bytes a row where a dictionary takes 100, and a small dictionary of the
rows since. The row it finds may have been removed, or added again, since: so it is asked last, and
the mark decides.

Large columns lie in pages of their own. The C library's heap keeps what was freed and hands it out
again. A large array made of that has all of its pages in memory at once, those for rows to come
too, and one that grows leaves its former place behind, where only a smaller one fits. Both double
what an index takes. Pages that come from the system are in memory from the first write to them on,
and go back as soon as nobody has the array.
"""

import math
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

CAPACITY_MIN: Final = 16
GROWTH: Final = 1.25
RECENT_MAX: Final = 1_024  # rows in the dictionary, before they are sorted with the others: 1 ms
DEAD_SHARE_MAX: Final = 0.2  # of all rows before they are made anew
DEAD_MIN: Final = 64
_RECENT_BYTES: Final = 100
_TALLIED_AT_ONCE: Final = 1 << 16
_ROWS_TO_SORT: Final = 20  # rows of a table for each that is wanted: beyond, sorting is quicker
NONE: Final = -1
"""No row."""
PAGES_BYTES_MIN: Final = 1 << 16
"""An array of fewer bytes is left to the heap: a process may have 65,530 mappings, and with these a
gigabyte of indexes has some 16,000 at most."""
HUGE_BYTES_MIN: Final = 1 << 21
"""Written at once from here on: in pages of 2 MB, without which an activation at 10,000 memories
takes a tenth longer. The room behind is not: a first row there would take 2 MB."""
_HAS_PRIVATE: Final = hasattr(mmap, "MAP_PRIVATE")

_NO_LABELS: Final = np.empty(0, np.int64)

Rows = npt.NDArray[np.intp]
C = TypeVar("C", bound=npt.NDArray[np.generic])


def zeros(shape: tuple[int, ...], kind: npt.DTypeLike, written: int = 0) -> npt.NDArray[Any]:
    """Return an array of zeros, of which the caller writes so many rows at once.

    Pages of a large one take memory once they are written.
    """
    dtype = np.dtype(kind)
    size = math.prod(shape) * dtype.itemsize
    if size < PAGES_BYTES_MIN or not _HAS_PRIVATE:
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    written_bytes = size // shape[0] * written
    if written_bytes >= HUGE_BYTES_MIN and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE, 0, written_bytes)
    return np.frombuffer(pages, dtype).reshape(shape)


def grown(column: C, count: int) -> C:
    """Return a copy of a column with room for so many rows."""
    wider = zeros((count, *column.shape[1:]), column.dtype, len(column))
    wider[: len(column)] = column
    return cast("C", wider)


def with_room(column: C, count: int) -> C:
    """Return a column with room for so many: the same one, or a copy that is larger."""
    if count <= len(column):
        return column
    return grown(column, int(count * GROWTH) + CAPACITY_MIN)


def tally(numbers: npt.NDArray[np.unsignedinteger[Any]], count: int) -> npt.NDArray[np.int32]:
    """Return how often each number below `count` occurs.

    numpy makes eight bytes of each number. In parts, these reuse the same pages of the heap.
    """
    found = np.zeros(count, np.int32)
    for start in range(0, len(numbers), _TALLIED_AT_ONCE):
        found += np.bincount(numbers[start : start + _TALLIED_AT_ONCE], minlength=count)
    return found


def in_order(count: int, *rows: Rows) -> Rows:
    """Return rows of a table of so many, in order and each once."""
    if count > _ROWS_TO_SORT * sum(map(len, rows)):
        ordered = np.sort(np.concatenate(rows))
        first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
        return np.asarray(ordered[first], np.intp)
    wanted = np.zeros(count, np.bool_)
    for some in rows:
        wanted[some] = True
    return np.flatnonzero(wanted)


class Labels:
    """The labels of rows in the order they came. Written on the loop; read from any thread."""

    def __init__(self, labels: npt.NDArray[np.int64] = _NO_LABELS):
        self.count = len(labels)
        """Rows, the removed ones included."""
        self.living = self.count
        self._labels = grown(labels, self.count + CAPACITY_MIN)
        self._alive = zeros((len(self._labels),), np.bool_)
        self._alive[: self.count] = True
        self._recent: dict[int, int] = {}
        self._sort()

    def __contains__(self, label: int) -> bool:
        return self.row_of(label) is not None

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """The label of each row."""
        return self._labels[: self.count]

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """False for each row that was removed. It may change in place."""
        return self._alive[: self.count]

    def there(self) -> list[int]:
        """Return the labels of the living rows."""
        found: list[int] = self.labels[self.alive].tolist()
        return found

    @property
    def wants_maintenance(self) -> bool:
        """True if so many rows are dead that making all anew without them pays."""
        dead_max = max(DEAD_MIN, DEAD_SHARE_MAX * self.count) if self.living else 0
        return self.count - self.living > dead_max

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        columns = self._labels.nbytes + self._alive.nbytes + 12 * len(self._sorted[0])
        return columns + _RECENT_BYTES * len(self._recent)

    def append(self, label: int) -> None:
        """Add a row under a label that is not there.

        All else that is of the row comes first: from here on searches in threads may look at it.
        """
        row = self.count
        self._labels = with_room(self._labels, row + 1)
        self._alive = with_room(self._alive, row + 1)
        self._labels[row], self._alive[row] = label, True
        self._recent[label] = row
        self.count, self.living = row + 1, self.living + 1
        if len(self._recent) > RECENT_MAX:
            self._sort()

    def remove(self, label: int) -> int | None:
        """Mark a row as removed and return it, None if it was not there."""
        row = self.row_of(label)
        if row is not None:
            self._recent.pop(label, None)
            self._alive[row] = False
            self.living -= 1
        return row

    def row_of(self, label: int) -> int | None:
        """Return the row of a label, None if it is not there."""
        row = self._recent.get(label)
        if row is not None:
            return row
        labels, rows = self._sorted
        place = bisect_left(labels, label)
        if place == len(labels) or labels[place] != label:
            return None
        row = rows[place]
        return row if self._alive[row] else None

    def rows_of_all(self, labels: Collection[int]) -> Rows:
        """Return the row of each label, -1 for one that is not there."""
        recent, (ordered, rows) = self._recent, self._sorted
        wanted = labels if isinstance(labels, np.ndarray) else np.fromiter(labels, np.int64)
        found = np.full(len(wanted), NONE, np.intp)
        if len(ordered):
            known = np.frombuffer(ordered, np.int64)
            places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            there = known[places] == wanted
            found[there] = np.frombuffer(rows, np.int32)[places[there]]
            found[~self._alive[found]] = NONE  # of none it is that of the last place
        if recent:
            for place, label in enumerate(wanted.tolist()):
                if (row := recent.get(label)) is not None:
                    found[place] = row
        return found

    def rows_of(self, labels: Collection[int]) -> Rows:
        """Return the rows of those labels that are there."""
        rows: Rows = self.rows_of_all(labels)
        return np.asarray(rows[rows != NONE], np.intp)

    def _sort(self) -> None:
        """Take the recent rows into the sorted ones. From other threads nothing is ever missed."""
        rows = np.flatnonzero(self.alive)
        labels = self._labels[rows]
        if not (labels[1:] > labels[:-1]).all():
            order = np.argsort(labels, kind="stable")
            rows, labels = rows[order], labels[order]
        self._sorted = (
            array("q", labels.tobytes()),
            array("i", rows.astype(np.int32).tobytes()),
        )
        self._recent = {}
