"""The four indexes of one kind's passages, in one order of rows and in order of their sessions.

Four parts take a passage in and let it go together: its vector, its words, its token states, its
traits. Row n is the same passage in each, so that a query reads them all as arrays. A removed row
stays in its place, marked, until all parts are rebuilt at once.

In its session a passage belongs between those of lower and of higher place. The places come with
the state (`kinds.passages.Passage`), so a session reads the same whatever its index lived through:
rewordings, embeddings that came late or in another order, restarts, an index that was made anew.
Most passages go to the end of their session, which is remembered; for any other the whole session
is looked through.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from memory_actors.kinds.kind import Kind, Row
from memory_actors.kinds.passages import Passage
from memory_actors.kinds.phrasing import REPLYING, USER
from memory_actors.search.indexes.dense import DenseIndex, Rows
from memory_actors.search.indexes.late import LateIndex
from memory_actors.search.indexes.lexical import LexicalIndex
from memory_actors.search.indexes.rows import View
from memory_actors.search.indexes.traits import Traits


class Neighbours(NamedTuple):
    """The label of the passage before a place in a session, else of the one behind it."""

    after: int | None = None
    ahead_of: int | None = None


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


ASKING: Final = 0.5  # of a text that is a question: from here on it states nothing


class Parts(NamedTuple):
    """All four at one moment: the first `size` rows are the same passages in each."""

    size: int
    dense: DenseIndex
    words: LexicalIndex
    late: LateIndex
    traits: Traits

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
        none = np.zeros(self.size, np.bool_)
        replies = traits.are_of(REPLYING, columns.speakers)
        users = traits.are_of((USER,), columns.speakers)
        replies = alive & columns.said & (none if replies is None else replies)
        users = alive & columns.said & (none if users is None else users)
        stated = alive & ~replies & (columns.asks < ASKING)
        count, said = max(int(stated.sum()), 1), int((stated & columns.said).sum())
        of_users, answers = int((stated & users).sum()), int(replies.sum())
        answered = min(1.0, 2 * answers / max(answers + int(users.sum()), 1))
        return Held(
            statements=int(stated.sum()),
            chat=answered * of_users / count,
            people=(said - of_users) / count,
            said=said / count,
            words=float(self.words.lengths(self.size)[stated].sum()) / count,
        )

    def forget(self, label: int) -> None:
        """Remove a passage from each."""
        row = self.dense.row_of(label)
        if row is not None:
            self.traits.drop(row)
        self.dense.remove(label)
        self.words.remove(label)
        self.late.remove(label)

    def beside(self, chain: str, place: int, label: int) -> Neighbours:
        """Return the labels before and behind a place in a session."""
        number = self.traits.number_of(chain)
        if number is None:  # as in most that are new
            return Neighbours()
        view = self.dense.view()
        columns = self.traits.view(len(view.labels))
        rows = np.flatnonzero(view.alive & (columns.chains == number))
        labels, places = view.labels[rows], columns.places[rows]
        earlier = (places < place) | ((places == place) & (labels < label))
        before, behind = labels[earlier], labels[~earlier]
        first, last = places[~earlier], places[earlier]
        return Neighbours(
            int(before[last == last.max()].max()) if len(before) else None,
            int(behind[first == first.min()].min()) if len(behind) else None,
        )

    def place_of(self, label: int) -> int:
        """Return the place of a passage that is here in its session."""
        row = self.dense.row_of(label)
        assert row is not None
        return int(self.traits.view(row + 1).places[row])

    def owner(self, label: int) -> str | None:
        """Return the id of the memory that a passage belongs to, None if it is not here."""
        row = self.dense.row_of(label)
        return None if row is None else self.owner_at(row)

    def owner_at(self, row: int) -> str:
        """Return the id of the memory that the passage of a row belongs to."""
        return self.traits.owner_at(row)

    def labels_of(self, numbers: Collection[int]) -> npt.NDArray[np.int64]:
        """Return the labels of memories by their numbers in the traits."""
        view = self.dense.view()
        owners = self.traits.view(len(view.labels)).owners
        return view.labels[view.alive & np.isin(owners, list(numbers))]


def indexed(kind: Kind, row: Row | None) -> Sequence[Passage]:
    """Return the passages of a row that are found by an index."""
    return () if row is None else [p for p in kind.passages(row) if p.digest]


def kept_rows(then: View, now: View) -> Rows:
    """Return the rows that rows made anew of `then` come from, once they have caught up."""
    since = len(then.labels)
    return np.concatenate([np.flatnonzero(then.alive), since + np.flatnonzero(now.alive[since:])])


class _Put(NamedTuple):
    """The place of a passage in its session: its own place and label, and of the one behind it."""

    at: tuple[int, int]
    behind: tuple[int, int] | None

    @property
    def labels(self) -> set[int]:
        """Of both."""
        return {label for _, label in (self.at, self.behind or self.at)}

    def is_before(self, here: tuple[int, int]) -> bool:
        """Return whether a passage there comes right behind this one."""
        return self.at < here and (self.behind is None or here < self.behind)


class SessionOrder:
    """The places of passages in their sessions: most come right behind the one before."""

    def __init__(self) -> None:
        self._latest: dict[str, _Put] = {}
        """By session, the passage that came last."""

    def leave(self, label: int, chain: str | None) -> None:
        """Forget a passage that goes."""
        put = None if chain is None else self._latest.get(chain)
        if chain is not None and put is not None and label in put.labels:
            del self._latest[chain]

    def place(self, label: int, place: int, chain: str | None, parts: Parts) -> Neighbours:
        """Return the place of a passage that comes now."""
        if chain is None:
            return Neighbours()
        here, put = (place, label), self._latest.get(chain)
        if put is None or put.at[1] not in parts.words or not put.is_before(here):
            found = parts.beside(chain, place, label)
            ahead_of = found.ahead_of
            behind = None if ahead_of is None else (parts.place_of(ahead_of), ahead_of)
        else:
            found, behind = Neighbours(after=put.at[1]), put.behind
        self._latest[chain] = _Put(here, behind)
        return found
