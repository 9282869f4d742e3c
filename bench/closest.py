"""The memories closest to a query by meaning alone, found the way that `ranking.py` goes.

The index proposes rows; of many, the best by their estimates go on; what is left is scored exactly.
"""

import numpy as np

from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.dense import DenseIndex, Rows
from memory_actors.search.ranking import EXACT_MIN, PROPOSED, SCAN_SHARE, SECOND_STAGE


def closest(index: DenseIndex, query: Vectors, centre: Vectors, k: int) -> list[int]:
    """Return the labels of the `k` closest living rows, at most `SECOND_STAGE`, best first.

    `query` and `centre` are float32 [d].
    """
    proposed = index.proposed(query, centre, PROPOSED)
    rows = np.arange(len(index.view().labels)) if proposed is None else proposed
    return closest_of(index, rows, query, centre, k)


def closest_of(index: DenseIndex, rows: Rows, query: Vectors, centre: Vectors, k: int) -> list[int]:
    """Return the labels of the `k` closest of some rows, as those of a filter, best first."""
    labels = index.view().labels
    if len(rows) >= max(EXACT_MIN, SCAN_SHARE * len(labels)):
        rows = rows[_best(index.estimates(query, centre)[rows], SECOND_STAGE)]
    scores = index.scores(query, centre, rows)
    best = _best(scores, k)
    best = best[np.argsort(-scores[best], kind="stable")]
    found: list[int] = labels[rows[best]].tolist()
    return found


def _best(scores: Vectors, k: int) -> Rows:
    """Return the places of the `k` highest scores of living rows, in no order."""
    living = np.flatnonzero(scores > -np.inf)
    if len(living) <= k:
        return living
    return living[np.argpartition(-scores[living], k)[:k]]
