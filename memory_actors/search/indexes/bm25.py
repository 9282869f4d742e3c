"""BM25 over windows: the scores of rows for the words of one query.

A query is scored on the rows as they were when it began. A window is a row and the rows before it
in its chain, so a word of a row counts for that row and for those right after it. Words are added
one at a time, in one of two ways:

- a rare word is followed: from its rows to the rows after them, touching only those;
- a frequent one is spread: its counts are laid out for all rows, and added to the rows after them.

If only some rows count, a word is laid out, and fetched for those and the rows before them.

Following takes 0.02 us for each row that has the word, spreading 0.002 us for each row there is.
Every column has at least one place more than there are rows: index -1, "no row", lands there and
does no harm, so no step has to ask. Rows that arrive during a query do no harm either.

Early stopping. If only the best rows are wanted, the most frequent words, which add least, are
looked up only for the rows that are best without them, eight times as many as are wanted: of the
best 300 of 30,000 rows, 298 are found.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.indexes.labels import Rows, in_order
from memory_actors.search.indexes.postings import ROWS_BEFORE, Chains, Counts

K1: Final = 0.9
B: Final = 0.4
_SPREAD_SHARE: Final = 0.1  # of all rows that have a word: spreading is quicker from here on
_FREQUENT_SHARE: Final = 0.02  # the same: it may be enough to look it up for a few rows
_LEFT_SHARE: Final = 1 / 3  # of the weight of all words of a query: frequent ones, which come last
_STAYING_IN: Final = 8  # for each row that is wanted, until all words are added

Scores = npt.NDArray[np.float32]


class Term(NamedTuple):
    """A word of a query: what it weighs, and the rows that have it, in order, with how often."""

    idf: float
    rows: Rows
    counts: Counts
    """Up to `COUNT_MAX` each: three of them are still a byte."""

    @property
    def most(self) -> float:
        """More than it adds to any row."""
        return self.idf * (K1 + 1)


class Windows:
    """The scores of rows for the words of one query, the rarest first.

    A window is a row and so many rows `before` it. Scores are in [0, 1]; a removed row has 0.
    """

    def __init__(self, chains: Chains, terms: Iterable[Term], before: int = ROWS_BEFORE):
        count = self._count = chains.rows.count
        self._alive, self._links = chains.rows.alive[:count], chains.links
        # Rows may have come since: they are left out.
        known = ((one, int(one.rows.searchsorted(count))) for one in terms)
        self._terms = [Term(one.idf, one.rows[:to], one.counts[:to]) for one, to in known]
        self._most = np.float32(max(sum(term.most for term in self._terms), 1e-9))
        self._rows_before = before
        self._sizes = self._links.spans if before else self._links.lengths
        self._mean_size = np.float32(max(chains.mean_size(of_windows=before > 0), 1e-9))
        self._chains, self._is_linked = chains, chains.is_linked
        self._total = np.zeros(len(self._sizes), np.float32)
        self._found = np.zeros(len(self._sizes), np.uint8)

    def of_all(self) -> Scores:
        """Return the scores of all rows, float32 [n]."""
        for term in self._terms:
            self._add(term)
        return np.where(self._alive, self._total[: self._count] / self._most, np.float32(0))

    def of(self, rows: Rows) -> Scores:
        """Return the scores of some rows."""
        self._fetch(self._terms, rows)
        return np.where(self._alive[rows], self._total[rows] / self._most, np.float32(0))

    def best(self, count: int, others: Rows) -> tuple[Rows, Scores]:
        """Return nearly all of the `count` rows with the best scores, and `others`, in order.

        The most frequent words are looked up only for those rows that are best without them.
        """
        left, reached, wanted = float(self._most), 0, _STAYING_IN * count
        last = len(self._terms)
        for place, term in enumerate(self._terms):
            frequent = len(term.rows) > _FREQUENT_SHARE * self._count
            if frequent and reached > wanted and left < _LEFT_SHARE * self._most:
                last = place
                break
            self._add(term)
            left, reached = left - term.most, reached + len(term.rows)
        rows = self._best_yet(wanted if last < len(self._terms) else count)
        self._fetch(self._terms[last:], in_order(self._count, rows, others))
        if len(rows) > count:
            rows = rows[np.argpartition(-self._total[rows], count)[:count]]
        every = in_order(self._count, rows, others)
        return every, np.where(self._alive[every], self._total[every] / self._most, np.float32(0))

    def _best_yet(self, count: int) -> Rows:
        """Return the rows that have the best sums so far, and those that have the same."""
        total = self._total[: self._count]
        total[~self._alive] = 0
        behind = -total  # the other way round many equal ones take long
        least = -np.partition(behind, count)[count] if len(total) > count else 0
        return np.flatnonzero(total >= least if least > 0 else total > 0)

    def _norms(self, rows: Rows | slice) -> Scores:
        """Return the length norm of rows: a word counts less in a long window."""
        relative = self._sizes[rows].astype(np.float32) / self._mean_size
        return np.float32(K1) * (np.float32(1 - B) + np.float32(B) * relative)

    @cached_property
    def _every_norm(self) -> Scores:
        return self._norms(slice(None))

    def _fetch(self, terms: Sequence[Term], chosen: Rows) -> None:
        """Add words to some rows alone."""
        if not terms:
            return
        norms = self._norms(chosen)
        windows = [chosen]
        for _ in range(self._rows_before if self._is_linked else 0):
            windows.append(self._links.before[windows[-1]].astype(np.intp))
        total = self._total[chosen]
        for term in terms:
            self._found[term.rows] = term.counts
            found = self._found[chosen]
            for rows in windows[1:]:
                found += self._found[rows]
            self._found[term.rows] = 0
            total += term.most * (found / (found + norms))
        self._total[chosen] = total

    def _add(self, term: Term) -> None:
        """Add a word to all rows that have it in their windows."""
        if len(term.rows) > _SPREAD_SHARE * self._count:
            self._spread(term)
            return
        places, sums = (term.rows, term.counts) if not self._is_linked else self._linked(term)
        # Here a row may come twice, with the same sum both times: it is set, not added up.
        self._total[places] += term.most * (sums / (sums + self._every_norm[places]))

    def _linked(self, term: Term) -> tuple[Rows, Counts]:
        """Return the rows that have a word in their windows, and how often: some of them twice."""
        _, rows, counts = term
        touched, found = [rows], self._found
        found[rows] = counts
        for _ in range(self._rows_before):
            rows = self._links.after[rows].astype(np.intp)
            found[rows] += counts  # no row twice, but none: each has one row before it
            touched.append(rows)
        places = np.concatenate(touched)
        sums = found[places]
        found[places] = 0
        return places, sums

    def _spread(self, term: Term) -> None:
        own = np.zeros(self._count, np.uint8)
        own[term.rows] = term.counts
        found = own.copy()
        steps = self._chains.steps(self._count) if self._is_linked else ()
        for step in steps[: self._rows_before]:
            behind = own[: -step.rows]
            found[step.rows :] += behind if step.regular is None else behind * step.regular
            if len(step.others):
                found[step.others] += own[step.before]
        counts = found.astype(np.float32)
        shares = counts + self._every_norm[: self._count]
        np.divide(counts, shares, out=shares)
        shares *= term.most
        self._total[: self._count] += shares
