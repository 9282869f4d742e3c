"""The vectors of one user's memories: which rows are close to a query, and how close.

A score is the centred cosine (`rows.py`) of a row and a query. `ranking.py` asks

- `proposed` for the rows that may be among the closest, where there is a graph. Up to `EXACT_MAX`
  rows there is none: scoring all is as quick. Above, HNSW proposes rows by their inner product with
  (q - mu), and those that it has not got yet (the tail) go with them. The score divides by a
  length, too, so it is asked for many more than are wanted. It reaches dead rows beside the
  living: it is asked for as many more, and where few of them live, none are proposed and all rows
  are scored.
- `scores` of some rows, as those that were proposed or that a filter lets through, or of all: of
  10,000 they take 0.14 ms.

Rows are in the order in which they were added. `scores` has a removed one at -inf, until `maintain`
has made the rows anew without it.

Threads. `add` and `remove` belong to the loop. Reading may run anywhere: a row that is added
meanwhile may or may not be there, and those that were keep their places. `maintain` runs in one
worker thread at a time and returns what the loop then takes over (`adopted`).
"""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from eventlog.files.datafile import ANEW, opened, read_bytes
from memory_actors.search.dot_products import Coded
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.graph import GraphFacts, HnswGraph, is_whole
from memory_actors.search.indexes.rows import (
    CAPACITY_MIN,
    Sample,
    VectorRows,
    View,
    cosines,
    direction_of,
    distances,
)

EXACT_MAX = 20_000  # rows: up to here every row is scored, in 1 ms
GRAPH_MIN = 14_000  # below this the graph is dropped: well under EXACT_MAX, so nobody flaps
TAIL_MAX = 512  # rows outside the graph before it is extended
DEAD_SHARE_MAX = 0.2  # of all rows before they are made anew
DEAD_MIN = 64
LIVING_MIN = 0.4  # of all rows: the graph proposes dead ones too, and lost 5 % of recall at 10 %
REACHED_MIN = 0.5  # of the living rows wanted: fewer, and what was near the query has been deleted

Rows = npt.NDArray[np.intp]
NONE = -1
"""No row."""


class _Centred(NamedTuple):
    """The lengths of v - centre for the first rows: the centre changes seldom."""

    rows: VectorRows
    centre: Vectors
    lengths: Vectors


class Graphed(NamedTuple):
    """A graph, and the rows that it has not got."""

    graph: HnswGraph
    beside: Rows
    """Of those before `until`."""
    until: int
    """Rows from here on are not in it either."""

    def tail(self, count: int) -> Rows:
        """Return the rows that are not in it, of the first `count`."""
        return np.concatenate([self.beside, np.arange(min(self.until, count), count)])

    def proposed(self, direction: Vectors, k: int, view: View) -> Rows | None:
        """Return the living rows that may be among the `k` closest, and the tail, each once.

        None where so many are dead, or alike, that a scan does better.
        """
        count = len(view.labels)
        living_share = view.living / max(count, 1)
        if living_share < LIVING_MIN:
            return None
        reached = self.graph.search(direction, int(k / living_share))
        reached = reached[(reached != NONE) & (reached < count)]
        reached = reached[view.alive[reached]]
        if len(reached) < REACHED_MIN * min(k, view.living):
            return None
        return np.union1d(reached, self.tail(count))


class SavedIndex(msgspec.Struct, frozen=True):
    """Facts beside a graph's file."""

    model: str
    facts: GraphFacts
    labels: bytes
    """int64, in order of node; NONE for one whose row has gone."""


