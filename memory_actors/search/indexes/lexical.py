"""The words of a query in a user's memories: BM25 over an inverted index that grows.

`score_all` gives every row its score, in the order in which rows were added, which is that of the
vectors (`parts.py`): `ranking.py` adds both up, and takes the rows of a filter out of it. If there
are too many rows to look at, those with the best scores are among the proposed.

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
the question before it. On five LoCoMo conversations (997 questions) turn recall@10 is 0.655 for a
memory's own words and 0.759 for its window; in the whole ranking the window adds 0.02.

    k1   b      alone   in the whole ranking (cross-validated)
    0.6  0.2            0.855
    0.9  0.4    0.759   0.851     chosen; the differences are noise
    1.5  0.4            0.852
    1.2  0.75           0.848

How. A term has a stretch of `row << 6 | count` for each memory that has it; the words of the newest
memories are looked through. A window is put together at query time by following the links of
`chains`, so a removed memory's words are gone from its neighbours at once. A query goes through the
lists of its words, and once or twice over a column of all rows. Rows are only appended; what is
removed is marked, and leaves when a fifth is dead: `saved` copies the columns, `restored` makes a
new index of them in a thread, `catch_up` repeats what happened since.

Measured (one thread, memories of 24 words): add 42 us, of which 35 are the words; a query of 10
words 0.13 ms at 10,000 memories and 0.4 ms at 100,000; remove 7 us; 0.34 KB a memory. `saved` takes
0.3 ms, `restored` 22 ms.

Threads. `add`, `remove`, `saved` and `catch_up` belong to the loop. `score_all` may run anywhere:
it copies what could move under it, and a row that is added or removed meanwhile may or may not
count.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from math import log1p
from typing import Final, Self

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.base.interning import Names
from memory_actors.search.indexes.bm25 import Scores, SessionSteps, Term, Windows
from memory_actors.search.indexes.labels import NONE, Rows
from memory_actors.search.indexes.postings import (
    ROWS_BEFORE,
    UNLISTED_MAX,
    Chains,
    Postings,
    counted,
)
from memory_actors.search.indexes.words import words

# --- the index as columns: what its file holds, and what it is made anew from
#
# Columns are copied as they are, removed rows included, which takes no time. Making an index of
# them drops those rows and the words that only they had, and sorts the postings, all rows at once:
# 10,000 memories take 25 ms, where adding their texts again takes half a second.
#
# Columns that do not fit each other are refused. The file around them checks their integrity, with
# a checksum.

_Ints = npt.NDArray[np.int64]
_SHORT: Final = np.uint16


class Saved(msgspec.Struct, frozen=True):
    """The columns of an index at one moment; little-endian, as on every machine we run on."""

    terms: tuple[bytes, bytes]
    """The letters of all words, and where each ends."""
    labels: bytes
    """int64 a row."""
    alive: bytes
    """bool a row."""
    before: bytes
    """int32 a row: the row before it in its session, -1 for none."""
    ends: bytes
    """int64 a row: where its stretch of `term_ids` and `counts` ends."""
    term_ids: bytes
    """uint16 for each different word of a row; uint32 where there are more words in all."""
    counts: bytes
    """uint8: how often it is there."""

    @property
    def count(self) -> int:
        """Rows, the removed ones included."""
        return len(self.alive)


EMPTY: Final = Saved((b"", b""), b"", b"", b"", b"", b"", b"")


def save(chains: Chains, postings: Postings) -> Saved:
    """Copy the columns."""
    n, few = chains.count, len(postings.terms) <= np.iinfo(_SHORT).max
    return Saved(
        terms=postings.terms.saved(),
        labels=chains.rows.labels[:n].tobytes(),
        alive=chains.rows.alive[:n].tobytes(),
        before=chains.links.before[:n].tobytes(),
        ends=postings.ends.tobytes(),
        term_ids=postings.term_ids.astype(_SHORT if few else np.uint32).tobytes(),
        counts=postings.counts.tobytes(),
    )


def restore(saved: Saved) -> tuple[Chains, Postings]:
    """Return the parts of an index, with the living rows only.

    :raises ValueError: the columns do not fit each other.
    """
    columns = _Columns(saved)
    columns.check()
    columns.drop_dead()
    return columns.chains(), columns.postings()


class _Columns:
    def __init__(self, saved: Saved):
        self.terms = Names.of_bytes(*saved.terms)
        self.labels = np.frombuffer(saved.labels, np.int64)
        self.alive = np.frombuffer(saved.alive, np.bool_)
        self.before = np.frombuffer(saved.before, np.int32)
        ends = np.frombuffer(saved.ends, np.int64)
        self.sizes: _Ints = ends - np.append(0, ends[:-1])[: len(ends)]
        self.counts = np.frombuffer(saved.counts, np.uint8)
        is_short = len(saved.term_ids) == _SHORT().itemsize * len(self.counts)
        term_ids = np.frombuffer(saved.term_ids, _SHORT if is_short else np.uint32)
        self.term_ids = term_ids.astype(np.uint32)

    def check(self) -> None:
        n, words = len(self.labels), len(self.term_ids)
        columns = (self.alive, self.before, self.sizes)
        whole = all(len(column) == n for column in columns) and len(self.counts) == words
        if not (whole and self._fits(n, words)):
            raise ValueError("the columns of a keyword index do not fit each other: build it anew")

    def _fits(self, n: int, words: int) -> bool:
        if n == 0:
            return words == 0
        stretches = bool((self.sizes >= 0).all()) and int(self.sizes.sum()) == words
        known = words == 0 or int(self.term_ids.max()) < len(self.terms)
        links = self.before[self.before != NONE]
        # Two rows never have the same row before them, and no row comes before itself.
        chained = len(links) == 0 or (links.min() >= 0 and links.max() < n)
        chained = chained and _are_distinct(links)
        living = self.labels[self.alive]  # a removed row's label may have come again
        return bool(stretches and known and chained and _are_distinct(living))

    def drop_dead(self) -> None:
        if self.alive.all():
            return
        kept = np.repeat(self.alive, self.sizes)
        place = np.append(np.cumsum(self.alive) - 1, NONE)  # [-1], the row before none, is none
        self.before = place[self.before][self.alive].astype(np.int32)
        self.labels, self.sizes = self.labels[self.alive], self.sizes[self.alive]
        self.counts = self.counts[kept]
        used, term_ids = np.unique(self.term_ids[kept], return_inverse=True)
        self.term_ids = term_ids.astype(np.uint32)
        self.terms = Names.listed(self.terms[term] for term in used.tolist())

    def chains(self) -> Chains:
        ends = np.cumsum(self.sizes)
        before = np.append(0, np.cumsum(self.counts, dtype=np.int64))  # words before each stretch
        lengths = (before[ends] - before[ends - self.sizes]).astype(np.int32)
        return Chains(len(self.labels) + 16).filled(self.labels, lengths, self.before)

    def postings(self) -> Postings:
        ends = np.cumsum(self.sizes)
        return Postings.filled(self.terms, ends, self.term_ids, self.counts)


# --- the index

QUERY_WORDS_MAX: Final = 64
"""Rarest first. A pasted page as a query would otherwise take time without bound."""
DEAD_SHARE_MAX: Final = 0.2  # of all rows before they are made anew
DEAD_MIN: Final = 64


def _are_distinct(values: npt.NDArray[np.integer]) -> bool:
    ordered = np.sort(values)
    return bool((ordered[1:] != ordered[:-1]).all())


class LexicalIndex:
    """The words of one user's memories, by label."""

    def __init__(self, chains: Chains | None = None, postings: Postings | None = None):
        self._chains = Chains() if chains is None else chains
        self._steps = SessionSteps(self._chains)
        self._postings = Postings() if postings is None else postings

    def __len__(self) -> int:
        return len(self._chains)

    def __contains__(self, label: int) -> bool:
        return label in self._chains.rows

    def labels(self) -> list[int]:
        """Return the searchable labels."""
        return self._chains.rows.there()

    def previous(self, label: int) -> int | None:
        """Return the label before this one in its session."""
        return self._chains.previous(label)

    def following(self, label: int) -> int | None:
        """Return the label behind this one in its session."""
        return self._chains.following(label)

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        return self._chains.size_bytes + self._steps.size_bytes + self._postings.size_bytes

    # --- writes

    def add(
        self, label: int, text: str, after: int | None = None, ahead_of: int | None = None
    ) -> None:
        """Make a text searchable under a label.

        `after` is what came before it in its session; without that, `ahead_of` what comes next.
        """
        self.append(label, counted(words(text)), after, ahead_of)

    def append(
        self,
        label: int,
        counts: Mapping[str, int],
        after: int | None = None,
        ahead_of: int | None = None,
    ) -> None:
        """Append a row whose words are `counted` already."""
        if label in self:
            return
        previous, following = self._row(after), self._row(ahead_of)
        row = self._chains.append(label, sum(counts.values()), previous, following)
        self._postings.append(row, counts)

    def _row(self, label: int | None) -> int:
        row = None if label is None else self._chains.rows.row_of(label)
        return NONE if row is None else row

    def remove(self, label: int) -> bool:
        """Make a label unsearchable; say whether it was there."""
        row = self._chains.remove(label)
        if row is not None:
            self._postings.forget(row)
        return row is not None

    # --- reads

    def score_all(
        self, query: str, *, before: int = ROWS_BEFORE
    ) -> tuple[npt.NDArray[np.int64], Scores]:
        """Return labels and scores, int64 and float32 [n], of all rows in the order they came.

        A score is in [0, 1]; that of a row without a word of the query, or removed, is 0. `before`
        is the number of earlier rows that count with each row: none, or `ROWS_BEFORE`.
        """
        scores = self.windows(query, before).of_all()
        return self._chains.rows.labels[: len(scores)], scores

    def lengths(self, count: int) -> npt.NDArray[np.int32]:
        """Return the number of words of each of the first rows."""
        return self._chains.links.lengths[:count]

    @property
    def is_linked(self) -> bool:
        """False while each row is a chain of its own."""
        return self._chains.is_linked

    def following_rows(self, rows: Rows, owners: npt.NDArray[np.int32]) -> Rows:
        """Return the first row of the next owner in the chain of each row; -1 for none."""
        after, count = self._chains.links.after, len(owners)
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
            after = self._chains.links.after[behind[-1]].astype(np.intp)
            behind.append(after[after >= 0])
        return np.concatenate(behind[1:])

    def windows(self, query: str, before: int = ROWS_BEFORE) -> Windows:
        """Return the scores of rows for a query, as they are asked for; of one moment."""
        rarest = self._rarest(words(query))
        terms = (Term(idf, *self._postings.of(term)) for term, idf in rarest)
        return Windows(self._chains, self._steps, terms, before)

    def has_all(self, query: str, labels: Iterable[int]) -> list[bool]:
        """Return for each label whether its text has all words of a query."""
        wanted, rows = set(words(query)), map(self._chains.rows.row_of, labels)
        return [row is not None and wanted <= self._postings.words_of(row).keys() for row in rows]

    def rows_with(self, stems: Iterable[Collection[str]]) -> npt.NDArray[np.intp]:
        """Return the rows whose own words have all stems of one of these sets, in order."""
        has = np.zeros(self._chains.count, np.bool_)
        for each in stems:
            has[self._postings.with_all(each)] = True
        return np.flatnonzero(has & self._chains.rows.alive[: len(has)])

    def _rarest(self, query: Iterable[str]) -> list[tuple[int, float]]:
        """Return the known terms of a query with their idf, rarest first."""
        terms = self._postings.terms
        ids = {term for term in map(terms.find, query) if term is not None}
        known = [(term, df) for term in ids if (df := self._postings.frequency(term)) > 0]
        # By word where they are as rare: the order of terms is that in which words came, and a
        # sum must not depend on that.
        known.sort(key=lambda pair: (pair[1], terms[pair[0]]))
        return [
            (term, log1p((len(self) - df + 0.5) / (df + 0.5)))
            for term, df in known[:QUERY_WORDS_MAX]
        ]

    # --- made anew

    @property
    def wants_lists(self) -> bool:
        """True if so many words are looked through that listing their rows pays."""
        return self._postings.unlisted > UNLISTED_MAX

    def listed(self) -> Callable[[], None]:
        """List the rows of all words, in a thread; return what the loop then calls."""
        return partial(self._postings.adopt, self._postings.listed())

    @property
    def wants_maintenance(self) -> bool:
        """True if so many rows are dead that making the index anew pays."""
        dead = self._chains.dead
        return dead > max(DEAD_MIN, DEAD_SHARE_MAX * self._chains.count)

    def saved(self) -> Saved:
        """Copy the columns. Quick: well under a millisecond at 10,000 memories."""
        return save(self._chains, self._postings)

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        """Return an index of the living rows of a copy. Slow: for a thread.

        :raises ValueError: the columns do not fit each other.
        """
        return cls(*restore(saved))

    def catch_up(self, newer: "LexicalIndex", saved: Saved) -> None:
        """Repeat here what happened to `newer` since it was `saved`."""
        for label in self.labels():
            if label not in newer:
                self.remove(label)
        for label, counts in newer.since(saved.count):
            after = self._nearest(label, newer.previous)
            ahead_of = self._nearest(label, newer.following) if after is None else None
            self.append(label, counts, after, ahead_of)

    def _nearest(self, label: int, step: Callable[[int], int | None]) -> int | None:
        """Return the nearest label along a session that is here already."""
        found = step(label)
        while found is not None and found not in self:
            found = step(found)
        return found

    def since(self, row: int) -> Iterator[tuple[int, Mapping[str, int]]]:
        """Yield the label and the words of each living row from this one on."""
        for later in range(row, self._chains.count):
            if self._chains.rows.alive[later]:
                yield int(self._chains.rows.labels[later]), self._postings.words_of(later)
