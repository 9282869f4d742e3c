"""Sessions as chains of rows, and the postings of words: what BM25 over windows is reckoned from.

Rows are only appended, and who reads goes on with the columns that there were.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from memory_actors.base.interning import Names
from memory_actors.search.indexes.labels import (
    CAPACITY_MIN,
    GROWTH,
    NONE,
    Labels,
    Rows,
    tally,
    with_room,
)

# --- chains: rows of a growing table, linked to those before and after them
#
# A chain is a session: what was said just before a memory helps to find it. Rows are only appended.
# A removed row is marked and taken out of its chain, so its neighbours meet across the gap and its
# words help nobody any more.
#
# `span` is the length of a row's window: of the row and of up to `ROWS_BEFORE` rows before it. It
# is kept up to date for the few rows that a change touches.

ROWS_BEFORE: Final = 2
"""Rows before a row that are part of its window: recall is best with two."""
_Ints = npt.NDArray[np.int32]
Counts = npt.NDArray[np.uint8]


class Links(NamedTuple):
    """Columns of chains, with one place more than there are rows, for index -1, "no row"."""

    lengths: _Ints
    """The number of words of each row."""
    spans: _Ints
    """The number of words of its window."""
    before: _Ints
    """The row before it in its chain."""
    after: _Ints
    """The row behind it."""

    @classmethod
    def empty(cls, capacity: int) -> Self:
        """Return columns with room for so many rows."""
        rows = np.zeros((2, capacity + 1), np.int32)
        return cls(*rows, *(np.full_like(rows, NONE)))


class ChainStep(NamedTuple):
    """A step along all chains at once."""

    rows: int
    """The number of rows back that are gone, most often."""
    regular: Counts | None
    """1 for each row, from the first that there can be, that has that row before it; None: all."""
    others: Rows
    """The rows that have another one."""
    before: npt.NDArray[np.int32]


class Chains:
    """The links of rows to those beside them in their chains."""

    def __init__(self, rows: Labels, links: Links):
        self.rows = rows
        self.links = links
        """Replaced as a whole where they grow: who has them has all of one length."""
        self.is_linked = bool((links.before != NONE).any())
        """False while each row is a chain of its own."""
        self.changes = 0
        """Counted before and behind each change: while it is the same, `links` are."""
        self._steps = (-1, -1), list[ChainStep]()
        """The ways along all chains, and the change and the number of rows that they are of."""
        living = np.flatnonzero(rows.alive)
        self._length_sum = int(links.lengths[living].sum())
        self._span_sum = int(links.spans[living].sum())

    @classmethod
    def of(cls, rows: Labels, lengths: _Ints, before: _Ints) -> Self:
        """Return the chains of these rows, where each has one row before it, or none."""
        n, links = rows.count, Links.empty(rows.count + CAPACITY_MIN)
        links.lengths[:n], links.before[:n] = lengths, before
        linked = np.flatnonzero(before != NONE)
        links.after[before[linked]] = linked
        earlier, links.spans[:n] = before, lengths
        for _ in range(ROWS_BEFORE):
            links.spans[:n] += links.lengths[earlier]
            earlier = links.before[earlier]
        return cls(rows, links)

    def mean_size(self, *, of_windows: bool) -> float:
        """Return the mean number of words of the living rows, or of their windows."""
        return (self._span_sum if of_windows else self._length_sum) / max(self.rows.living, 1)

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        steps = (one for step in self._steps[1] for one in step[1:] if one is not None)
        return sum(column.nbytes for column in (*self.links, *steps))

    def steps(self, count: int) -> Sequence[ChainStep]:
        """Return the ways from the first rows to those before them, and to those before these.

        Kept until a chain changes; for any thread.
        """
        now, (then, steps) = (self.changes, count), self._steps
        if now != then:
            links, rows, steps = self.links.before, np.arange(count, dtype=np.int32), []
            before = rows
            for step in range(1, 1 + ROWS_BEFORE):
                before = links[before]
                regular = before == rows - step
                others = np.flatnonzero(~regular & (before >= 0) & (before < count))
                some = None if regular[step:].all() else regular[step:].astype(np.uint8)
                steps.append(ChainStep(step, some, others, before[others]))
            self._steps = now, steps
        return steps

    def append(self, length: int, previous: int = NONE, following: int = NONE) -> None:
        """Put the next row right behind another, else in front of one, else in its own chain."""
        row = self.rows.count
        self.changes += 1
        if row + 1 == len(self.links.lengths):
            wider = Links.empty(int(row * GROWTH) + CAPACITY_MIN)
            for new, old in zip(wider, self.links, strict=True):
                new[:row] = old[:row]
            self.links = wider
        self.links.lengths[row] = length
        self._length_sum += length
        if previous != NONE:
            following = int(self.links.after[previous])
            self._link(previous, row)
        self._link(row, following)
        self._measure(row)
        self.changes += 1

    def remove(self, row: int) -> None:
        """Close the gap that a row leaves."""
        self.changes += 1
        links = self.links
        before, after = int(links.before[row]), int(links.after[row])
        self._link(before, after)
        links.before[row] = links.after[row] = NONE
        self._length_sum -= int(links.lengths[row])
        self._span_sum -= int(links.spans[row])
        self._measure(after)
        self.changes += 1

    def taken(self, kept: Rows, rows: Labels) -> "Chains":
        """Return the chains of some rows, all that live among them, for `rows` of their own."""
        places = np.full(len(self.links.lengths), NONE, np.int32)  # the place of no row is none
        places[kept] = np.arange(len(kept), dtype=np.int32)
        return Chains.of(rows, self.links.lengths[kept], places[self.links.before[kept]])

    def _link(self, first: int, second: int) -> None:
        self.is_linked |= first != NONE != second
        if first != NONE:
            self.links.after[first] = second
        if second != NONE:
            self.links.before[second] = first

    def _measure(self, row: int) -> None:
        """Set the span of a row and of those that have it in their window."""
        lengths, spans, before, after = self.links
        for changed in self._walk(row, after):
            span = sum(int(lengths[part]) for part in self._walk(changed, before))
            self._span_sum += span - int(spans[changed])
            spans[changed] = span

    def _walk(self, row: int, link: _Ints) -> Iterator[int]:
        for _ in range(1 + ROWS_BEFORE):
            if row == NONE:
                return
            yield row
            row = int(link[row])


# --- postings: the rows that have a word, and the words that a row has
#
# A row has a stretch of one flat array of terms, with their counts. The other way round, a term has
# a stretch of `row << 6 | count`, in order of row, in the lists of the first rows; the rows since
# have few words, and are looked through. Now and then lists are made that have those too
# (`listed`): for a thread. Rows are never moved or rewritten: a removed row stays in the arrays
# until they are rebuilt.

COUNT_BITS: Final = 6
COUNT_MAX: Final = (1 << COUNT_BITS) - 1  # BM25 is flat long before a word comes 63 times
_POSTING_BITS: Final = 32
OWN_WORDS_MAX: Final = 256
"""Rows whose own words are looked at in one go, which takes as long as a list of words."""
UNLISTED_MAX: Final = 1 << 14
"""Words of rows that are not in the lists: a term is looked for in them in 5 us."""

Lists = npt.NDArray[np.uint32]
TermIds = npt.NDArray[np.unsignedinteger]
"""uint16, or uint32 if there are more than `SHORT_TERMS_MAX`."""
SHORT_TERMS_MAX: Final = 1 << 16


def counted(words: Iterable[str]) -> dict[str, int]:
    """Return how often each word comes, 63 times at most: the one count of the words of a text."""
    return {word: min(count, COUNT_MAX) for word, count in Counter(words).items()}


class _Listed(NamedTuple):
    """The rows of each term, of the first `word_count` words."""

    word_count: int
    starts: Lists
    """The start of each term's stretch, and the end of the last."""
    packed: Lists


