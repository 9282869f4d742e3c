"""The four indexes of one kind's passages, in one order of rows and in order of their sessions.

Four parts take a passage in and let it go together: its vector, its words, its token states, its
traits. Row n is the same passage in each, so that a query reads them all as arrays. A row that was
removed stays in its place, marked, until all parts are made anew at once.

In its session a passage belongs between those of lower and of higher place. The places come with
the state (`kinds.kind.Passage`), so a session reads the same whatever its index lived through:
rewordings, embeddings that came late or in another order, restarts, an index that was made anew.
Most passages go to the end of their session, which is remembered; for any other the whole session
is looked through.

The file of an index holds what would be slow to make again from the texts: the words, the traits
that texts show and the word pieces of each passage. Vectors and token states lie in `derived.mdb`,
the graph in a file of its own. It is derived data: one that is damaged, of another recipe or out of
date is made again, in whole or in part. In a store that is encrypted it is encrypted for its user;
the graph, which its library writes by itself, is not kept.
"""

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from eventlog.files.datafile import ANEW, opened, read_bytes
from memory_actors.kinds.kind import Kind, Passage, Row, is_summary
from memory_actors.search.embedding.key_scopes import EVERYBODY, Owner
from memory_actors.search.embedding.service import Embeddings
from memory_actors.search.indexes.dense import DenseIndex, Rows
from memory_actors.search.indexes.late import Fetch, LateIndex, SavedTokens, TokensThen
from memory_actors.search.indexes.lexical import LexicalIndex, Saved
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

RECIPE: Final = "words/3 traits/3"
"""words/1 had passages of one session in the order in which they came to the index, words/2 English
stems for words of all scripts, traits/2 did not tell bare names."""
WORDS: Final = ".words"
_SILENT: Final = Spoken(None, asks=False)
_GONE: Final = Trait("", Times(0, 0, 0), None, 0, _SILENT, summary=False)


class Neighbours(NamedTuple):
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

    def kept(self) -> "Kept":
        """Copy the words, the traits that texts show, and their tokens. Quick."""
        return Kept(self.words.saved(), self.said(), self.late.copied())

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


IndexedRow: TypeAlias = tuple[Row, Sequence[Passage]]
"""A row and its passages that are found by an index."""


def kept_rows(then: View, now: View) -> Rows:
    """Return the rows that rows made anew of `then` come from, once they have caught up."""
    since = len(then.labels)
    return np.concatenate([np.flatnonzero(then.alive), since + np.flatnonzero(now.alive[since:])])


class _Put(NamedTuple):
    """Where a passage was put into its session: its place and label, and of the one behind it."""

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
    """Where passages go in their sessions: most of them right behind the one that came before."""

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


# --- files


def of_kind(path: Path, kind: str) -> Path:
    """Return what the files of one kind's index are called by, of what a user's are called by."""
    return path.with_suffix(f".{kind}.index")


def words_beside(path: Path) -> Path:
    """Return the file of the words of a kind's index."""
    return path.with_suffix(WORDS)


class IndexFile(msgspec.Struct, frozen=True):
    """The parts of an index that are kept, at one moment."""

    recipe: str
    words: Saved
    spoken: dict[int, Spoken]
    """By label, where there is anything."""
    tokens: SavedTokens


_decoder = msgspec.msgpack.Decoder(IndexFile)


def write_index(path: Path, file: IndexFile, owner: Owner = EVERYBODY) -> None:
    """Write a file, whole or not at all. Slow: for a thread."""
    data = owner.scope_to_write().written(msgspec.msgpack.encode(file), path.name.encode())
    partial = path.with_suffix(".partial")
    with opened(partial, ANEW) as written:
        written.write(zlib.crc32(data).to_bytes(4, "big") + data)
    os.replace(partial, path)  # noqa: PTH105 - atomic, as Path.replace, and says so


def read_whole(path: Path, owner: Owner = EVERYBODY) -> IndexFile | None:
    """Return what is in a file, None if that is nothing whole."""
    try:
        data, scope = read_bytes(path), owner.scope()
        if scope is None or zlib.crc32(data[4:]).to_bytes(4, "big") != data[:4]:
            return None
        plain = scope.read(data[4:], path.name.encode())
        return None if plain is None else _decoder.decode(plain)
    except (OSError, ValueError):
        return None


class Kept(NamedTuple):
    """What is kept of an index, at one moment."""

    words: Saved
    spoken: dict[int, Spoken]
    tokens: TokensThen


class IndexFiles:
    """The files of one kind's index: the words and the graph beside each other."""

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

    def load(self, rows: Sequence[IndexedRow]) -> Parts:
        """Return what there is of these rows; passages that lack a part are left out of all."""
        file = read_whole(self._words_path, self._embeddings.owner)
        if file is not None and file.recipe != self._recipe:
            file = None
        words = LexicalIndex() if file is None else LexicalIndex.restored(file.words)
        labels = words.labels()
        known = {p.label: (row, p) for row, passages in rows for p in passages}
        digests = [known[label][1].digest if label in known else b"" for label in labels]
        vectors, there = self._embeddings.matrix(digests)
        traits, late = Traits(), LateIndex(self._fetch, self._embeddings.codebook)
        if file is not None:
            traits.extend(self._traits(labels, known, file.spoken))
            late.restore(file.tokens, known)
        model = self._embeddings.embedder
        dimension, fingerprint = model.dimension, model.fingerprint
        dense = DenseIndex.load(dimension, labels, vectors, self._path, fingerprint)
        parts = Parts(len(labels), dense, words, late, traits)
        for place in np.flatnonzero(~there).tolist():
            parts.forget(labels[place])
        return parts

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

    def save_words(self, kept: Kept) -> None:
        """Write the words file. Slow: for a thread."""
        file = IndexFile(self._recipe, kept.words, kept.spoken, kept.tokens.saved())
        write_index(self._words_path, file, self._embeddings.owner)
