"""The file of one kind's index, its place, and its way to memory and back.

The file holds the index as it is in memory: the words, the traits and the word pieces of each
passage, and the version of the state that it is an index of; what has changed since is looked at.
Vectors and token states lie in `derived.mdb`. It is derived data: one that is damaged, of another
recipe or out of date is made again, in whole or in part. In a store that is encrypted it is
encrypted for its user. If the log keeps derived data, it has the same bytes (shared.py), and a file
that is missing here, or older, is fetched before it is read. The graph of a large index is in files
beside it, one for each segment.

For each row it also has the number under which its embedding lies in `derived.mdb`, and the
identity of that table. Reading 100,000 rows by number takes half the time that looking each up by
its digest does. A number is a hint: what lies there is bound to the digest by its checksum. If the
checksum does not fit, or the table is another one, the digest finds the row.
"""

import os
import zlib
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Final, NamedTuple

import anyio.to_thread
import msgspec
import numpy as np

from eventlog import EventLogError
from eventlog.core.frame import stream_id
from eventlog.core.logs import get_logger
from eventlog.core.waiting import to_the_end
from eventlog.files.datafile import ANEW, opened, read_bytes, remove_named
from memory_actors.base.compressing import compressed, decompressed, narrowed, widened
from memory_actors.base.privacy import reason
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.embedding.rows import EVERYBODY, Owner
from memory_actors.search.embedding.shared import SharedDerived
from memory_actors.search.indexes import graph
from memory_actors.search.indexes.dense import DenseIndex, room_for
from memory_actors.search.indexes.graph import SavedSegment
from memory_actors.search.indexes.labels import Rows, zeros
from memory_actors.search.indexes.late import Fetch, LateIndex, SavedTokens
from memory_actors.search.indexes.lexical import EMPTY, LexicalIndex, Saved
from memory_actors.search.indexes.parts import Parts
from memory_actors.search.indexes.traits import SavedTraits, Traits, digests_in

INDEXES: Final = "indexes"


def index_path(directory: Path, stream: str) -> Path:
    """Return the path prefix of a user's index files in a data directory."""
    return directory / INDEXES / stream_id(stream).hex()


def remove_indexes(begin: Path) -> int:
    """Remove a user's index files, by their `index_path`; return how many there were.

    :raises StorageFailed: they cannot be looked for, or one cannot be removed.
    """
    return remove_named(begin.parent, lambda name: name.startswith(f"{begin.name}."))


def remove_all_indexes(directory: Path) -> None:
    """Remove the index files of every user.

    :raises StorageFailed: they cannot be looked for, or one cannot be removed.
    """
    remove_named(directory / INDEXES, lambda _name: True)


RECIPE: Final = "words/8 traits/6"
"""Names what is derived of texts: raise a number when that changes, and files are made anew."""
WORDS: Final = ".words"
_logger = get_logger("memory_actors.search.indexes")


def of_kind(path: Path, kind: str) -> Path:
    """Return the base path of one kind's index files, from that of a user."""
    return path.with_suffix(f".{kind}.index")


def words_beside(path: Path) -> Path:
    """Return the file of the words of a kind's index."""
    return path.with_suffix(WORDS)


class IndexFile(msgspec.Struct, frozen=True):
    """The parts of an index that are kept, at one moment."""

    recipe: str
    version: int = 0
    """The version of the indexed state."""
    waiting: tuple[str, ...] = ()
    """Memories that were not indexed yet."""
    words: Saved = EMPTY
    traits: SavedTraits | None = None
    tokens: SavedTokens | None = None
    table: bytes = b""
    """The identity of the table of vectors that the `numbers` are of."""
    numbers: bytes = b""
    """The number of the embedding of each row, `narrowed`."""
    chain: bytes = b""
    """The chain of the event at `version`: in a log that was restored, another event may have that
    version. Empty if the log has no chain."""
    codes_crc: int = 0
    """The CRC-32 of the codes of all vectors, in the order of rows."""


class _Head(msgspec.Struct):
    recipe: str


_LEFT_OUT: Final = memoryview(b"")


class _Packed(msgspec.Struct, array_like=True):
    """A file as it is written.

    The numbers of words and of word pieces, half of all, are as good as random: they get a tenth
    shorter by compressing, which takes as long as all the rest.
    """

    file: memoryview
    """Compressed, without the two others."""
    term_ids: memoryview
    token_ids: memoryview


def _with_ids(file: IndexFile, term_ids: memoryview, token_ids: memoryview) -> IndexFile:
    replace, tokens = msgspec.structs.replace, file.tokens
    words = replace(file.words, term_ids=term_ids)
    return replace(file, words=words, tokens=tokens and replace(tokens, token_ids=token_ids))


