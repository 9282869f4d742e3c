"""What searches the passages of one kind, in one order of rows, and how it is read from disk.

Four parts take a passage in and let it go together: its vector, its words, its token states, its
traits. Row n is the same passage in each, so that a query reads them all as arrays. A row that was
removed stays in its place, marked, until all parts are made anew at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from memory_actors.kinds.kind import Kind, Passage, Row, is_summary
from memory_actors.search.embedding.of_user import Embeddings
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.dense import DenseIndex, Rows
from memory_actors.search.indexes.index_file import (
    RECIPE,
    IndexFile,
    read_index,
    words_beside,
    write_index,
)
from memory_actors.search.indexes.late import Fetch, LateIndex
from memory_actors.search.indexes.lexical import LexicalIndex
from memory_actors.search.indexes.rows import View
from memory_actors.search.indexes.traits import (
    NONE,
    Spoken,
    Times,
    Trait,
    Traits,
    times,
    was_said,
)

_SILENT = Spoken(None, asks=False)
_GONE = Trait("", Times(0, 0, 0), None, 0, _SILENT, summary=False)


class Parts(NamedTuple):
    """What searches, at one moment: the first `size` rows are the same passages in each."""

    size: int
    dense: DenseIndex
    words: LexicalIndex
    late: LateIndex
    traits: Traits

    def forget(self, label: int) -> None:
        """Remove a passage from each."""
        row = self.dense.row_of(label)
        if row is not None:
            self.traits.drop(row)
        self.dense.remove(label)
        self.words.remove(label)
        self.late.remove(label)

    def beside(self, chain: str, place: int, label: int) -> tuple[int | None, int | None]:
        """Return the labels before and behind a place in a session."""
        number = self.traits.number_of(chain)
        if number is None:  # as in most that are new
            return None, None
        view = self.dense.view()
        columns = self.traits.view(len(view.labels))
        rows = np.flatnonzero(view.alive & (columns.chains == number))
        labels, places = view.labels[rows], columns.places[rows]
        earlier = (places < place) | ((places == place) & (labels < label))
        order = np.lexsort((labels, places))
        ordered, count = labels[order].tolist(), int(np.count_nonzero(earlier))
        return (
            ordered[count - 1] if count > 0 else None,
            ordered[count] if count < len(ordered) else None,
        )

    def said(self) -> dict[int, Spoken]:
        """Return what texts say of themselves, by label, where that is anything."""
        view = self.dense.view()
        columns = self.traits.view(len(view.labels))
        says = (columns.speakers != NONE) | (columns.asks > 0) | columns.bare
        rows = np.flatnonzero(view.alive & says)
        return {int(view.labels[row]): self.traits.spoken_at(row) for row in rows.tolist()}


def indexed(kind: Kind, row: Row | None) -> Sequence[Passage]:
    """Return the passages of a row that are found by an index."""
    return () if row is None else [p for p in kind.passages(row) if p.digest]


def kept_rows(then: View, now: View) -> Rows:
    """Return the rows that rows made anew of `then` come from, once they have caught up."""
    since = len(then.labels)
    return np.concatenate([np.flatnonzero(then.alive), since + np.flatnonzero(now.alive[since:])])


# --- files


class IndexFiles:
    """Where the index of one kind is kept: the words and the graph beside each other."""

    def __init__(self, kind: Kind, path: Path, embeddings: Embeddings, fetch: Fetch):
        self._kind = kind
        self._path = path
        self._embeddings = embeddings
        self._fetch = fetch

    @property
    def _words_path(self) -> Path:
        return words_beside(self._path)

    @property
    def _recipe(self) -> str:
        return f"{RECIPE} {self._embeddings.recipe}"

    def load(self, rows: Sequence[Row]) -> Parts:
        """Return what there is of these rows; passages that lack a part are left out of all."""
        file = read_index(self._words_path, self._recipe, self._embeddings.owner)
        words = LexicalIndex() if file is None else LexicalIndex.restored(file.words)
        labels = words.labels()
        known = {p.label: (row, p) for row in rows for p in indexed(self._kind, row)}
        digests = [known[label][1].digest if label in known else b"" for label in labels]
        vectors, there = self._embeddings.matrix(digests)
        traits, late = Traits(), LateIndex(self._fetch)
        if file is not None:
            traits.extend(self._traits(labels, known, file.spoken))
            late.restore(file.tokens, known)
        parts = Parts(len(labels), self._dense(labels, vectors), words, late, traits)
        for place in np.flatnonzero(~there).tolist():
            parts.forget(labels[place])
        return parts

    def _dense(self, labels: Sequence[int], vectors: Vectors) -> DenseIndex:
        model = self._embeddings.embedder
        return DenseIndex.load(model.dimension, labels, vectors, self._path, model.fingerprint)

    def _traits(
        self,
        labels: Sequence[int],
        known: Mapping[int, tuple[Row, Passage]],
        said: Mapping[int, Spoken],
    ) -> Iterator[Trait]:
        """Yield the traits of labels; of one that has gone, nothing much."""
        for label in labels:
            if label not in known:
                yield _GONE
                continue
            row, passage = known[label]
            chain, spoken = self._kind.chain(row), said.get(label, _SILENT)
            owner, place, summary = row.memory_id, passage.place, is_summary(row)
            yield Trait(owner, times(row), chain, place, spoken, summary, was_said(row))

    def save_graph(self, dense: DenseIndex) -> None:
        """Write the graph, if there is one and it may lie in the clear. Slow: for a thread."""
        if self._embeddings.owner.is_everybody:
            dense.save(self._path, self._embeddings.embedder.fingerprint)

    def words_of(self, parts: Parts) -> IndexFile:
        """Copy what is quick to keep: words, what texts say of themselves, their tokens."""
        return IndexFile(self._recipe, parts.words.saved(), parts.said(), parts.late.saved())

    def save_words(self, file: IndexFile) -> None:
        """Write that. Slow: for a thread."""
        write_index(self._words_path, file, self._embeddings.owner)
