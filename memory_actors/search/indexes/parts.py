"""The four indexes of one kind's passages, on the same rows and in order of their sessions.

Four parts take a passage in and let it go together: its vector, its words, its token states, its
traits. Row n is the same passage in each, so that a query reads them all as arrays. A removed row
stays in its place, marked, until all parts are rebuilt at once.

In its session a passage belongs between those of lower and of higher place. The places come with
the state (`kinds.passages.Passage`), so a session reads the same whatever its index lived through:
rewordings, embeddings that came late or in another order, restarts, an index that was made anew.
Most passages go to the end of their session, which is remembered; for any other the whole session
is looked through.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

import numpy as np

from memory_actors.kinds.kind import Kind
from memory_actors.kinds.passages import REPLYING, USER, Passage
from memory_actors.kinds.rows import Row
from memory_actors.search.dot_products import Coded
from memory_actors.search.embedding.token_states import PLAIN, Codebook
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.labels import NONE, Labels, Rows
from memory_actors.search.indexes.late import Fetch, LateIndex
from memory_actors.search.indexes.lexical import EMPTY, LexicalIndex
from memory_actors.search.indexes.postings import Chains, Links
from memory_actors.search.indexes.traits import Trait, Traits


class Neighbours(NamedTuple):
    """The row before a place in a session, else the one behind it."""

    after: int = NONE
    ahead_of: int = NONE


class Held(NamedTuple):
    """Statistics of an index's statements: without replies of an assistant, and questions."""

    statements: int
    chat: float
    """The share of them that a user told an assistant who replies."""
    people: float
    """The share of them that people with names told each other."""
    said: float
    """The share of them that somebody said."""
    words: float
    """The mean number of words in a statement, stop words left out."""
    speakers: list[int]
    """The numbers of those who said several passages: a name in front of one may be a heading."""


ASKING: Final = 0.5  # of a text that is a question: from here on it states nothing


