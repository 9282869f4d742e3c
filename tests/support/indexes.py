"""One part of an index alone, on rows of its own, changed by label."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from memory_actors import Embedded
from memory_actors.search.dot_products import Bytes
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.indexes import late, lexical
from memory_actors.search.indexes.labels import NONE
from memory_actors.search.indexes.max_sim import Scores
from memory_actors.search.indexes.postings import counted
from memory_actors.search.indexes.words import words


class LexicalIndex(lexical.LexicalIndex):
    """The words of texts."""

    def add(
        self, label: int, text: str, after: int | None = None, ahead_of: int | None = None
    ) -> None:
        self.append(counted(words(text)), self._row(after), self._row(ahead_of))
        self.rows.append(label)

    def _row(self, label: int | None) -> int:
        row = None if label is None else self.rows.row_of(label)
        return NONE if row is None else row

    def drop(self, label: int) -> bool:
        """Remove a text; say whether it was there."""
        row = self.rows.remove(label)
        if row is not None:
            self.remove(row)
        return row is not None

    def previous(self, label: int) -> int | None:
        """Return the label before this one in its session."""
        return beside(self, label, self.chains.links.before)

    def following(self, label: int) -> int | None:
        """Return the label behind this one in its session."""
        return beside(self, label, self.chains.links.after)


def beside(index: lexical.LexicalIndex, label: int, link: Any) -> int | None:
    """Return the label that a link leads to from this one, None for none."""
    row = index.rows.row_of(label)
    other = NONE if row is None else int(link[row])
    return None if other == NONE else int(index.rows.labels[other])


class LateIndex(late.LateIndex):
    """The token states of texts."""

    def add(self, label: int, packed: bytes | None) -> None:
        self.append(packed)
        self.rows.append(label)

    def drop(self, label: int) -> bool:
        """Remove a text; say whether it was there."""
        row = self.rows.remove(label)
        if row is not None:
            self.remove(row)
        return row is not None

    def kept(self) -> late.SavedTokens:
        """Return the saved tokens of all living rows."""
        return self.saved(np.flatnonzero(self.rows.alive))


def late_scores(index: late.LateIndex, query: tuple[bytes, Bytes], labels: Sequence[int]) -> Scores:
    """Return the scores of texts by label, 0 for one that is not there."""
    rows = index.rows.rows_of_all(labels)
    scores, there = np.zeros(len(rows), np.float32), rows != NONE
    scores[there] = index.score(index.query(*query), rows[there])
    return scores


def on_disk(embeddings: Embeddings, digests: Sequence[bytes]) -> dict[bytes, Embedded]:
    """Return the stored embeddings of texts by digest, without the cache."""
    return embeddings.disk.get(digests, embeddings.embedder.dimension, embeddings.owner)
