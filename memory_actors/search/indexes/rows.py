"""Vectors in one growing array, each under a label, and the centred cosine that compares them.

A vector is kept as int8: a coordinate as a share of the row's largest one, in 127 steps. A cosine
moves by 0.001, recall by less than can be measured.

Rows are only ever appended, and a removed row is only marked, so a search in another thread may go
on with the arrays it took at its start: what it holds never moves. The marked rows go when the
array is made anew (`compacted`).
"""

from collections.abc import Collection
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Bytes, Coded, Floats, float_dots
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.labels import CAPACITY_MIN, GROWTH, Labels
from memory_actors.search.indexes.room import grown, zeros

# --- the centred cosine: how close a vector is to a query, without what all have in common
#
# Sentence vectors of one model share a large common part, and the memories of one user a second one
# ("User …", a name, one way to put things). Neither tells two memories apart, yet both are in every
# cosine. The score of a memory v for a query q is therefore
#
#     cos(v - mu, q - mu),  mu = (2 * background + w * mean) / (2 + w),  w at most 3
#
# The background is the mean of general text, and the mean is that of the user's own memories.
#
# A theme must not be taken away with it: who writes down every run has a mean that is running. The
# mean is therefore one of different things. Each memory weighs 1 / (how many are like it, itself
# included): a cosine of 0.7 counts for nothing, 1 for a whole one. And it never weighs more than
# three memories, which is what a user with three facts has: there "User" must go, or it decides.
#
# It is the mean of a sample of 128 memories, by a hash of their labels: which ones does not depend
# on what came and went, and it seldom changes as others are added, so what rests on it is kept. The
# vectors are stored as they are, and mu is applied at search time.

SAMPLE_MAX: Final = 128
"""Memories that the mean is of: comparing each with each takes 0.2 ms."""
BACKGROUND_WEIGHT: Final = 2.0
"""In memories. Any from 0 to 50 gives LoCoMo the same recall; a small one serves a few facts."""
OWN_WEIGHT_MAX: Final = 3.0
"""In memories. `python -m bench recall`: without this bound, and with all memories weighing the
same, 0.70 of the questions about the theme of a store put it first; with the bound alone 0.73."""
UNLIKE_MAX: Final = 0.7
"""A cosine up to which two memories are two things. From 0.5 to 0.7 the figures are the same: 0.90
of those questions, and LoCoMo's turn recall@10 0.863 as with all memories weighing the same."""
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


