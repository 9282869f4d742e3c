"""The vectors of one user's memories: which rows are close to a query, and how close.

A score is the centred cosine (`rows.py`) of a row and a query. `candidates.py` asks

- `proposed` for the rows that may be among the closest, where there are more than `EXACT_MAX`:
  those that a graph (`graph.py`) finds, from `GRAPH_MIN` rows on; without one, those whose signs
  (below) differ least from the query's. And those that neither has yet (the tail). Up to there,
  scoring all is as quick.
- `scores` of some rows, as those that were proposed or that a filter lets through, or of all: of
  10,000 they take 0.14 ms.

Rows are in the order in which they were added. `scores` has a removed one at -inf, until the rows
are made anew without it.

Threads. `add` and `remove` belong to the loop. Reading may run anywhere: a row that is added
meanwhile may or may not be there, and those that were keep their places. `compacted` runs in a
worker thread, and the loop then takes over what it made (`adopted`).
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Bytes, Coded, Floats, coded_units
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.graph import (
    GRAPH_MIN,
    GRAPH_TAIL_MAX,
    Graph,
    SavedSegment,
    hnswlib,
)
from memory_actors.search.indexes.labels import CAPACITY_MIN, in_order
from memory_actors.search.indexes.rows import (
    Sample,
    VectorRows,
    View,
    cosines,
    direction_of,
    distances,
    room_for,
)

# --- the signs of vectors, one bit a coordinate: a first look at more rows than can be scored
#
# Theory. A coordinate of v - mu is above zero or not, and how many of these signs two vectors share
# tells about the angle between them. The rows whose signs differ least from those of a query are
# therefore few among all, and have nearly all that are close to it. Share of the closest by cosine,
# among 8,800 real sentences and 91,000 mixed of them, 384 dimensions:
#
#     rows taken    of the 10 closest   of 100    of 300
#     1,000         0.998               0.967     0.867
#     2,000         0.999               0.992     0.954
#     4,000         1.000               0.998     0.988
#
# The centre must be away first: what all vectors have in common decides most signs as they are.
#
# Signs lie in columns, the first 64 of each row, then the next: so numpy counts without a loop over
# rows. 100,000 rows of 384 dimensions take 4.8 MB and 0.3 ms a query, 17 ms to be made of codes; a
# product with them takes 3 ms.

_WORD_BITS: Final = 64
_CHUNK_ROWS: Final = 1 << 14
"""Looked at together: 128 KB of a column, so that what is counted stays in the cache."""
_MADE_ROWS: Final = 1 << 12
"""Decoded together, to 6 MB: of four times as many each array comes from the system anew, and that
takes as long again as all the rest."""

Differences = npt.NDArray[np.uint16]
_Words = npt.NDArray[np.uint64]


class Signs:
    """The signs of v - centre for the first `count` rows of some vectors. It never changes."""

    def __init__(self, centre: Vectors, words: _Words | None = None):
        self.centre = centre
        width = -(-len(centre) // _WORD_BITS)
        self._words = np.empty((width, 0), np.uint64) if words is None else words

    @property
    def count(self) -> int:
        """Rows."""
        return int(self._words.shape[1])

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return self._words.nbytes

    def extended(self, vectors: Coded) -> "Signs":
        """Return the signs of all of these vectors, of which the first are here."""
        starts = range(self.count, len(vectors.codes), _MADE_ROWS)
        chunks = (vectors.at(slice(start, start + _MADE_ROWS)) for start in starts)
        words = [_signs(chunk.decoded(), self.centre) for chunk in chunks]
        return Signs(self.centre, np.concatenate([self._words, *words], axis=1))

    def differences(self, query: Vectors) -> Differences:
        """Return in how many signs each row differs from a query, uint16 [count]."""
        wanted = _signs(query[None], self.centre)
        found = np.zeros(self.count, np.uint16)
        buffer = np.empty(_CHUNK_ROWS, np.uint64)  # made once: each would cost as much again
        for start in range(0, self.count, _CHUNK_ROWS):
            some = found[start : start + _CHUNK_ROWS]
            other = buffer[: len(some)]
            for column, word in zip(
                self._words[:, start : start + _CHUNK_ROWS], wanted, strict=True
            ):
                some += np.bitwise_count(np.bitwise_xor(column, word, out=other))
        return found


def _signs(vectors: Vectors, centre: Vectors) -> _Words:
    """Return the signs of v - centre, a column of words for each 64 coordinates."""
    packed = np.packbits(vectors > centre, axis=1)
    padding = -packed.shape[1] % (_WORD_BITS // 8)
    words = np.pad(packed, ((0, 0), (0, padding))).view(np.uint64)
    return np.ascontiguousarray(words.T)


# --- the index

EXACT_MAX = 20_000  # rows: up to here every row is scored, in 0.3 ms
PROPOSED_MIN = 1_500  # rows by their signs: of 100,000 these and one in 200 have what matters
PROPOSED_ONE_IN = 200
PROPOSED_SIGNS = 384  # a row has, where so many are enough; of fewer signs more rows
TAIL_MAX = 512  # rows without signs before these are extended, which copies all
DEAD_SHARE_MAX = 0.2  # of all rows before they are made anew
DEAD_MIN = 64
_FAR = np.iinfo(np.uint16).max

Rows = npt.NDArray[np.intp]


class _Centred(NamedTuple):
    """The lengths of v - centre for the first rows: the centre changes seldom."""

    rows: VectorRows
    centre: Vectors
    lengths: Vectors


class DenseIndex:
    """The vectors of one user's memories, by label."""

    def __init__(self, dimension: int, capacity: int = CAPACITY_MIN):
        self._rows = VectorRows(dimension, capacity)
        self._signs: Signs | None = None
        self.graph: Graph | None = None
        self._centred: _Centred | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, label: int) -> bool:
        return label in self._rows

    def labels(self) -> list[int]:
        """Return the searchable labels."""
        return self._rows.labels()

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        made = (self._rows, self._signs, self.graph)
        return sum(part.size_bytes for part in made if part is not None)

    def add(self, label: int, vector: Vectors, coded: Coded | None = None) -> None:
        """Make a vector searchable under a label. Constant time.

        `coded` is the same vector as `coded_units` gives it, where that is known.
        """
        if label not in self._rows:
            self._rows.append(label, coded or coded_units(vector[None]))

    def remove(self, label: int) -> None:
        """Make a label unsearchable. Constant time."""
        self._rows.remove(label)

    @property
    def row_labels(self) -> npt.NDArray[np.int64]:
        """The label of each row."""
        return self._rows.row_labels

    @property
    def sample(self) -> Sample:
        """Some living rows: what `centre` is made of."""
        return self._rows.sample

    def scores(self, query: Vectors, centre: Vectors, chosen: Rows | None = None) -> Vectors:
        """Return the scores of the chosen rows, or of all; -inf for a removed one.

        It takes as long again as all rows do where the same `centre` is not given again.
        """
        rows, direction = self._rows, direction_of(query, centre)
        view = rows.view()
        vectors, alive, lengths = view.vectors, view.alive, self._lengths(rows, view, centre)
        if chosen is not None:
            vectors, alive, lengths = vectors.at(chosen), alive[chosen], lengths[chosen]
        scores = cosines(vectors, direction, centre, lengths)
        scores[~alive] = -np.inf
        return scores

    def proposed(self, query: Vectors, centre: Vectors, k: int) -> Rows | None:
        """Return the rows that have nearly all of the `k` closest to a query, in ascending order.

        Returns None if a scan of the few living rows does better. A `centre` that changed since the
        last call costs 0.3 us a row.
        """
        if len(self) <= EXACT_MAX:
            return None
        view = self._rows.view()
        rows = self._by_graph(view, query, k)
        return _proposed(view, self._signed(view, centre), query, k) if rows is None else rows

    def _by_graph(self, view: View, query: Vectors, k: int) -> Rows | None:
        """Return the rows that the graph proposes, and those that it lacks; None of too many."""
        graph = self.graph
        known = 0 if graph is None else graph.count  # those that come now may be there twice
        if graph is None or not known or len(view.labels) - known > EXACT_MAX:
            return None
        self._signs = None
        tail = known + np.flatnonzero(view.alive[known:])
        return in_order(len(view.labels), graph.near(query, k, view.alive), tail)

    def nearest(self, vector: Vectors, k: int) -> tuple[list[int], list[float]]:
        """Return the labels of about the `k` rows closest to a vector, and their plain cosines.

        To 0.001, best first. Takes 0.2 ms at 10,000 rows.
        """
        view, signs, rows = self._rows.view(), self._signs, None
        if view.living > EXACT_MAX:
            rows = self._by_graph(view, vector, k)
            if rows is None and signs is not None:
                rows = _proposed(view, signs, vector, k)
        if rows is not None:
            return _best(view, rows, view.vectors.at(rows).dots(vector), k)
        rows = np.flatnonzero(view.alive)
        return _best(view, rows, view.vectors.dots(vector)[rows], k)

    def nearest_of(self, rows: Rows, to: int, k: int) -> tuple[list[int], list[float]]:
        """Return the living rows among `rows` that are closest to another row."""
        view = self._rows.view()
        return _best(view, rows, view.vectors.at(rows).cosines(view.vectors, to), k)

    def _lengths(self, rows: VectorRows, view: View, centre: Vectors) -> Vectors:
        """Return the length of v - centre for each row; of rows that were there, as kept."""
        kept = self._centred
        lengths = np.empty(0, np.float32)
        if kept is not None and kept.rows is rows and kept.centre is centre:
            lengths = kept.lengths
        if len(lengths) < len(view.labels):
            fresh = distances(view.vectors.at(slice(len(lengths), None)), centre)
            lengths = np.concatenate([lengths, fresh])
            self._centred = _Centred(rows, centre, lengths)
        return lengths[: len(view.labels)]

    def _signed(self, view: View, centre: Vectors) -> Signs:
        """Return the signs of all rows but a few; of rows that were there, as kept."""
        signs = self._signs
        if signs is None or signs.centre is not centre:
            signs = Signs(centre)
        if len(view.labels) - signs.count > TAIL_MAX:
            signs = self._signs = signs.extended(view.vectors)
        return signs

    def vector_of(self, label: int) -> Vectors:
        """Return the vector of a label, [d]; zeros if it has gone."""
        view, row = self._rows.view(), self._rows.row_of(label)
        if row is None:
            return np.zeros(self._rows.dimension, np.float32)
        vector: Vectors = view.vectors.at(slice(row, row + 1)).decoded()[0]
        return vector

    def vectors(self, rows: Rows) -> Vectors:
        """Return the vectors of rows, [n, d]."""
        return self._rows.view().vectors.at(rows).decoded()

    def row_of(self, label: int) -> int | None:
        """Return the row of a label, None if it is not there."""
        return self._rows.row_of(label)

    def rows_of(self, labels: Collection[int]) -> Rows:
        """Return the rows of those labels that are there."""
        return self._rows.rows_of(labels)

    def rows_of_all(self, labels: Collection[int]) -> Rows:
        """Return the row of each label, -1 for one that is not there."""
        return self._rows.rows_of_all(labels)

    # --- made anew

    @property
    def wants_maintenance(self) -> bool:
        """True if so many rows are dead that making them anew pays."""
        return self._rows.dead > max(DEAD_MIN, DEAD_SHARE_MAX * self._rows.count)

    @property
    def wants_graph(self) -> bool:
        """True if many rows are in no graph, where there should be one."""
        lacking = self._rows.count - (0 if self.graph is None else self.graph.count)
        return lacking > GRAPH_TAIL_MAX and len(self) > GRAPH_MIN and hnswlib() is not None

    def restored_graph(self, saved: Sequence[SavedSegment]) -> Graph:
        """Return a graph of these rows as far as it was saved."""
        return Graph.restored(saved, self._rows)

    def view(self) -> View:
        """Return the rows as they are now."""
        return self._rows.view()

    def adopted(self, fresh: VectorRows, then: View) -> "DenseIndex":
        """Return an index of rows that were `compacted`, with what happened since. On the loop.

        It is another index: searches that hold this one continue with the rows, and the order of
        rows, that they began with.
        """
        view, seen = self._rows.view(), len(then.labels)
        for label in fresh.view().labels.tolist():
            if label not in self._rows:
                fresh.remove(label)
        since = seen + np.flatnonzero(view.alive[seen:])
        fresh.extend(view.labels[since], view.vectors.at(since))
        made = DenseIndex(self._rows.dimension)
        made._rows = fresh
        return made

    @classmethod
    def over(cls, codes: Bytes, labels: npt.NDArray[np.int64], steps: Floats) -> "DenseIndex":
        """Return an index over an array of codes with room for more.

        Its first `len(labels)` rows are taken.
        """
        index = cls(codes.shape[1])
        index._rows = VectorRows.over(codes, labels, steps)
        return index