def _unpacked(data: bytes | memoryview) -> IndexFile:
    """Decode a file.

    :raises ValueError: it is damaged.
    """
    packed = msgspec.msgpack.decode(data, type=_Packed)
    plain = decompressed(packed.file)
    recipe = msgspec.msgpack.decode(plain, type=_Head).recipe
    if not recipe.startswith(RECIPE):  # its parts may be others
        return IndexFile(recipe)
    file = msgspec.msgpack.decode(plain, type=IndexFile)
    return _with_ids(file, packed.term_ids, packed.token_ids)


def write_index(path: Path, file: IndexFile, owner: Owner = EVERYBODY) -> bytes:
    """Write a file, whole or not at all; return what was written. Slow: for a thread."""
    token_ids = _LEFT_OUT if file.tokens is None else file.tokens.token_ids
    encode = msgspec.msgpack.encode
    rest = compressed(encode(_with_ids(file, _LEFT_OUT, _LEFT_OUT)))
    packed = _Packed(memoryview(rest), file.words.term_ids, token_ids)
    return _write(path, encode(packed), owner)


def _write(path: Path, plain: bytes, owner: Owner) -> bytes:
    data = owner.scope_to_write().written(plain, path.name.encode())
    data = zlib.crc32(data).to_bytes(4, "big") + data
    _write_whole(path, data)
    return data


def _write_whole(path: Path, data: bytes) -> None:
    partial = path.with_suffix(".partial")
    with opened(partial, ANEW) as written:
        written.write(data)
    os.replace(partial, path)  # noqa: PTH105 - atomic, as Path.replace, and says so


def read_whole(path: Path, owner: Owner = EVERYBODY) -> IndexFile | None:
    """Read and decode a file, or return None if it is missing or damaged."""
    try:
        return _whole(read_bytes(path), path.name, owner)
    except OSError:
        return None


def _whole(data: bytes, name: str, owner: Owner) -> IndexFile | None:
    try:
        return _unpacked(_plain(data, name, owner))
    except ValueError:
        return None


def _plain(data: bytes, name: str, owner: Owner) -> bytes | memoryview:
    """Return the content of a file.

    :raises ValueError: its checksum or its key does not fit.
    """
    scope, content = owner.scope(), memoryview(data)[4:]
    whole = zlib.crc32(content).to_bytes(4, "big") == data[:4]
    plain = scope.read(content, name.encode()) if whole and scope is not None else None
    if plain is None:
        raise ValueError("a file of an index is damaged, or its key has gone: build it anew")
    return plain


class Kept(NamedTuple):
    """The part of an index that is kept, at one moment."""

    version: int
    waiting: tuple[str, ...]
    parts: Parts
    words: Saved
    rows: Rows
    """The living ones."""
    chain: bytes
    """The chain of the event at `version`."""


class Loaded(NamedTuple):
    """The part of an index that a file had, and the moment that it is of."""

    parts: Parts
    version: int | None
    """None: there was none."""
    doubtful: frozenset[str]
    """Memories that may lack something."""


