"""The words of a query in a user's memories: BM25 over an inverted index that grows.

`score_all` gives every row its score, in the order in which rows were added, which is that of the
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
removed is marked, and leaves when a fifth is dead.

Measured (one thread, memories of 24 words): add 42 us, of which 35 are the words; a query of 10
words 0.13 ms at 10,000 memories and 0.4 ms at 100,000; remove 7 us; 0.34 KB a memory. `saved` takes
0.3 ms, `restored` 22 ms.

Threads. `append`, `remove` and `saved` belong to the loop. `score_all` may run anywhere: it copies
what could move under it, and a row that is added or removed meanwhile may or may not count.
"""

from collections.abc import Collection, Iterable, Mapping
from math import log1p
from typing import Final, Self

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.base.interning import Names
from memory_actors.search.indexes.bm25 import Scores, Term, Windows
from memory_actors.search.indexes.labels import NONE, Labels, Rows
from memory_actors.search.indexes.postings import (
    ROWS_BEFORE,
    Chains,
    Postings,
)
from memory_actors.search.indexes.words import words

# --- the index as columns, as its file has it
#
# Columns are copied as they are, removed rows included, which takes no time. Making an index of
# them drops those rows and the words that only they had, all at once: 10,000 memories take 25 ms,
# where adding their texts again takes half a second.
#
# Columns that do not fit each other are refused. The file around them checks their integrity, with
# a checksum.

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


EMPTY: Final = Saved((b"", b""), b"", b"", b"", b"", b"", b"")


# --- the index

QUERY_WORDS_MAX: Final = 64
"""Rarest first. A pasted page as a query would otherwise take time without bound."""


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

    def score_all(
        self, query: str, *, before: int = ROWS_BEFORE
    ) -> tuple[npt.NDArray[np.int64], Scores]:
        """Return labels and scores, int64 and float32 [n], of all rows in the order they came.

        A score is in [0, 1]; that of a row without a word of the query, or removed, is 0. `before`
        is the number of earlier rows that count with each row: none, or `ROWS_BEFORE`.
        """
        scores = self.windows(query, before).of_all()
        return self.rows.labels[: len(scores)], scores

    def lengths(self, count: int) -> npt.NDArray[np.int32]:
        """Return the number of words of each of the first rows."""
        return self.chains.links.lengths[:count]

    @property
    def is_linked(self) -> bool:
        """False while each row is a chain of its own."""
        return self.chains.is_linked

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
        """Return the scores of rows for a query, as they are asked for; of one moment."""
        rarest = self._rarest(words(query))
        terms = (Term(idf, *self.postings.of(term)) for term, idf in rarest)
        return Windows(self.chains, terms, before)

    def known_share(self, query: str) -> float:
        """Return the share of a query's words that rows have; 1 of a query without words."""
        wanted = set(words(query))
        terms = (self.postings.terms.find(word) for word in wanted)
        known = sum(term is not None and self.postings.frequency(term) > 0 for term in terms)
        return known / len(wanted) if wanted else 1.0

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

    def _rarest(self, query: Iterable[str]) -> list[tuple[int, float]]:
        """Return the known terms of a query with their idf, rarest first."""
        terms = self.postings.terms
        ids = {term for term in map(terms.find, query) if term is not None}
        known = [(term, df) for term in ids if (df := self.postings.frequency(term)) > 0]
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
        few = len(postings.terms) <= np.iinfo(_SHORT).max
        return Saved(
            terms=postings.terms.saved(),
            labels=self.rows.labels.tobytes(),
            alive=self.rows.alive.tobytes(),
            before=self.chains.links.before[:n].tobytes(),
            ends=postings.ends.tobytes(),
            term_ids=postings.term_ids.astype(_SHORT if few else np.uint32).tobytes(),
            counts=postings.counts.tobytes(),
        )

    @classmethod
    def restored(cls, saved: Saved) -> Self:
        """Return an index of the living rows of a copy. Slow: for a thread.

        :raises ValueError: the columns do not fit each other.
        """
        labels, alive = np.frombuffer(saved.labels, np.int64), np.frombuffer(saved.alive, np.bool_)
        before, ends = np.frombuffer(saved.before, np.int32), np.frombuffer(saved.ends, np.int64)
        counts, terms = np.frombuffer(saved.counts, np.uint8), Names.of_bytes(*saved.terms)
        is_short = len(saved.term_ids) == _SHORT().itemsize * len(counts)
        term_ids = np.frombuffer(saved.term_ids, _SHORT if is_short else np.uint32)
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
        postings = Postings(rows, terms, ends, term_ids.astype(np.uint32), counts.copy())
        if len(kept) < len(labels):
            postings = postings.taken(kept, rows)
        place = np.append(np.cumsum(alive) - 1, NONE)  # [-1], the row before none, is none
        lengths = np.diff(np.append(0, np.cumsum(counts, dtype=np.int64))[ends], prepend=0)
        chains = Chains.of(rows, lengths[alive].astype(np.int32), place[before[alive]])
        return cls(chains, postings)
