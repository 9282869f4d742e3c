"""The vectors of one user's memories: which rows are close to a query, and how close.

A score is the centred cosine (`rows.py`) of a row and a query. `candidates.py` asks

- `proposed` for the rows that may be among the closest, where there are more than `EXACT_MAX`:
  those that graphs (`graph.py`) find, from `SEGMENT_ROWS` on; without graphs, those that are
  closest by sketches. Up to there, scoring all is as quick.
- `scores` of some rows, as those that were proposed or that a filter lets through, or of all: of
  10,000 they take 0.14 ms.

Rows are in the order in which they were added. `scores` has a removed one at -inf, until the rows
are made anew without it.

Threads. `extend` and `resample` belong to the loop. Reading may run anywhere: a row that is added
meanwhile may or may not be there, and those that were keep their places, for the arrays that a
search took at its start never move.
"""

import zlib
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import LIBRARY, Coded
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.graph import SEGMENT_ROWS, Graph, is_usable
from memory_actors.search.indexes.labels import (
    CAPACITY_MIN,
    GROWTH,
    Labels,
    Rows,
    grown,
    zeros,
)
from memory_actors.search.indexes.rows import (
    SAMPLE_MAX,
    Sample,
    View,
    cosines,
    direction_of,
    distances,
    sample_order,
)

EXACT_MAX = 20_000  # rows: up to here every row is scored, in 0.3 ms
CHECKED_AT_ONCE = 1_000  # rows: what is copied of them stays in the processor's cache
ROOMY_ROWS: Final = 1_000
"""From here on twice as many have room: what was never written takes none in memory, and moving a
hundred thousand rows takes 20 ms of the loop."""


def room_for(count: int) -> int:
    """Return for how many rows an array is made that has so many."""
    return (2 * count if count >= ROOMY_ROWS else int(GROWTH * count)) + CAPACITY_MIN


class _Centred(NamedTuple):
    """The lengths of v - centre for the first rows: the centre changes seldom."""

    centre: Vectors
    lengths: Vectors


