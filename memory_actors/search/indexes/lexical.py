"""The words of a query in a user's memories: BM25 over an inverted index that grows.

`windows` gives every row its score, in the order in which rows were added, which is that of the
vectors (`parts.py`): `candidates.py` adds both up, and takes the rows of a filter out of it. If
there are too many rows to look at, those with the best scores are among the proposed.

Theory. A memory that shares a rare word with the query is likely to answer it. BM25 counts, for
each word `w` of the query that the window has `f` times,

    idf(w) * f * (k1 + 1) / (f + k1 * (1 - b + b * length / mean length)),
    idf(w) = ln(1 + (n - df + 1/2) / (df + 1/2))

where `df` of the `n` memories have the word. The score is that sum, divided by the most that the
words known to this user could give, `sum idf(w) * (k1 + 1)`: 1 is every word many times, 0 none.
Words no memory has say nothing about which memory to choose, so they are not counted. The scores of
two queries can therefore be compared and added to a cosine. In a long query the rarest
`QUERY_WORDS_MAX` words count.

A window is a memory and the two before it in its session: an answer rarely repeats the words of
the question before it. `docs/internals/retrieval-study.md` has what windows, k1 and b are worth.

How. A term has a stretch of `row << 6 | count` for each memory that has it; the words of the newest
memories are looked through. A window is put together at query time by following the links of
`chains`, so a removed memory's words are gone from its neighbours at once. A query goes through the
lists of its words, and once or twice over a column of all rows. Rows are only appended; what is
removed is marked, and leaves when a fifth is dead.

Windows. A query is scored on the rows as they were when it began. A word of a row counts for that
row and for those right after it. Words are added one at a time, in one of two ways:

- a rare word is followed: from its rows to the rows after them, touching only those;
- a frequent one is spread: its counts are laid out for all rows, and added to the rows after them.

If only some rows count, a word is laid out, and fetched for those and the rows before them.

Following takes 0.02 us for each row that has the word, spreading 0.002 us for each row there is.
Every column has at least one place more than there are rows: index -1, "no row", lands there and
does no harm, so no step has to ask. Rows that arrive during a query do no harm either.

Early stopping. If only the best rows are wanted, the most frequent words, which add least, are
looked up only for the rows that are best without them, eight times as many as are wanted: of the
best 300 of 30,000 rows, 298 are found.

Measured (one thread, memories of 24 words): add 42 us, of which 35 are the words; a query of 10
words 0.13 ms at 10,000 memories and 0.4 ms at 100,000; remove 7 us; 0.34 KB a memory. `saved` takes
0.3 ms, `restored` 1 ms.

Threads. `append`, `remove` and `saved` belong to the loop. `windows` may be made anywhere: it
copies what could move, and a row that is added or removed meanwhile may or may not count.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isqrt, log1p
from typing import Final, NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.base.compressing import narrowed, widened
from memory_actors.base.interning import Names
from memory_actors.search.indexes.labels import NONE, Labels, Rows, in_order
from memory_actors.search.indexes.postings import ROWS_BEFORE, Chains, Counts, Postings, TermIds
from memory_actors.search.indexes.words import words

K1: Final = 0.9
B: Final = 0.4
_SPREAD_SHARE: Final = 0.1  # of all rows that have a word: spreading is quicker from here on
_FREQUENT_SHARE: Final = 0.02  # the same: it may be enough to look it up for a few rows
_LEFT_SHARE: Final = 1 / 3  # of the weight of all words of a query: frequent ones, which come last
_SAMPLED_ONE_IN: Final = 8  # rows: no other row of its window is in the sample
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
        # A sample tells which rows need not be looked at: six deviations lower than it expects.
        sampled = -total[::_SAMPLED_ONE_IN] * self._alive[::_SAMPLED_ONE_IN]
        expected = count // _SAMPLED_ONE_IN
        place = expected + 6 * isqrt(expected)
        least = -np.partition(sampled, place)[place] if place < len(sampled) else 0
        rows = np.flatnonzero(total >= least if least > 0 else total > 0)
        rows = rows[self._alive[rows]]
        behind = -total[rows]  # the other way round many equal ones take long
        if len(rows) > count:
            rows = rows[behind <= np.partition(behind, count)[count]]
        return np.asarray(rows)

    def _norms(self, rows: Rows | slice) -> Scores:
        """Return the length norm of rows: a word counts less in a long window."""
        relative = self._sizes[rows].astype(np.float32) / self._mean_size
        return np.float32(K1) * (np.float32(1 - B) + np.float32(B) * relative)

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
        self._total[places] += term.most * (sums / (sums + self._norms(places)))

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
        shares = counts + self._norms(slice(self._count))
        np.divide(counts, shares, out=shares)
        shares *= term.most
        self._total[: self._count] += shares


# --- the index as columns, as its file has it
#
# Columns are copied as they are, removed rows included, which takes no time. Making an index of
# them drops those rows and the words that only they had, all at once: 10,000 memories take 1 ms,
# where adding their texts again takes half a second.
#
# Columns that do not fit each other are refused. The file around them checks their integrity, with
# a checksum.


class Saved(msgspec.Struct, frozen=True):
    """The columns of an index at one moment, `narrowed` but for those of words."""

    terms: tuple[bytes, bytes]
    """The letters of all words, and where each ends."""
    labels: bytes
    """One a row."""
    alive: bytes
    """1 a row, 0 for a removed one."""
    before: bytes
    """The row before it in its session, -1 for none; one a row."""
    ends: bytes
    """The end of its stretch in `term_ids` and `counts`, one a row."""
    term_ids: memoryview
    """One for each different word of a row, as uint16 or uint32: see `TermIds`."""
    counts: bytes
    """How often it is there, as uint8."""


EMPTY: Final = Saved((b"", b""), b"", b"", b"", b"", memoryview(b""), b"")


# --- the index

SHARED_OF_MIN: Final = 4
"""Words of a query, from which on the share that a store has says anything."""
QUERY_WORDS_MAX: Final = 128
"""Rarest first: a pasted page as a query would otherwise take time without bound. With 64, a long
query that was asked before would spend most on words that only the earlier one has."""


def _are_distinct(values: npt.NDArray[np.integer]) -> bool:
    ordered = np.sort(values)
    return bool((ordered[1:] != ordered[:-1]).all())


class LexicalIndex:
    """The words of one user's memories, in an order of `rows` that others share."""

    def __init__(self, chains: Chains, postings: Postings):
        self.rows = chains.rows
        self.chains = chains
        self.postings = postings

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        return self.chains.size_bytes + self.postings.size_bytes

    # --- writes

    def append(self, counts: Mapping[str, int], after: int = NONE, ahead_of: int = NONE) -> None:
        """Add the words of the next row, `counted`.

        `after` is the row before it in its session; without that, `ahead_of` the one behind it.
        """
        self.chains.append(sum(counts.values()), after, ahead_of)
        self.postings.append(counts)

    def remove(self, row: int) -> None:
        """Take a row out of its session, and count its words no more."""
        self.chains.remove(row)
        self.postings.forget(row)

    # --- reads

    def following_rows(self, rows: Rows, owners: npt.NDArray[np.int32]) -> Rows:
        """Return the first row of the next owner in the chain of each row; -1 for none."""
        after, count = self.chains.links.after, len(owners)
        behind = after[rows].astype(np.intp)
        while True:
            behind[behind >= count] = NONE  # came while the query went on
            same = (behind >= 0) & (owners[behind] == owners[rows])
            if not same.any():
                return behind
            behind[same] = after[behind[same]]

    def rows_behind(self, rows: Rows) -> Rows:
        """Return the rows that have some of these before them in their windows."""
        behind = [rows]
        for _ in range(ROWS_BEFORE):
            after = self.chains.links.after[behind[-1]].astype(np.intp)
            behind.append(after[after >= 0])
        return np.concatenate(behind[1:])

    def windows(self, query: str, before: int = ROWS_BEFORE) -> Windows:
        """Return the scores of rows for a query, as they are asked for; of one moment.

        A score is in [0, 1]; that of a row without a word of the query, or removed, is 0. `before`
        is the number of earlier rows that count with each row: none, or `ROWS_BEFORE`.
        """
        rarest = self._rarest(words(query))
        terms = (Term(idf, *self.postings.of(term)) for term, idf in rarest)
        return Windows(self.chains, terms, before)

    def known_share(self, query: str) -> float:
        """Return the share of a query's words that rows have; 1 of a query of few words."""
        wanted = set(words(query))
        return len(self._known(wanted)) / len(wanted) if len(wanted) >= SHARED_OF_MIN else 1.0

    def has_all(self, query: str, labels: Iterable[int]) -> list[bool]:
        """Return for each label whether its text has all words of a query."""
        wanted, rows = set(words(query)), map(self.rows.row_of, labels)
        return [row is not None and wanted <= self.postings.words_of(row).keys() for row in rows]

    def rows_with(self, stems: Iterable[Collection[str]]) -> npt.NDArray[np.intp]:
        """Return the rows whose own words have all stems of one of these sets, in order."""
        has = np.zeros(self.rows.count, np.bool_)
        for each in stems:
            has[self.postings.with_all(each)] = True
        return np.flatnonzero(has & self.rows.alive[: len(has)])

    def _known(self, query: Iterable[str]) -> list[tuple[int, int]]:
        """Return the terms of a query that living rows have, each with the number of those rows."""
        ids = {term for term in map(self.postings.terms.find, query) if term is not None}
        return [(term, df) for term in ids if (df := self.postings.frequency(term)) > 0]

    def _rarest(self, query: Iterable[str]) -> list[tuple[int, float]]:
        """Return the known terms of a query with their idf, rarest first."""
        terms, known = self.postings.terms, self._known(query)
        # By word where they are as rare: the order of terms is that in which words came, and a
        # sum must not depend on that.
        known.sort(key=lambda pair: (pair[1], terms[pair[0]]))
        return [
            (term, log1p((self.rows.living - df + 0.5) / (df + 0.5)))
            for term, df in known[:QUERY_WORDS_MAX]
        ]

    # --- files

    def saved(self) -> Saved:
        """Copy the columns. Quick: well under a millisecond at 10,000 memories."""
        postings, n = self.postings, self.rows.count
        return Saved(
            terms=postings.terms.saved(),
            labels=narrowed(self.rows.labels),
            alive=narrowed(self.rows.alive),
            before=narrowed(self.chains.links.before[:n]),
            ends=narrowed(postings.ends),
            term_ids=memoryview(postings.term_ids.tobytes()),
            counts=postings.counts.tobytes(),
        )

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        """Return an index of the living rows of a copy. Slow: for a thread.

        :raises ValueError: the columns do not fit each other.
        """
        labels, alive = widened(saved.labels, np.int64), widened(saved.alive, np.bool_)
        before, ends = widened(saved.before, np.int32), widened(saved.ends, np.int64)
        counts, terms = np.frombuffer(saved.counts, np.uint8), Names.of_bytes(*saved.terms)
        is_short = len(saved.term_ids) == 2 * len(counts)
        term_ids: TermIds = np.frombuffer(saved.term_ids, np.uint16 if is_short else np.uint32)
        sizes, links = np.diff(ends, prepend=0), before[before != NONE]
        if not (
            len(labels) == len(alive) == len(before) == len(ends)
            and len(counts) == len(term_ids) == sizes.sum()
            and (sizes >= 0).all()
            and term_ids.max(initial=0) < max(len(terms), 1)
            # Two rows never have the same row before them.
            and links.min(initial=0) >= 0
            and links.max(initial=0) < max(len(labels), 1)
            and _are_distinct(links)
            and _are_distinct(labels[alive])  # a removed row's label may have come again
        ):
            raise ValueError("the columns of a keyword index do not fit each other: build it anew")
        rows, kept = Labels(labels[alive]), np.flatnonzero(alive)
        postings = Postings(rows, terms, ends, term_ids.copy(), counts.copy())
        if len(kept) < len(labels):
            postings = postings.taken(kept, rows)
        place = np.append(np.cumsum(alive) - 1, NONE)  # [-1], the row before none, is none
        starts = ends - sizes  # one that is behind all counts has a place, too
        lengths = np.add.reduceat(np.append(counts, np.uint8(0)), starts, dtype=np.int32)
        lengths[sizes == 0] = 0
        chains = Chains.of(rows, lengths[alive], place[before[alive]])
        return cls(chains, postings)
