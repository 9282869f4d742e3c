"""The keyword index as columns: what its file holds, and what it is made anew from.

Columns are copied as they are, removed rows included, which takes no time. Making an index of them
drops those rows and the words that only they had, and sorts the postings, all rows at once: 10,000
memories take 25 ms, where adding their texts again takes half a second.

Columns that do not fit each other are refused. That they are the ones that were written is for the
file around them to say, with a checksum.
"""

from array import array

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.search.indexes.chains import NONE, Chains
from memory_actors.search.indexes.postings import COUNT_BITS, Postings

_Ints = npt.NDArray[np.int64]


class Saved(msgspec.Struct, frozen=True):
    """The columns of an index at one moment; little-endian, as on every machine we run on."""

    terms: list[str]
    labels: bytes
    """int64 a row."""
    alive: bytes
    """bool a row."""
    before: bytes
    """int32 a row: the row before it in its session, -1 for none."""
    ends: bytes
    """int64 a row: where its stretch of `term_ids` and `counts` ends."""
    term_ids: bytes
    """uint32 for each different word of a row."""
    counts: bytes
    """uint8: how often it is there."""

    @property
    def count(self) -> int:
        """Rows, the removed ones included."""
        return len(self.alive)


def save(chains: Chains, postings: Postings) -> Saved:
    """Copy the columns."""
    n = chains.count
    return Saved(
        terms=list(postings.terms),
        labels=chains.labels[:n].tobytes(),
        alive=chains.alive[:n].tobytes(),
        before=chains.before[:n].tobytes(),
        ends=postings.ends.tobytes(),
        term_ids=postings.term_ids.tobytes(),
        counts=postings.counts.tobytes(),
    )


def restore(saved: Saved) -> tuple[Chains, Postings]:
    """Return what an index is made of, with the living rows only.

    :raises ValueError: the columns do not fit each other.
    """
    columns = _Columns(saved)
    columns.check()
    columns.drop_dead()
    return columns.chains(), columns.postings()


class _Columns:
    def __init__(self, saved: Saved):
        self.terms = saved.terms
        self.labels = np.frombuffer(saved.labels, np.int64)
        self.alive = np.frombuffer(saved.alive, np.bool_)
        self.before = np.frombuffer(saved.before, np.int32)
        ends = np.frombuffer(saved.ends, np.int64)
        self.sizes: _Ints = ends - np.append(0, ends[:-1])[: len(ends)]
        self.term_ids = np.frombuffer(saved.term_ids, np.uint32).astype(np.int64)
        self.counts = np.frombuffer(saved.counts, np.uint8)

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
        chained = chained and len(np.unique(links)) == len(links)
        living = self.labels[self.alive]  # a removed row's label may have come again
        return bool(stretches and known and chained and len(np.unique(living)) == len(living))

    def drop_dead(self) -> None:
        kept = np.repeat(self.alive, self.sizes)
        place = np.append(np.cumsum(self.alive) - 1, NONE)  # [-1], the row before none, is none
        self.before = place[self.before][self.alive].astype(np.int32)
        self.labels, self.sizes = self.labels[self.alive], self.sizes[self.alive]
        self.counts = self.counts[kept]
        used, self.term_ids = np.unique(self.term_ids[kept], return_inverse=True)
        self.terms = [self.terms[term] for term in used.tolist()]

    def chains(self) -> Chains:
        ends = np.cumsum(self.sizes)
        before = np.append(0, np.cumsum(self.counts, dtype=np.int64))  # words before each stretch
        lengths = (before[ends] - before[ends - self.sizes]).astype(np.int32)
        return Chains(len(self.labels) + 16).filled(self.labels, lengths, self.before)

    def postings(self) -> Postings:
        made = Postings()
        made.terms = self.terms
        made.id_of = {word: term for term, word in enumerate(self.terms)}
        made.packed = self._packed()
        made.frequencies = [len(rows) for rows in made.packed]
        made.ends = array("q", np.cumsum(self.sizes).tobytes())
        made.term_ids = array("I", self.term_ids.astype(np.uint32).tobytes())
        made.counts = array("B", self.counts.tobytes())
        return made

    def _packed(self) -> "list[array[int]]":
        rows = np.repeat(np.arange(len(self.sizes), dtype=np.uint32), self.sizes)
        packed = rows << np.uint32(COUNT_BITS) | self.counts
        order = np.argsort(self.term_ids, kind="stable")
        ends = np.cumsum(np.bincount(self.term_ids, minlength=len(self.terms)))
        parts = np.split(packed[order], ends[:-1]) if self.terms else []
        return [array("I", part.tobytes()) for part in parts]