class IndexFiles:
    """The file of one kind's index, and those of its graph."""

    def __init__(self, path: Path, embeddings: Embeddings, fetch: Fetch):
        self._path = path
        self._words_path = words_beside(path)
        self._recipe = f"{RECIPE} {embeddings.recipe}"
        self._embeddings = embeddings
        self._fetch = fetch
        self._table = b""
        """The identity of the table that the numbers of rows are of."""

    async def fetch(self, shared: SharedDerived) -> IndexFile | None:
        """Bring here what lies beside the stream: a newer file, and the embeddings it needs.

        Return the file's content, or None if there is none.
        """
        file = await anyio.to_thread.run_sync(self.read)
        try:
            head = await shared.file_head(self._words_path.name)
            if head is not None and (file is None or file.version < head.version):
                data = await shared.file(self._words_path.name, head)
                taking = anyio.to_thread.run_sync(self._take, data)
                file = await to_the_end(taking) or file
        except (EventLogError, OSError) as error:  # derived data: as good as absent
            _logger.warning("index file not fetched", error=reason(error))
        if file is not None and file.traits is not None:
            await self._embeddings.fetch(digests_in(file.traits.digests))
        return file

    def _take(self, data: bytes) -> IndexFile | None:
        """Write the bytes of a file, if it is one for us; return what is in it."""
        file = self._ours(_whole(data, self._words_path.name, self._embeddings.owner))
        if file is not None:
            _write_whole(self._words_path, data)
        return file

    def read(self) -> IndexFile | None:
        """Read the file, or return None if it does not have today's recipe. Slow."""
        return self._ours(read_whole(self._words_path, self._embeddings.owner))

    def _ours(self, file: IndexFile | None) -> IndexFile | None:
        return None if file is None or file.recipe != self._recipe else file

    def load(self, file: IndexFile | None) -> Loaded:
        """Return what there is; passages that lack a part are left out of all. Slow."""
        self._table = self._embeddings.disk.identity
        if file is not None and file.traits is not None and file.tokens is not None:
            with suppress(ValueError):
                return self._loaded(file, file.traits, file.tokens)
        dimension, codebook = self._embeddings.embedder.dimension, self._embeddings.codebook
        return Loaded(Parts.empty(dimension, self._fetch, codebook), None, frozenset())

    def _loaded(self, file: IndexFile, traits_then: SavedTraits, tokens: SavedTokens) -> Loaded:
        words = LexicalIndex.restored(file.words)
        rows = words.rows
        traits = Traits.restored(traits_then, rows)
        if file.table == self._table:
            traits.number(slice(None), widened(file.numbers, np.uint32))
        late = LateIndex.restored(tokens, rows, self._fetch, self._embeddings.codebook)
        shape = room_for(rows.count), self._embeddings.embedder.dimension
        codes = zeros(shape, np.int8, rows.count)
        vectors, there = self._embeddings.matrix(
            traits.digests(), traits.numbers(), codes[: rows.count], file.codes_crc
        )
        dense = DenseIndex(rows, vectors._replace(codes=codes))
        parts = Parts(rows.count, rows, dense, words, late, traits)
        lacking = np.flatnonzero(~there).tolist()
        doubtful = frozenset([*file.waiting, *map(traits.owner_at, lacking)])
        for row in lacking:
            parts.forget(int(rows.labels[row]))
        return Loaded(parts, file.version, doubtful)

    async def save_words(self, kept: Kept) -> None:
        """Write the words file, here and where others find it.

        Whoever is cancelled waits until the file is written: else it could come after the files of
        an erased user were removed.
        """
        await self._number(kept)
        data = await to_the_end(anyio.to_thread.run_sync(self._write_words, kept))
        if self._embeddings.shared is not None:
            name = self._words_path.name
            await self._embeddings.shared.save_file(name, kept.version, data)

    async def _number(self, kept: Kept) -> None:
        """Note where the embeddings lie that nothing is noted of, in the table of now."""
        rows, traits, table = kept.rows, kept.parts.traits, self._embeddings.disk.identity
        if table == self._table:
            rows = rows[traits.numbers(rows) == 0]
        if len(rows):
            numbers = await anyio.to_thread.run_sync(
                lambda: self._embeddings.numbers(traits.digests(rows))
            )
            traits.number(rows, numbers)
        self._table = table

    def _write_words(self, kept: Kept) -> bytes:
        traits, rows = kept.parts.traits, kept.rows
        file = IndexFile(
            self._recipe, kept.version, kept.waiting, kept.words, traits.saved(rows),
            kept.parts.late.saved(rows), self._table, narrowed(traits.numbers(rows)), kept.chain,
            kept.parts.dense.codes_crc(rows),
        )  # fmt: skip
        return write_index(self._words_path, file, self._embeddings.owner)

    # --- the graph of vectors, a file for each segment

    def _segment_path(self, number: int) -> Path:
        return self._path.with_suffix(f".graph{number}")

    @property
    def _graph_recipe(self) -> str:
        return f"{graph.recipe()} {self._embeddings.recipe}"

    def read_graph(self) -> list[SavedSegment]:
        """Return the segments of the graph, as far as there are whole files of them. Slow."""
        saved: list[SavedSegment] = []
        while (one := self._read_segment(self._segment_path(len(saved)))) is not None:
            saved.append(one)
        return saved

    def _read_segment(self, path: Path) -> SavedSegment | None:
        try:
            plain = decompressed(_plain(read_bytes(path), path.name, self._embeddings.owner))
            saved = msgspec.msgpack.decode(plain, type=SavedSegment)
        except (OSError, ValueError):
            return None
        return saved if saved.recipe == self._graph_recipe else None

    def write_segment(self, number: int, saved: SavedSegment) -> None:
        """Write a segment that has no file. Slow: for a thread."""
        for path in takewhile(Path.exists, map(self._segment_path, count(number + 1))):
            path.unlink()  # of another graph
        saved = msgspec.structs.replace(saved, recipe=self._graph_recipe)
        data = compressed(msgspec.msgpack.encode(saved))
        _write(self._segment_path(number), data, self._embeddings.owner)
