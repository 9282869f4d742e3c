"""The four indexes of one kind's passages, in one order of rows and in order of their sessions.

Four parts take a passage in and let it go together: its vector, its words, its token states, its
traits. Row n is the same passage in each, so that a query reads them all as arrays. A row that was
removed stays in its place, marked, until all parts are made anew at once.

In its session a passage belongs between those of lower and of higher place. The places come with
the state (`kinds.kind.Passage`), so a session reads the same whatever its
index lived through: rewordings, embeddings that came late or in another order, restarts, an index
that was made anew. Most passages go to the end of their session, which is remembered; for any other
the whole session is looked through.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from memory_actors.kinds.kind import Kind, Passage, Row
from memory_actors.search.indexes.dense import DenseIndex, Rows
from memory_actors.search.indexes.late import LateIndex
from memory_actors.search.indexes.lexical import LexicalIndex
from memory_actors.search.indexes.rows import View
from memory_actors.search.indexes.traits import (
    NONE,
    Spoken,
    Traits,
)


class Place(NamedTuple):
    """The label of the passage before a place in a session, else of the one behind it."""

    after: int | None = None
    ahead_of: int | None = None


class Parts(NamedTuple):
    """All four at one moment: the first `size` rows are the same passages in each."""

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

    def beside(self, chain: str, place: int, label: int) -> Place:
        """Return the labels before and behind a place in a session."""
        number = self.traits.number_of(chain)
        if number is None:  # as in most that are new
            return Place()
        view = self.dense.view()
        columns = self.traits.view(len(view.labels))
        rows = np.flatnonzero(view.alive & (columns.chains == number))
        labels, places = view.labels[rows], columns.places[rows]
        earlier = (places < place) | ((places == place) & (labels < label))
        order = np.lexsort((labels, places))
        ordered, count = labels[order].tolist(), int(np.count_nonzero(earlier))
        return Place(
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


class SessionOrder:
    """The ends of sessions, as far as they are known."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        """Place and label by session."""

    def leave(self, label: int, chain: str | None) -> None:
        """Forget a passage that goes, if it was the last of its session."""
        if chain is not None and self._last.get(chain, (0, None))[1] == label:
            del self._last[chain]

    def place(self, label: int, place: int, chain: str | None, parts: Parts) -> Place:
        """Return the place of a passage that comes now."""
        if chain is None:
            return Place()
        known = self._last.get(chain)
        if known is not None and known < (place, label) and known[1] in parts.words:
            found = Place(after=known[1])
        else:
            found = parts.beside(chain, place, label)
        if found.ahead_of is None:
            self._last[chain] = place, label
        return found
