"""The file of an index: what would be slow to make again from the texts.

The words, what texts say of themselves and which word pieces each passage has; vectors and token
states lie in `derived.mdb`, the graph in a file of its own. It is derived data: one that is
damaged, of another recipe or out of date is made again, in whole or in part. In a store that is
encrypted it is encrypted for its user; the graph, which its library writes by itself, is not kept.
"""

import os
import zlib
from pathlib import Path
from typing import Final

import msgspec

from eventlog.files.regular import ANEW, opened, read_bytes
from memory_actors.search.embedding.key_scopes import EVERYBODY, Owner
from memory_actors.search.indexes.late import SavedTokens
from memory_actors.search.indexes.lexical_files import Saved
from memory_actors.search.indexes.traits import Spoken

RECIPE: Final = "words/3 traits/3"
"""words/1 had passages of one session in the order in which they came to the index, words/2 English
stems for words of all scripts, traits/2 did not tell bare names."""


WORDS: Final = ".words"


def of_kind(path: Path, kind: str) -> Path:
    """Return what the files of one kind's index are called by, of what a user's are called by."""
    return path.with_suffix(f".{kind}.index")


def words_beside(path: Path) -> Path:
    """Return the file of the words of a kind's index."""
    return path.with_suffix(WORDS)


class IndexFile(msgspec.Struct, frozen=True):
    """What is kept of an index at one moment."""

    recipe: str
    words: Saved
    spoken: dict[int, Spoken]
    """By label, where there is anything."""
    tokens: SavedTokens


_decoder = msgspec.msgpack.Decoder(IndexFile)


def write_index(path: Path, file: IndexFile, owner: Owner = EVERYBODY) -> None:
    """Write a file, whole or not at all. Slow: for a thread."""
    data = owner.shelf_to_write().written(msgspec.msgpack.encode(file), path.name.encode())
    partial = path.with_suffix(".partial")
    with opened(partial, ANEW) as written:
        written.write(zlib.crc32(data).to_bytes(4, "big") + data)
    os.replace(partial, path)  # noqa: PTH105 - atomic, as Path.replace, and says so


def read_whole(path: Path, owner: Owner = EVERYBODY) -> IndexFile | None:
    """Return what is in a file, None if that is nothing whole."""
    try:
        data = _opened(path, owner)
        return None if data is None else _decoder.decode(data)
    except (OSError, ValueError):
        return None


def _opened(path: Path, owner: Owner) -> bytes | None:
    data, shelf = read_bytes(path), owner.shelf()
    if shelf is None or zlib.crc32(data[4:]).to_bytes(4, "big") != data[:4]:
        return None
    return shelf.read(data[4:], path.name.encode())


def read_index(path: Path, recipe: str, owner: Owner = EVERYBODY) -> IndexFile | None:
    """Return what is in a file, None if that is nothing whole of this recipe."""
    file = read_whole(path, owner)
    return file if file is not None and file.recipe == recipe else None
