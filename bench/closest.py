"""The memories closest to a query by meaning alone, found as `candidates.py` finds them.

The index proposes rows, or all are scored.
"""

import numpy as np

from memory_actors.search.candidates import PROPOSED
from memory_actors.search.dot_products import coded_units
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.labels import Labels, Rows


def index_of(vectors: Vectors) -> DenseIndex:
    """Return an index of vectors, float32 [n, d]; each has its number as its label."""
    return DenseIndex(Labels(np.arange(len(vectors), dtype=np.int64)), coded_units(vectors))


def add(index: DenseIndex, label: int, vector: Vectors) -> None:
    """Add a vector, float32 [d], as a memory's index does."""
    index.extend(coded_units(vector[None]))
    index.rows.append(label)
    index.resample(label)


def remove(index: DenseIndex, label: int) -> None:
    """Remove a vector, if it is there."""
    if index.rows.remove(label) is not None:
        index.resample(label)


def maintained(index: DenseIndex) -> DenseIndex:
    """Return an index after what the background would do."""
    if not index.rows.wants_maintenance:
        return index
    kept = np.flatnonzero(index.rows.alive)
    return index.taken(kept, Labels(index.rows.labels[kept]))


def closest(index: DenseIndex, query: Vectors, centre: Vectors, k: int) -> list[int]:
    """Return the labels of the `k` closest living rows, best first.

    `query` and `centre` are float32 [d].
    """
    return closest_of(index, index.proposed(query, centre, PROPOSED), query, centre, k)


def closest_of(
    index: DenseIndex, rows: Rows | None, query: Vectors, centre: Vectors, k: int
) -> list[int]:
    """Return the labels of the `k` closest of some rows, as those of a filter, or of all."""
    scores = index.scores(query, centre, rows)
    best = _best(scores, k)
    best = best[np.argsort(-scores[best], kind="stable")]
    found: list[int] = index.view().labels[best if rows is None else rows[best]].tolist()
    return found


def _best(scores: Vectors, k: int) -> Rows:
    """Return the places of the `k` highest scores of living rows, in no order."""
    living = np.flatnonzero(scores > -np.inf)
    if len(living) <= k:
        return living
    return living[np.argpartition(-scores[living], k)[:k]]
