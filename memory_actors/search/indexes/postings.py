"""Postings: the rows that have a word, and the words that a row has.

A term has one growing array with `row << 6 | count` for each row that has it, in order of row; a
row has a stretch of one flat array of terms, which tells what to take back when it goes. Nothing is
ever moved or rewritten: a removed row stays in the arrays until they are made anew.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

COUNT_BITS: Final = 6
COUNT_MAX: Final = (1 << COUNT_BITS) - 1  # BM25 is flat long before a word comes 63 times
ROWS_MAX: Final = 1 << (32 - COUNT_BITS)  # 67 million
FEW_ROWS: Final = 12
"""Of so many the own words are looked at, rather than the lists of all words."""
_TERM_BYTES: Final = 300  # a word, its number in a dict, its array and what arrays keep in reserve


def counted(words: Iterable[str]) -> dict[str, int]:
    """Return how often each word comes, 63 times at most: the one count of the words of a text."""
    return {word: min(count, COUNT_MAX) for word, count in Counter(words).items()}


class Postings:
    """An inverted index of rows, and the way back from a row to its words."""

    def __init__(self) -> None:
        self.terms: list[str] = []
        self.id_of: dict[str, int] = {}
        self.packed: list[array[int]] = []
        self.frequencies: list[int] = []
        """Living rows that have the term."""
        self.ends = array("q")
        """Of each row's stretch in the two flat arrays."""
        self.term_ids = array("I")
        self.counts = array("B")

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        return 8 * len(self.ends) + 9 * len(self.term_ids) + _TERM_BYTES * len(self.terms)

    def append(self, row: int, counts: Mapping[str, int]) -> None:
        """Add the words of the next row, `counted`.

        :raises OverflowError: there are more rows than a posting can tell.
        """
        if row != len(self.ends) or row >= ROWS_MAX:
            raise OverflowError(f"row {row} after {len(self.ends)} rows, {ROWS_MAX} at most")
        for word, count in counts.items():
            self._post(self._id(word), row, count)
        self.ends.append(len(self.term_ids))

    def forget(self, row: int) -> None:
        """Count the words of a removed row no more."""
        for term in self._terms_of(row):
            self.frequencies[term] -= 1

    def of(self, term: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return the rows that have a term, removed ones included, and how often each."""
        packed = self._packed(term)
        rows = (packed >> COUNT_BITS).astype(np.int64)
        return rows, (packed & COUNT_MAX).astype(np.float32)

    def with_all(self, words: Collection[str]) -> npt.NDArray[np.uint32]:
        """Return the rows that have all of some words, removed ones included."""
        terms = [self.id_of[word] for word in words if word in self.id_of]
        if not terms or len(terms) < len(words):
            return np.empty(0, np.uint32)
        rarest, *others = sorted(terms, key=self.frequencies.__getitem__)
        rows = self._rows_of(rarest)
        for place, term in enumerate(others):
            if len(rows) <= FEW_ROWS:
                wanted = set(others[place:])
                kept = [row for row in rows.tolist() if wanted.issubset(self._terms_of(row))]
                return np.array(kept, np.uint32)
            has = np.zeros(len(self.ends), np.bool_)
            has[self._rows_of(term)] = True
            rows = rows[has[rows]]
        return rows

    def _packed(self, term: int) -> npt.NDArray[np.uint32]:
        # A copy: an array that lends its memory cannot grow.
        return np.frombuffer(self.packed[term].tobytes(), np.uint32)

    def _rows_of(self, term: int) -> npt.NDArray[np.uint32]:
        return np.asarray(self._packed(term) >> COUNT_BITS, np.uint32)

    def words_of(self, row: int) -> dict[str, int]:
        """Return the words of a row with their counts."""
        counts = self.counts[self._start(row) : self.ends[row]]
        pairs = zip(self._terms_of(row), counts, strict=True)
        return {self.terms[term]: count for term, count in pairs}

    def _post(self, term: int, row: int, count: int) -> None:
        self.packed[term].append(row << COUNT_BITS | count)
        self.frequencies[term] += 1
        self.term_ids.append(term)
        self.counts.append(count)

    def _id(self, word: str) -> int:
        known = self.id_of.get(word)
        if known is not None:
            return known
        self.terms.append(word)
        self.packed.append(array("I"))
        self.frequencies.append(0)
        self.id_of[word] = len(self.terms) - 1  # last: a search may look from another thread
        return len(self.terms) - 1

    def _terms_of(self, row: int) -> Sequence[int]:
        return self.term_ids[self._start(row) : self.ends[row]]

    def _start(self, row: int) -> int:
        return self.ends[row - 1] if row else 0
