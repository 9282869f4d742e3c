"""Labels of the rows of a growing table, with tombstones, and the way back from label to row.

Rows are only appended, and a removed row is only marked. The way back is a sorted array, which
takes 12 bytes a row where a dictionary takes 100, and a small dictionary of the rows since. The row
it finds may have been removed, or added again, since: so it is asked last, and the mark decides.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from memory_actors.search.indexes.room import grown, zeros

CAPACITY_MIN: Final = 16
GROWTH: Final = 1.25
RECENT_MAX: Final = 1_024  # rows in the dictionary, before they are sorted with the others: 1 ms
_RECENT_BYTES: Final = 100
_ROWS_TO_SORT: Final = 20  # rows of a table for each that is wanted: beyond, sorting is quicker
NONE: Final = -1
"""No row."""

Rows = npt.NDArray[np.intp]
C = TypeVar("C", bound=npt.NDArray[Any])


def with_room(column: C, count: int) -> C:
    """Return a column with room for so many: the same one, or a copy that is larger."""
    if count <= len(column):
        return column
    return grown(column, int(count * GROWTH) + CAPACITY_MIN)


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

    def __init__(self, capacity: int = CAPACITY_MIN):
        self.count = 0
        """Rows, the removed ones included."""
        self.living = 0
        self._labels = zeros(capacity, np.int64)
        self._alive = zeros(capacity, np.bool_)
        self._sorted: tuple[array[int], array[int]] = array("q"), array("i")
        self._recent: dict[int, int] = {}

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
    def size_bytes(self) -> int:
        """Memory held."""
        columns = self._labels.nbytes + self._alive.nbytes + 12 * len(self._sorted[0])
        return columns + _RECENT_BYTES * len(self._recent)

    def append(self, label: int) -> int:
        """Add a row under a label that is not there, and return it."""
        row = self.count
        if row == len(self._labels):
            self._grow(int(row * GROWTH) + CAPACITY_MIN)
        self._labels[row], self._alive[row] = label, True
        self._recent[label] = row
        self.count, self.living = row + 1, self.living + 1
        if len(self._recent) > RECENT_MAX:
            self._sort()
        return row

    def extend(self, labels: npt.NDArray[np.int64]) -> None:
        """Add many rows at once, under labels that are not there."""
        first, until = self.count, self.count + len(labels)
        if until > len(self._labels):
            self._grow(until)
        self._labels[first:until], self._alive[first:until] = labels, True
        self.count, self.living = until, self.living + len(labels)
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

    def _grow(self, capacity: int) -> None:
        self._labels, self._alive = grown(self._labels, capacity), grown(self._alive, capacity)
