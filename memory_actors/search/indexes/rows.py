"""Vectors in one growing array, each under a label: as float16, and for a quick look as int8.

A code is a coordinate as a share of the row's largest one, in 127 steps: a cosine of codes is off
by 0.001. They are half of the bytes, so a scan of all rows takes half as long.

Rows are only ever appended, and a removed row is only marked, so a search in another thread may go
on with the arrays it took at its start: what it holds never moves. The marked rows go when the
array is made anew (`compacted`).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Bytes, Halves, byte_codes
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.centring import SAMPLE_MAX, sample_order

CAPACITY_MIN = 16
GROWTH = 1.5
CODED_AT_ONCE = 4_096  # rows: as float32 6 MB


class View(NamedTuple):
    """The rows at one moment, safe to read from any thread."""

    vectors: Halves
    """float16 [n, d], which is what is kept of a vector."""
    codes: Bytes
    """int8 [n, d]."""
    steps: npt.NDArray[np.float32]
    """The value of one step of a row's codes."""
    labels: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]
    living: int


class Sample(NamedTuple):
    """Some of the living rows, the same whatever came and went."""

    order: npt.NDArray[np.uint64]
    """Numbers of `sample_order`, ascending."""
    vectors: Halves

    def may_have(self, label: int) -> bool:
        """Say whether a label is, or would be, of the sample."""
        if len(self.order) < SAMPLE_MAX:
            return True
        return bool(sample_order(np.array([label]))[0] <= self.order[-1])


class VectorRows:
    """An append-only array of unit vectors with labels and tombstones."""

    def __init__(self, dimension: int, capacity: int = CAPACITY_MIN):
        self.dimension = dimension
        self.count = 0
        """Rows, the removed ones included."""
        self._vectors = np.zeros((capacity, dimension), np.float16)
        self._codes = np.zeros((capacity, dimension), np.int8)
        self._steps = np.zeros(capacity, np.float32)
        self._labels = np.zeros(capacity, np.int64)
        self._alive = np.zeros(capacity, np.bool_)
        self._row_of: dict[int, int] = {}
        self._sample: Sample | None = None

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, label: int) -> bool:
        return label in self._row_of

    def labels(self) -> list[int]:
        """Return the labels of the living rows."""
        return list(self._row_of)

    @property
    def dead(self) -> int:
        """Rows that are only marked as removed."""
        return self.count - len(self._row_of)

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays and of the map beside them."""
        return self._vectors.nbytes + self._codes.nbytes + 112 * len(self._row_of)

    def append(self, label: int, vector: Vectors) -> None:
        """Add a row."""
        if self.count == len(self._labels):
            self._grow(int(self.count * GROWTH) + CAPACITY_MIN)
        row = self.count
        self._labels[row] = label
        self._vectors[row] = vector
        self._codes[row : row + 1], self._steps[row : row + 1] = byte_codes(vector[None])
        self._alive[row] = True
        self._row_of[label] = row
        self.count += 1
        self._resample(label)

    def extend(self, labels: Sequence[int], vectors: Vectors | Halves) -> None:
        """Add many rows at once, [n, d], under labels that are not there yet."""
        first, until = self.count, self.count + len(labels)
        if until > len(self._labels):
            self._grow(until)
        self._labels[first:until] = labels
        self._vectors[first:until] = vectors
        for start in range(0, len(labels), CODED_AT_ONCE):
            chunk = slice(first + start, min(first + start + CODED_AT_ONCE, until))
            self._codes[chunk], self._steps[chunk] = byte_codes(self._vectors[chunk])
        self._alive[first:until] = True
        self._row_of.update(zip(labels, range(first, until), strict=True))
        self.count = until
        self._sample = None

    def remove(self, label: int) -> bool:
        """Mark a row as removed; say whether it was there."""
        row = self._row_of.pop(label, None)
        if row is None:
            return False
        self._alive[row] = False
        self._resample(label)
        return True

    @property
    def sample(self) -> "Sample":
        """The living rows whose labels come first in `sample_order`, `SAMPLE_MAX` at most."""
        if self._sample is None:
            living = np.flatnonzero(self._alive[: self.count])
            order = sample_order(self._labels[living])
            first = np.argsort(order)[:SAMPLE_MAX]
            self._sample = Sample(order[first], self._vectors[living[first]])
        return self._sample

    def _resample(self, label: int) -> None:
        """Let the sample be taken anew if a label that came or went may be of it."""
        if self._sample is not None and self._sample.may_have(label):
            self._sample = None

    def row_of(self, label: int) -> int | None:
        """Return the row of a label, None if it is not there."""
        return self._row_of.get(label)

    def rows_of(self, labels: Iterable[int]) -> npt.NDArray[np.intp]:
        """Return the rows of those labels that are there now; from any thread."""
        rows = self.rows_of_all(labels)
        return rows[rows >= 0]

    def rows_of_all(self, labels: Iterable[int]) -> npt.NDArray[np.intp]:
        """Return the row of each label, -1 for one that is not there; from any thread."""
        return np.array([self._row_of.get(label, -1) for label in labels], np.intp)

    def view(self) -> View:
        """Return the rows as they are now."""
        n, living = self.count, len(self._row_of)
        # What is alive may change in place, so a view has a copy: one moment for all of it.
        alive = self._alive[:n].copy()
        return View(
            self._vectors[:n], self._codes[:n], self._steps[:n], self._labels[:n], alive, living
        )

    def _grow(self, capacity: int) -> None:
        extra = capacity - len(self._labels)
        self._vectors = np.pad(self._vectors, ((0, extra), (0, 0)))
        self._codes = np.pad(self._codes, ((0, extra), (0, 0)))
        self._steps = np.pad(self._steps, (0, extra))
        self._labels = np.pad(self._labels, (0, extra))
        self._alive = np.pad(self._alive, (0, extra))