def compacted(view: View) -> VectorRows:
    """Return new rows with the living ones only, in the same order. Slow: for a thread."""
    fresh = VectorRows(view.vectors.codes.shape[1], room_for(view.living))
    fresh.extend(view.labels[view.alive], view.vectors.at(view.alive))
    return fresh


def _proposed(view: View, signs: Signs, query: Vectors, k: int) -> Rows | None:
    """Return the living rows whose signs differ least from a query's, and all without signs.

    Returns None if those are nearly all rows.
    """
    known = min(signs.count, len(view.labels))  # rows that came since the view was taken
    enough = PROPOSED_MIN + known // PROPOSED_ONE_IN
    wanted = max(k, enough * PROPOSED_SIGNS // min(len(query), PROPOSED_SIGNS))
    if wanted >= known:
        return None
    differences = signs.differences(query)[:known]
    differences[~view.alive[:known]] = _FAR
    limit = np.partition(differences, wanted)[wanted]
    if limit == _FAR:
        return None
    near = np.flatnonzero(differences <= limit)
    return np.concatenate([near, known + np.flatnonzero(view.alive[known:])])


def _best(view: View, rows: Rows, cosines: Vectors, k: int) -> tuple[list[int], list[float]]:
    """Return the labels of the `k` rows with the highest cosines, and these, best first."""
    best = np.argpartition(-cosines, k)[:k] if len(rows) > k else np.arange(len(rows))
    best = best[np.argsort(-cosines[best], kind="stable")]
    return view.labels[rows[best]].tolist(), cosines[best].tolist()