def sample_order(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a number for each label: those with the smallest ones are the sample."""
    mixed = labels.astype(np.uint64) * _MIX
    return np.asarray((mixed ^ (mixed >> np.uint64(29))) * _MIX, np.uint64)


def centre(background: Vectors, sample: Vectors) -> Vectors:
    """Return mu: where the common part of a user's vectors lies.

    `background` is float32 [d], `sample` float32 [n, d], n at most `SAMPLE_MAX`.
    """
    total, weight = BACKGROUND_WEIGHT * background, BACKGROUND_WEIGHT
    if len(sample):
        alike = np.clip((float_dots(sample, sample) - UNLIKE_MAX) / (1 - UNLIKE_MAX), 0, 1)
        weights = 1 / np.maximum(alike.sum(axis=1), 1)
        own = min(float(weights.sum()), OWN_WEIGHT_MAX)
        mean = (weights[:, None] * sample).sum(axis=0) / weights.sum()
        total, weight = total + own * mean, weight + own
    return (total / weight).astype(np.float32)


def direction_of(query: Vectors, centre: Vectors) -> Vectors:
    """Return q - mu at length 1."""
    centred = query - centre
    length = float(np.linalg.norm(centred))
    return centred / length if length > 0 else centred


def cosines(vectors: Coded, direction: Vectors, centre: Vectors, lengths: Vectors) -> Vectors:
    """Return cos(v - mu, direction) for each row v, where `lengths` are those of v - mu."""
    return np.asarray((vectors.dots(direction) - centre @ direction) / lengths, np.float32)


def distances(vectors: Coded, centre: Vectors) -> Vectors:
    """Return the length of v - mu for each row v of unit length."""
    squared = 1.0 - 2.0 * vectors.dots(centre) + centre @ centre
    return np.sqrt(np.maximum(squared, 1e-12)).astype(np.float32)


# --- rows


ROOMY_ROWS: Final = 1_000
"""From here on twice as many have room: what was never written takes none in memory, and moving a
hundred thousand rows takes 20 ms of the loop."""


def room_for(count: int) -> int:
    """Return for how many rows an array is made that has so many."""
    return (2 * count if count >= ROOMY_ROWS else int(GROWTH * count)) + CAPACITY_MIN


class View(NamedTuple):
    """The rows at one moment, safe to read from any thread."""

    vectors: Coded
    labels: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]
    living: int


class Sample(NamedTuple):
    """Some of the living rows, the same whatever came and went."""

    order: npt.NDArray[np.uint64]
    """Numbers of `sample_order`, ascending."""
    vectors: Coded

    def may_have(self, label: int) -> bool:
        """Say whether a label is, or would be, of the sample."""
        if len(self.order) < SAMPLE_MAX:
            return True
        return bool(sample_order(np.array([label]))[0] <= self.order[-1])


class VectorRows:
    """An append-only array of unit vectors with labels and tombstones."""

    def __init__(self, dimension: int, capacity: int = CAPACITY_MIN):
        self.dimension = dimension
        self._codes = zeros((capacity, dimension), np.int8)
        self._steps = zeros(capacity, np.float32)
        self._labels = Labels(capacity)
        self._sample: Sample | None = None

    @classmethod
    def over(cls, codes: Bytes, labels: npt.NDArray[np.int64], steps: Floats) -> Self:
        """Return rows over an array of codes with room for more.

        Its first `len(labels)` rows are taken.
        """
        rows, capacity = cls(codes.shape[1]), len(codes)
        rows._codes, rows._steps = codes, grown(steps, capacity)
        rows._labels = Labels(capacity)
        rows._labels.extend(labels)
        return rows

    def __len__(self) -> int:
        return self._labels.living

    def __contains__(self, label: int) -> bool:
        return label in self._labels

    @property
    def count(self) -> int:
        """Rows, the removed ones included."""
        return self._labels.count

    def labels(self) -> list[int]:
        """Return the labels of the living rows."""
        return self._labels.there()

    @property
    def row_labels(self) -> npt.NDArray[np.int64]:
        """The label of each row."""
        return self._labels.labels

    @property
    def dead(self) -> int:
        """Rows that are only marked as removed."""
        return self.count - len(self)

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays and of the map beside them."""
        each = self.dimension + self._steps.itemsize
        return each * self.count + self._labels.size_bytes

    def append(self, label: int, vector: Coded) -> None:
        """Add a row: a vector of length 1."""
        row = self.count
        if row == len(self._steps):
            self._grow(room_for(row + 1))
        self._codes[row : row + 1], self._steps[row : row + 1] = vector
        self._labels.append(label)
        self._resample(label)

    def extend(self, labels: npt.NDArray[np.int64], vectors: Coded) -> None:
        """Add many rows at once, [n, d], under labels that are not there yet."""
        first, until = self.count, self.count + len(labels)
        if until > len(self._steps):
            self._grow(until)
        self._codes[first:until], self._steps[first:until] = vectors
        self._labels.extend(labels)
        self._sample = None

    def remove(self, label: int) -> bool:
        """Mark a row as removed; say whether it was there."""
        if self._labels.remove(label) is None:
            return False
        self._resample(label)
        return True

    @property
    def sample(self) -> "Sample":
        """The living rows whose labels come first in `sample_order`, `SAMPLE_MAX` at most."""
        if self._sample is None:
            # Of a copy: what is counted in place must not change meanwhile.
            living = np.flatnonzero(self._labels.alive.copy())
            order = sample_order(self._labels.labels[living])
            first = np.arange(len(order))
            if len(order) > SAMPLE_MAX:  # sorting a hundred thousand takes 2 ms
                first = np.argpartition(order, SAMPLE_MAX)[:SAMPLE_MAX]
            first = first[np.argsort(order[first])]
            self._sample = Sample(order[first], self._coded.at(living[first]))
        return self._sample

    def _resample(self, label: int) -> None:
        """Let the sample be taken anew if a label that came or went may be of it."""
        if self._sample is not None and self._sample.may_have(label):
            self._sample = None

    def row_of(self, label: int) -> int | None:
        """Return the row of a label, None if it is not there."""
        return self._labels.row_of(label)

    def rows_of(self, labels: Collection[int]) -> npt.NDArray[np.intp]:
        """Return the rows of those labels that are there now; from any thread."""
        return self._labels.rows_of(labels)

    def rows_of_all(self, labels: Collection[int]) -> npt.NDArray[np.intp]:
        """Return the row of each label, -1 for one that is not there; from any thread."""
        return self._labels.rows_of_all(labels)

    def view(self) -> View:
        """Return the rows as they are now."""
        # The `alive` column may change in place, so a view has a copy: one moment for all of it.
        n, living = self.count, len(self)
        alive = self._labels.alive[:n].copy()
        return View(self._coded.at(slice(n)), self._labels.labels[:n], alive, living)

    @property
    def _coded(self) -> Coded:
        return Coded(self._codes, self._steps)

    def _grow(self, capacity: int) -> None:
        self._codes, self._steps = grown(self._codes, capacity), grown(self._steps, capacity)
