"""BM25 over windows, for one query, on the rows as they were when it began.

A window is a row and the rows before it in its chain, so a word of a row counts for that row and
for those right after it. Words are added one at a time, in one of two ways:

- a rare word is followed: from its rows to the rows after them, touching only those;
- a frequent one is spread: its counts laid out for all rows, then fetched from the rows before.

Following takes 0.02 us for each row that has the word, spreading 0.004 us for each row there is.
Every array has one place more than there are rows: index -1, "no row", lands there and does no
harm, so no step has to ask.
"""

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from memory_actors.search.indexes.chains import NONE, ROWS_BEFORE, Chains

K1: Final = 0.9
B: Final = 0.4
_SPREAD_SHARE: Final = 0.2  # of all rows that have a word: spreading is quicker from here on

Scores = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


class Windows:
    """The scores of all rows for one query, each with so many rows before it."""

    def __init__(self, chains: Chains, before: int = ROWS_BEFORE):
        n = self._n = chains.count
        self._chains = chains
        self._rows_before = before
        self._alive = chains.alive[:n].copy()
        self._norm = _norm(chains.spans if before else chains.lengths, self._alive)
        self._total = np.zeros(n + 1, np.float32)
        self._found = np.zeros(n + 1, np.float32)
        self._most = 0.0

    def add(self, idf: float, rows: Rows, counts: Scores) -> None:
        """Add a word of the query that these rows, in ascending order, have so often."""
        known = int(np.searchsorted(rows, self._n))  # later ones came after the query began
        rows, counts = rows[:known], counts[:known]
        weight = idf * (K1 + 1)
        self._most += weight
        if len(rows) > _SPREAD_SHARE * self._n:
            self._spread(weight, rows, counts)
        else:
            self._follow(weight, rows, counts)

    def scores(self) -> Scores:
        """Return the scores, float32 [n], in [0, 1]; 0 for a removed row."""
        share = self._total[: self._n] / max(self._most, 1e-9)
        return np.where(self._alive, share, np.float32(0))

    def _follow(self, weight: float, rows: Rows, counts: Scores) -> None:
        touched = [rows]
        for _ in range(self._rows_before):
            touched.append(self._after[touched[-1]])
        for reached in touched:
            self._found[reached] += counts  # no row twice: each has one row before it
        places = np.concatenate(touched)
        found = self._found[places]
        # Here a row may come twice, with the same sum both times: it is set, not added up.
        self._total[places] += weight * (found / (found + self._norm[places]))
        self._found[places] = 0

    def _spread(self, weight: float, rows: Rows, counts: Scores) -> None:
        own = np.bincount(rows, counts, self._n + 1).astype(np.float32)
        own[rows] *= self._alive[rows]
        found, places = own, self._before
        for _ in range(self._rows_before):
            found = found + own[places]
            places = self._before[places]
        self._total += weight * (found / (found + self._norm))

    @cached_property
    def _after(self) -> Rows:
        return _ended(self._chains.after, self._n)

    @cached_property
    def _before(self) -> Rows:
        return _ended(self._chains.before, self._n)


def _ended(links: npt.NDArray[np.int32], n: int) -> Rows:
    """Return the links of the first n rows, none of them past the end, and no row's link."""
    ended = np.append(links[:n], NONE).astype(np.int64)
    ended[ended >= n] = NONE
    return ended


def _norm(lengths: npt.NDArray[np.int32], alive: npt.NDArray[np.bool_]) -> Scores:
    """Return what a count is weighed against: a word is less of a long window."""
    known = np.append(lengths[: len(alive)], 0)
    mean = known[:-1].sum(where=alive) / max(np.count_nonzero(alive), 1)
    relative = known.astype(np.float32) / np.float32(max(mean, 1e-9))
    return np.float32(K1) * (np.float32(1 - B) + np.float32(B) * relative)