class DenseIndex:
    """The vectors of one user's memories, by label."""

    def __init__(self, dimension: int, capacity: int = CAPACITY_MIN):
        self._rows = VectorRows(dimension, capacity)
        self._graphed: Graphed | None = None
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
        return self._rows.size_bytes + (self._graphed.graph.size_bytes if self._graphed else 0)

    def add(self, label: int, vector: Vectors) -> None:
        """Make a vector searchable under a label. Constant time."""
        if label not in self._rows:
            self._rows.append(label, vector)

    def remove(self, label: int) -> None:
        """Make a label unsearchable. Constant time."""
        self._rows.remove(label)

    @property
    def sample(self) -> Sample:
        """Some living rows: what `centre` is made of."""
        return self._rows.sample

    def scores(self, query: Vectors, centre: Vectors, chosen: Rows | None = None) -> Vectors:
        """Return the scores of the chosen rows, or of all; -inf for a removed one.

        All take half as long again where the same `centre` is not given again.
        """
        rows, direction = self._rows, direction_of(query, centre)
        view = rows.view()
        if chosen is None:
            vectors, alive, lengths = view.vectors, view.alive, self._lengths(rows, view, centre)
        else:
            vectors, alive = view.vectors.at(chosen), view.alive[chosen]
            lengths = distances(vectors, centre)
        scores = cosines(vectors, direction, centre, lengths)
        scores[~alive] = -np.inf
        return scores

    def proposed(self, query: Vectors, centre: Vectors, k: int) -> Rows | None:
        """Return about the `k` rows closest to a query, and those that the graph has not got.

        In ascending order. None where there is no graph, or it reaches too few living ones.
        """
        graphed = self._graphed
        if graphed is None:
            return None
        return graphed.proposed(direction_of(query, centre), k, self._rows.view())

    def nearest(self, vector: Vectors, k: int) -> tuple[list[int], list[float]]:
        """Return the labels of about the `k` rows closest to a vector, and their plain cosines.

        To 0.001, best first. Takes 0.2 ms at 10,000 rows.
        """
        view, graphed = self._rows.view(), self._graphed
        rows = None if graphed is None else graphed.proposed(vector, k, view)
        if rows is not None:
            return self.nearest_of(rows, vector, k)
        rows = np.flatnonzero(view.alive)
        return _best(view, rows, view.vectors.dots(vector)[rows], k)

    def nearest_of(self, rows: Rows, vector: Vectors, k: int) -> tuple[list[int], list[float]]:
        """Return the same of these living rows alone."""
        view = self._rows.view()
        return _best(view, rows, view.vectors.at(rows).dots(vector), k)

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

    def vector_of(self, label: int) -> Vectors:
        """Return the vector of a label, [d]; zeros if it has gone."""
        view, row = self._rows.view(), self._rows.row_of(label)
        if row is None:
            return np.zeros(self._rows.dimension, np.float32)
        vector: Vectors = view.vectors.at(slice(row, row + 1)).decoded()[0]
        return vector

    def row_of(self, label: int) -> int | None:
        """Return the row of a label, None if it is not there."""
        return self._rows.row_of(label)

    def rows_of(self, labels: Collection[int]) -> Rows:
        """Return the rows of those labels that are there."""
        return self._rows.rows_of(labels)

    @property
    def has_graph(self) -> bool:
        """True if there are so many rows that a graph proposes the best."""
        return self._graphed is not None

    # --- maintenance

    @property
    def wants_new_rows(self) -> bool:
        """True if so many rows are dead that making them anew pays."""
        return self._rows.dead > max(DEAD_MIN, DEAD_SHARE_MAX * self._rows.count)

    @property
    def wants_maintenance(self) -> bool:
        """True if `maintain` has something to do that pays."""
        rows, graphed = self._rows, self._graphed
        if self.wants_new_rows:
            return True
        if graphed is None:
            return len(rows) > EXACT_MAX
        return len(rows) < GRAPH_MIN or len(graphed.tail(rows.count)) > TAIL_MAX

    def view(self) -> View:
        """Return the rows as they are now."""
        return self._rows.view()

    def maintain(self, view: View | None = None) -> "Maintained":
        """Do the slow part, in a worker thread: extend the graph, or make all anew.

        With a `view`, which has to be taken on the loop, the rows are made anew from it.
        """
        if view is None:
            return Maintained(None, 0, _grown(self._rows, self._graphed))
        fresh = _compacted(view, self._rows.dimension)
        return Maintained(fresh, len(view.labels), _grown(fresh, None))

    def adopted(self, maintained: "Maintained") -> "DenseIndex":
        """Return the index with what `maintain` made, and what happened since. On the loop.

        Rows that were made anew are another index: whoever searches this one goes on with the rows,
        and the order of rows, that it began with.
        """
        if maintained.rows is None:
            self._graphed = maintained.graphed
            return self
        fresh, view = maintained.rows, self._rows.view()
        for label in fresh.view().labels.tolist():
            if label not in self._rows:
                fresh.remove(label)
        since = maintained.seen + np.flatnonzero(view.alive[maintained.seen :])
        fresh.extend(view.labels[since].tolist(), view.vectors.at(since))
        made = DenseIndex(self._rows.dimension)
        made._rows, made._graphed = fresh, maintained.graphed
        return made

    # --- files

    def save(self, path: Path, model: str) -> None:
        """Write the graph, if there is one, so that it need not be built again. Slow."""
        graphed = self._graphed
        if graphed is None:
            if len(self._rows) < GRAPH_MIN:  # else one that was not loaded may yet fit
                for old in (path, path.with_suffix(".graph")):
                    old.unlink(missing_ok=True)
            return
        facts, rows = graphed.graph.save(path.with_suffix(".graph"))
        labels = np.where(rows == NONE, NONE, self._rows.view().labels[rows]).tobytes()
        partial = path.with_suffix(".partial")
        with opened(partial, ANEW) as file:
            file.write(msgspec.msgpack.encode(SavedIndex(model, facts, labels)))
        os.replace(partial, path)  # noqa: PTH105 - atomic, as Path.replace, and says so

    @classmethod
    def load(
        cls, dimension: int, labels: Sequence[int], vectors: Coded, path: Path, model: str
    ) -> "DenseIndex":
        """Return an index of these rows in order, with the saved graph if it is whole. Slow."""
        index = cls(dimension, len(labels) + CAPACITY_MIN)
        index._rows.extend(labels, vectors)
        index._graphed = _load_graph(path, model, index._rows)
        return index