class DenseIndex:
    """The unit vectors of one user's memories, in an order of `rows` that others share."""

    def __init__(self, rows: Labels, vectors: Coded):
        """Take the vectors of all rows; the codes may have room for more."""
        self.rows = rows
        self._codes, self._steps = vectors.codes, grown(vectors.steps, len(vectors.codes))
        self._sample: Sample | None = None
        self.graph: Graph | None = None
        self._sketches = Graph()
        """A graph of no rows, which searches sketches alone."""
        self._centred: _Centred | None = None

    @classmethod
    def empty(cls, rows: Labels, dimension: int) -> "DenseIndex":
        """Return an index of no vectors, of this dimension."""
        return cls(rows, Coded(zeros((CAPACITY_MIN, dimension), np.int8), zeros((0,), np.float32)))

    def __len__(self) -> int:
        return self.rows.living

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        graph = 0 if self.graph is None else self.graph.size_bytes
        each = self._codes.shape[1] + self._steps.itemsize
        size: int = each * self.rows.count + self._sketches.size_bytes + graph
        return size

    def extend(self, vectors: Coded) -> None:
        """Add the vectors of the next rows, [n, d]."""
        first, until = self.rows.count, self.rows.count + len(vectors.steps)
        if until > len(self._steps):
            room = room_for(until)
            self._codes, self._steps = grown(self._codes, room), grown(self._steps, room)
        self._codes[first:until], self._steps[first:until] = vectors

    def resample(self, label: int) -> None:
        """Drop the sample if a row that came or went may be in it: call it after that change."""
        if self._sample is not None and self._sample.may_have(label):
            self._sample = None

    @property
    def sample(self) -> Sample:
        """The living rows whose labels come first in `sample_order`: what `centre` is made of."""
        if self._sample is None:
            # Of a copy: what is counted in place must not change meanwhile.
            living = np.flatnonzero(self.rows.alive.copy())
            order = sample_order(self.rows.labels[living])
            first = np.arange(len(order))
            if len(order) > SAMPLE_MAX:  # sorting a hundred thousand takes 2 ms
                first = np.argpartition(order, SAMPLE_MAX)[:SAMPLE_MAX]
            first = first[np.argsort(order[first])]
            self._sample = Sample(order[first], Coded(self._codes, self._steps).at(living[first]))
        return self._sample

    def view(self) -> View:
        """Return the rows as they are now."""
        # The `alive` column may change in place, so a view has a copy: one moment for all of it.
        n, living = self.rows.count, self.rows.living
        alive = self.rows.alive[:n].copy()
        return View(Coded(self._codes[:n], self._steps[:n]), self.rows.labels[:n], alive, living)

    @property
    def row_labels(self) -> npt.NDArray[np.int64]:
        """The label of each row."""
        return self.rows.labels

    def scores(self, query: Vectors, centre: Vectors, chosen: Rows | None = None) -> Vectors:
        """Return the scores of the chosen rows, or of all; -inf for a removed one.

        It takes as long again as all rows do where the same `centre` is not given again.
        """
        view, direction = self.view(), direction_of(query, centre)
        vectors, alive, lengths = view.vectors, view.alive, self._lengths(view, centre)
        if chosen is not None:
            vectors, alive, lengths = vectors.at(chosen), alive[chosen], lengths[chosen]
        scores = cosines(vectors, direction, centre, lengths)
        scores[~alive] = -np.inf
        return scores

    def proposed(self, query: Vectors, centre: Vectors, k: int) -> Rows | None:
        """Return the rows that have nearly all of the `k` closest to a query, in ascending order.

        Returns None if a scan of the few living rows does better, or there is nothing but a scan.
        """
        return self._near(self.view(), query - centre, k)

    def _near(self, view: View, direction: Vectors, k: int) -> Rows | None:
        if view.living <= EXACT_MAX or not LIBRARY.instruction_set:
            return None
        if self.graph is None or not self.graph.segments:
            return self._sketches.near(view, direction, k)
        self._sketches = Graph()
        return self.graph.near(view, direction, k)

    def nearest(self, vector: Vectors, k: int) -> tuple[list[int], list[float]]:
        """Return the labels of about the `k` rows closest to a vector, and their plain cosines.

        To 0.001, best first. Takes 0.2 ms at 10,000 rows.
        """
        view = self.view()
        rows = self._near(view, vector, k)
        if rows is not None:
            return _best(view, rows, view.vectors.at(rows).dots(vector), k)
        rows = np.flatnonzero(view.alive)
        return _best(view, rows, view.vectors.dots(vector)[rows], k)

    def nearest_of(self, rows: Rows, to: int, k: int) -> tuple[list[int], list[float]]:
        """Return the living rows among `rows` that are closest to another row."""
        view = self.view()
        return _best(view, rows, view.vectors.at(rows).cosines(view.vectors, to), k)

    def _lengths(self, view: View, centre: Vectors) -> Vectors:
        """Return the length of v - centre for each row; of rows that were there, as kept."""
        kept = self._centred
        lengths = np.empty(0, np.float32)
        if kept is not None and kept.centre is centre:
            lengths = kept.lengths
        if len(lengths) < len(view.labels):
            fresh = distances(view.vectors.at(slice(len(lengths), None)), centre)
            lengths = np.concatenate([lengths, fresh])
            self._centred = _Centred(centre, lengths)
        return lengths[: len(view.labels)]

    def vector_of(self, label: int) -> Vectors:
        """Return the vector of a label, [d]; zeros if it has gone."""
        view, row = self.view(), self.rows.row_of(label)
        if row is None:
            return np.zeros(self._codes.shape[1], np.float32)
        vector: Vectors = view.vectors.at(slice(row, row + 1)).decoded()[0]
        return vector

    def codes_crc(self, rows: Rows) -> int:
        """Return the CRC-32 of the codes of rows, in their order. Slow: for a thread."""
        crc = 0
        for start in range(0, len(rows), CHECKED_AT_ONCE):
            some = rows[start : start + CHECKED_AT_ONCE]
            crc = zlib.crc32(self._codes.take(some, axis=0).data, crc)
        return crc

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors of rows, [n, d]."""
        return self.view().vectors.at(rows).decoded()

    @property
    def wants_graph(self) -> bool:
        """True if there are rows for another graph, or for one that was saved."""
        known = 0 if self.graph is None else self.graph.count
        return self.rows.count - known >= SEGMENT_ROWS and is_usable()

    def taken(self, kept: Rows, rows: Labels) -> "DenseIndex":
        """Return an index of some rows only, for `rows` of their own. Slow: for a thread."""
        codes = zeros((room_for(len(kept)), self._codes.shape[1]), np.int8, len(kept))
        self._codes.take(kept, axis=0, out=codes[: len(kept)], mode="clip")
        return DenseIndex(rows, Coded(codes, self._steps.take(kept)))


def _best(view: View, rows: Rows, cosines: Vectors, k: int) -> tuple[list[int], list[float]]:
    """Return the labels of the `k` rows with the highest cosines, and these, best first."""
    best = np.argpartition(-cosines, k)[:k] if len(rows) > k else np.arange(len(rows))
    best = best[np.argsort(-cosines[best], kind="stable")]
    return view.labels[rows[best]].tolist(), cosines[best].tolist()