class Postings:
    """An inverted index of rows, and the way back from a row to its words."""

    def __init__(
        self, rows: Labels, terms: Names, ends: npt.NDArray[np.int64], term_ids: TermIds,
        counts: Counts,
    ):  # fmt: skip
        """Take the words of all rows; none is in the lists yet."""
        self.terms = terms
        self._rows = rows
        self._ends, self._term_ids, self._counts = ends, term_ids, counts
        self._frequencies = tally(term_ids, len(terms))
        self._listed = _Listed(0, np.zeros(1, np.uint32), np.empty(0, np.uint32))

    def taken(self, kept: Rows, rows: Labels) -> "Postings":
        """Return the words of some rows, for `rows` of their own; words of no row go. Slow."""
        sizes = np.diff(self._ends, prepend=0)[kept]
        ends = np.cumsum(sizes)
        places = np.arange(sizes.sum()) + np.repeat(self._ends[kept] - ends, sizes)
        used, ids = np.unique(self._term_ids[places], return_inverse=True)
        terms = Names.listed(self.terms[term] for term in used.tolist())
        return Postings(rows, terms, ends, ids.astype(self._term_ids.dtype), self._counts[places])

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """The end of each row's stretch in the two flat arrays."""
        return self._ends[: self._rows.count]

    @property
    def term_ids(self) -> TermIds:
        """The different terms of each row."""
        return self._term_ids[: self._start(self._rows.count)]

    @property
    def counts(self) -> Counts:
        """The number of times that each is there."""
        return self._counts[: self._start(self._rows.count)]

    def frequency(self, term: int) -> int:
        """Return how many living rows have a term."""
        frequencies = self._frequencies  # of a new term it may not be there yet
        return int(frequencies[term]) if term < len(frequencies) else 0

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        forward = self._ends.nbytes + self._term_ids.nbytes + self._counts.nbytes
        lists = self._listed.starts.nbytes + self._listed.packed.nbytes
        return forward + lists + self._frequencies.nbytes + self.terms.size_bytes

    def append(self, counts: Mapping[str, int]) -> None:
        """Add the words of the next row, `counted`."""
        row = self._rows.count
        start = self._start(row)
        end = start + len(counts)
        term_ids = np.fromiter(map(self.terms.of, counts), np.intp, len(counts))
        if len(self.terms) > SHORT_TERMS_MAX:
            self._term_ids = self._term_ids.astype(np.uint32, copy=False)
        self._term_ids = with_room(self._term_ids, end)
        self._counts = with_room(self._counts, end)
        self._ends = with_room(self._ends, row + 1)
        self._frequencies = with_room(self._frequencies, len(self.terms))
        self._term_ids[start:end], self._counts[start:end] = term_ids, list(counts.values())
        self._frequencies[term_ids] += 1
        self._ends[row] = end

    def forget(self, row: int) -> None:
        """Count the words of a removed row no more."""
        self._frequencies[self._terms_of(row)] -= 1

    def of(self, term: int) -> tuple[Rows, Counts]:
        """Return the rows that have a term, removed ones included, and how often each."""
        packed = self._packed(term)
        rows = (packed >> COUNT_BITS).astype(np.int64)
        return rows, (packed & COUNT_MAX).astype(np.uint8)

    def with_all(self, words: Collection[str]) -> Lists:
        """Return the rows that have all of some words, removed ones included."""
        terms = [term for term in map(self.terms.find, words) if term is not None]
        if not terms or len(terms) < len(words):
            return np.empty(0, np.uint32)
        rarest, *others = sorted(terms, key=self.frequency)
        rows = self._rows_of(rarest)
        while others and len(rows) > OWN_WORDS_MAX:
            has = np.zeros(self._rows.count, np.bool_)
            has[self._rows_of(others.pop(0))] = True
            rows = rows[has[rows]]
        return rows[self._have(rows, others)] if others and len(rows) else rows

    def _have(self, rows: Lists, terms: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Mark the rows that have all of some different terms."""
        ends = self._ends[rows]
        sizes = ends - np.where(rows > 0, self._ends[rows.astype(np.intp) - 1], 0)
        behind = np.cumsum(sizes)
        words = self._term_ids[np.arange(behind[-1]) + np.repeat(ends - behind, sizes)]
        wanted = np.zeros(len(self.terms), np.uint8)
        wanted[terms] = 1
        found = np.add.reduceat(wanted[words], behind - sizes, dtype=np.intp)
        return np.asarray(found == len(terms))

    def _packed(self, term: int) -> Lists:
        count, starts, packed = self._listed  # of one moment
        listed = packed[starts[term] : starts[term + 1]] if term + 1 < len(starts) else packed[:0]
        since = count + np.flatnonzero(self.term_ids[count:] == term)
        if not len(since):
            return listed
        rows = np.searchsorted(self.ends, since, side="right")
        unlisted = (rows << COUNT_BITS | self._counts[since]).astype(np.uint32)
        return np.concatenate([listed, unlisted])

    def _rows_of(self, term: int) -> Lists:
        return np.asarray(self._packed(term) >> COUNT_BITS, np.uint32)

    def words_of(self, row: int) -> dict[str, int]:
        """Return the words of a row with their counts."""
        counts = self._counts[self._start(row) : self._ends[row]]
        pairs = zip(self._terms_of(row).tolist(), counts.tolist(), strict=True)
        return {self.terms[term]: count for term, count in pairs}

    def _terms_of(self, row: int) -> TermIds:
        return self._term_ids[self._start(row) : self._ends[row]]

    def _start(self, row: int) -> int:
        return int(self._ends[row - 1]) if row else 0

    # --- the lists

    @property
    def wants_lists(self) -> bool:
        """True if so many words are looked through that listing their rows pays."""
        return self._start(self._rows.count) - self._listed.word_count > UNLISTED_MAX

    def listed(self) -> _Listed:
        """Return lists of all rows there are now. From a thread: 3 ms at 10,000 memories."""
        count, starts, packed = self._listed
        ends = self.ends  # of one moment: others may come meanwhile
        first = int(np.searchsorted(ends, count, side="right"))
        numbers = np.arange(first, len(ends), dtype=np.uint32) << np.uint32(COUNT_BITS)
        fresh = np.repeat(numbers, np.diff(ends[first:], prepend=count))
        until = count + len(fresh)
        term_ids = self._term_ids[count:until]
        fresh |= self._counts[count:until]
        # Sorted as one number each: that takes half as long as finding the order of the terms.
        keys = term_ids.astype(np.uint64)
        keys <<= np.uint64(_POSTING_BITS)
        keys |= fresh
        keys.sort()
        fresh[:] = keys  # their lower bits
        terms = max(len(starts) - 1, 1 + int(term_ids.max(initial=0)))
        new = np.bincount(term_ids, minlength=terms)
        starts = np.pad(starts, (0, terms + 1 - len(starts)), mode="edge")
        behind = np.repeat(starts[1:].astype(np.intp), new)  # its term's old ones
        packed = np.insert(packed, behind, fresh) if len(packed) else fresh
        starts[1:] += np.cumsum(new, dtype=np.uint32)
        return _Listed(count + len(term_ids), starts, packed)

    def adopt(self, listed: _Listed) -> None:
        """Use lists that were made. On the loop."""
        self._listed = listed