class Parts(NamedTuple):
    """All four at one moment: the first `size` rows are the same passages in each."""

    size: int
    rows: Labels
    dense: DenseIndex
    words: LexicalIndex
    late: LateIndex
    traits: Traits

    @classmethod
    def empty(
        cls, dimension: int, fetch: Fetch | None = None,
        codebook: Callable[[], Codebook] = lambda: PLAIN,
    ) -> "Parts":  # fmt: skip
        """Return parts without rows."""
        words = LexicalIndex.restored(EMPTY)
        rows = words.rows
        dense, late = DenseIndex.empty(rows, dimension), LateIndex(rows, fetch, codebook)
        return cls(0, rows, dense, words, late, Traits(rows))

    def held(self) -> Held:
        """Describe the content by its statements; questions and replies change nothing."""
        now = self.size, len(self.dense)
        then, found = self.traits.held
        if now != then:
            found = self._held()
            self.traits.held = now, found
        return cast("Held", found)

    def _held(self) -> Held:
        columns, traits = self.traits.view(self.size), self.traits
        alive = self.dense.view().alive[: self.size] & ~columns.summaries
        replies = alive & columns.said & traits.are_of(REPLYING, columns.speakers)
        users = alive & columns.said & traits.are_of((USER,), columns.speakers)
        stated = alive & ~replies & (columns.asks < ASKING)
        spoken = np.bincount(columns.speakers[self.rows.alive[: self.size]] + 1)
        count, said = max(int(stated.sum()), 1), int((stated & columns.said).sum())
        of_users, answers = int((stated & users).sum()), int(replies.sum())
        answered = min(1.0, 2 * answers / max(answers + int(users.sum()), 1))
        return Held(
            statements=int(stated.sum()),
            chat=answered * of_users / count,
            people=(said - of_users) / count,
            said=said / count,
            words=float(self.words.chains.links.lengths[: self.size][stated].sum()) / count,
            speakers=np.flatnonzero(spoken[1:] > 1).tolist(),
        )

    def put(
        self, label: int, vector: Coded, counts: Mapping[str, int], packed: bytes | None,
        trait: Trait, beside: Neighbours,
    ) -> None:  # fmt: skip
        """Add a passage to each, under a label that is not there.

        :raises ValueError: its token states are not what `pack` made; then nothing is added.
        """
        self.late.append(packed)
        self.dense.extend(vector)
        self.words.append(counts, *beside)
        self.traits.append(trait)
        self.rows.append(label)
        self.dense.resample(label)

    def forget(self, label: int) -> None:
        """Remove a passage from each."""
        row = self.rows.remove(label)
        if row is not None:
            self.words.remove(row)
            self.late.remove(row)
            self.dense.resample(label)

    # --- made anew

    def taken(self, kept: Rows) -> "Parts":
        """Return parts of some rows that lived just now, for `caught_up`. Slow: for a thread."""
        rows = Labels(self.rows.labels[kept])
        unlinked = Chains(rows, Links.empty(len(kept)))
        words = LexicalIndex(unlinked, self.words.postings.taken(kept, rows))
        dense, late = self.dense.taken(kept, rows), self.late.taken(kept, rows)
        return Parts(len(kept), rows, dense, words, late, Traits(rows))

    def caught_up(self, made: "Parts", kept: Rows) -> "Parts":
        """Complete parts that were `taken` of these by what happened since. On the loop.

        They are other indexes: searches that hold these ones continue with the rows, and the order
        of rows, that they began with.
        """
        view, postings = self.dense.view(), made.words.postings
        for place in np.flatnonzero(~view.alive[kept]).tolist():
            made.rows.remove(int(view.labels[kept[place]]))
            postings.forget(place)
            made.late.remove(place)
        since = self.size + np.flatnonzero(view.alive[self.size :])
        for row, label in zip(since.tolist(), view.labels[since].tolist(), strict=True):
            made.dense.extend(view.vectors.at(slice(row, row + 1)))
            postings.append(self.words.postings.words_of(row))
            made.late.append_tokens(*self.late.of_row(row))
            made.rows.append(label)
            made.dense.resample(label)
        every = np.concatenate([kept, since])
        words = LexicalIndex(self.words.chains.taken(every, made.rows), postings)
        traits = self.traits.taken(every, made.rows)
        return made._replace(size=len(every), words=words, traits=traits)

    # --- what is of a passage

    def beside(self, chain: str, here: "Place") -> Neighbours:
        """Return the rows before and behind a place in a session."""
        number = self.traits.number_of(chain)
        if number is None:  # as in most that are new
            return Neighbours()
        columns = self.traits.view(self.size)
        rows = np.flatnonzero(self.rows.alive[: self.size] & (columns.chains == number))
        rows = rows[np.lexsort((self.rows.labels[rows], columns.places[rows]))]
        places, labels = columns.places[rows], self.rows.labels[rows]
        at = int(((places < here[0]) | ((places == here[0]) & (labels < here[1]))).sum())
        after, ahead_of = rows[at - 1 : at].tolist(), rows[at : at + 1].tolist()
        return Neighbours(*(after or [NONE]), *ahead_of)


def indexed(kind: Kind, row: Row | None) -> Sequence[Passage]:
    """Return the passages of a row that are found by an index."""
    return () if row is None else [p for p in kind.passages(row) if p.digest]


# --- in order of their sessions

Place = tuple[int, int]
"""The place of a passage in its session, and its label, which decides between equal ones."""


class SessionOrder:
    """The ends of sessions: most passages come right behind them."""

    def __init__(self) -> None:
        self._ends: dict[str, Place] = {}

    def leave(self, label: int, chain: str | None) -> None:
        """Forget a passage that goes."""
        if chain is not None and self._ends.get(chain, (0, None))[1] == label:
            del self._ends[chain]

    def place(self, label: int, place: int, chain: str | None, parts: Parts) -> Neighbours:
        """Return the place of a passage that comes now."""
        if chain is None:
            return Neighbours()
        here, end = (place, label), self._ends.get(chain)
        after = None if end is None or here < end else parts.rows.row_of(end[1])
        found = parts.beside(chain, here) if after is None else Neighbours(after)
        if found.ahead_of == NONE:
            self._ends[chain] = here
        return found