def _best(view: View, rows: Rows, cosines: Vectors, k: int) -> tuple[list[int], list[float]]:
    """Return the labels of the `k` rows with the highest cosines, and these, best first."""
    best = np.argpartition(-cosines, k)[:k] if len(rows) > k else np.arange(len(rows))
    best = best[np.argsort(-cosines[best], kind="stable")]
    return view.labels[rows[best]].tolist(), cosines[best].tolist()


class Maintained(NamedTuple):
    """The work of `maintain`, ready to be taken over."""

    rows: VectorRows | None
    """None when the rows stay as they are."""
    seen: int
    """The number of old rows that went into `rows`."""
    graphed: Graphed | None


def _compacted(view: View, dimension: int) -> VectorRows:
    """Return new rows with the living ones only, in the same order."""
    fresh = VectorRows(dimension, max(CAPACITY_MIN, view.living))
    fresh.extend(view.labels[view.alive].tolist(), view.vectors.at(view.alive))
    return fresh


def _grown(rows: VectorRows, graphed: Graphed | None) -> Graphed | None:
    """Return a graph over all rows; None where there are so few that a scan is as quick."""
    if len(rows) < (EXACT_MAX if graphed is None else GRAPH_MIN):
        return None
    vectors = rows.view().vectors
    count = len(vectors.codes)
    if graphed is None:
        graph = HnswGraph.empty(rows.dimension, capacity=int(count * 1.5))
        graphed = Graphed(graph, np.empty(0, np.intp), 0)
    # Nodes that were added and never adopted, as after a cancellation, are there already.
    missing = np.setdiff1d(graphed.tail(count), graphed.graph.rows)
    graphed.graph.extend(vectors, missing)
    return Graphed(graphed.graph, np.empty(0, np.intp), count)


def graph_is_whole(path: Path) -> bool:
    """Say whether the files of a graph, if there is one, are those that were written. Slow."""
    if not path.exists():
        return True
    try:
        saved = msgspec.msgpack.decode(read_bytes(path), type=SavedIndex)
    except (OSError, msgspec.DecodeError):
        return False
    return is_whole(path.with_suffix(".graph"), saved.facts)


def _load_graph(path: Path, model: str, rows: VectorRows) -> Graphed | None:
    """Return a saved graph over these rows; None if it is not whole."""
    try:
        saved = msgspec.msgpack.decode(read_bytes(path), type=SavedIndex)
    except (OSError, ValueError):
        return None
    if saved.model != model or saved.facts.dimension != rows.dimension:
        return None
    if len(saved.labels) != 8 * saved.facts.count:
        return None
    nodes = rows.rows_of_all(np.frombuffer(saved.labels, np.int64).tolist())
    graph = HnswGraph.load(path.with_suffix(".graph"), saved.facts, nodes)
    if graph is None:
        return None
    return Graphed(graph, np.setdiff1d(np.arange(rows.count), nodes), rows.count)
