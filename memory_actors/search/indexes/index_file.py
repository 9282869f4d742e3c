"""The file of an index: what would be slow to make again from the texts.

The words, what texts say of themselves and which word pieces each passage has; vectors and token
states lie in `derived.mdb`, the graph in a file of its own. It is derived data: one that is
damaged, of another recipe or out of date is made again, in whole or in part. In a store that is
encrypted it is encrypted for its user; the graph, which its library writes by itself, is not kept.
"""

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from eventlog.files.regular import ANEW, opened, read_bytes
from memory_actors.kinds.kind import Kind, Passage, Row, is_summary
from memory_actors.search.embedding.key_scopes import EVERYBODY, Owner
from memory_actors.search.embedding.service import Embeddings
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.late import Fetch, LateIndex, SavedTokens
from memory_actors.search.indexes.lexical import LexicalIndex
from memory_actors.search.indexes.lexical_files import Saved
from memory_actors.search.indexes.parts import Parts, indexed
from memory_actors.search.indexes.traits import Spoken, Times, Trait, Traits, times, was_said

RECIPE: Final = "words/3 traits/3"
"""words/1 had passages of one session in the order in which they came to the index, words/2 English
stems for words of all scripts, traits/2 did not tell bare names."""
WORDS: Final = ".words"
_SILENT: Final = Spoken(None, asks=False)
_GONE: Final = Trait("", Times(0, 0, 0), None, 0, _SILENT, summary=False)


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

    def load(self, rows: Sequence[Row]) -> Parts:
        """Return what there is of these rows; passages that lack a part are left out of all."""
        file = read_whole(self._words_path, self._embeddings.owner)
        if file is not None and file.recipe != self._recipe:
            file = None
        words = LexicalIndex() if file is None else LexicalIndex.restored(file.words)
        labels = words.labels()
        known = {p.label: (row, p) for row in rows for p in indexed(self._kind, row)}
        digests = [known[label][1].digest if label in known else b"" for label in labels]
        vectors, there = self._embeddings.matrix(digests)
        traits, late = Traits(), LateIndex(self._fetch)
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

    def words_of(self, parts: Parts) -> IndexFile:
        """Copy the words, the traits that texts show, and their tokens. Quick."""
        return IndexFile(self._recipe, parts.words.saved(), parts.said(), parts.late.saved())

    def save_words(self, file: IndexFile) -> None:
        """Write the words file. Slow: for a thread."""
        write_index(self._words_path, file, self._embeddings.owner)
