"""Paths under /memories and the names of documents.

`/memories/notes.md` is the document `notes.md`, `/memories/trips/rome.md` the document
`trips/rome.md`: a directory is what names have in common, and goes with the last of them. Nothing
here touches a file system. Paths that would leave the root are refused all the same, in every
spelling: a model that writes one is being misled, and names go into exports and files of others.
"""

import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from memory_actors.integrations.memory_tool.errors import MemoryToolError, refused

ROOT = "/memories"
DECODED_TIMES_MAX = 5  # %252e is %2e is a dot: nobody encodes a name more often in good faith
HIDDEN = "node_modules"


def name_of(path: str) -> str:
    """Return the name of the document or directory at a path; "" is the root.

    :raises MemoryToolError: it is no path under /memories.
    """
    if not path.isprintable():
        raise refused("bad input", what=f"Invalid path {path!r}")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise refused("outside", path=path)
    if any(map(_is_traversal, _spellings(path))):
        raise refused("escapes", path=path)
    parts = [part for part in path.split("/")[2:] if part]
    if not all(map(str.strip, parts)):
        raise refused("bad input", what=f"Invalid path {path!r}: a name has to be more than blanks")
    return "/".join(parts)


def path_of(name: str) -> str:
    """Return the path of a document or directory."""
    return f"{ROOT}/{name}" if name else ROOT


def is_reachable(name: str) -> bool:
    """Return whether a document has a path: one made elsewhere may have any name."""
    try:
        return bool(name) and name_of(path_of(name)) == name
    except MemoryToolError:
        return False


def is_hidden(name: str) -> bool:
    """Return whether a listing leaves a name out."""
    return any(part.startswith(".") or part == HIDDEN for part in name.split("/"))


def parents(name: str) -> Iterator[str]:
    """Yield the directories above a name, outermost first, without the root."""
    parts = name.split("/")
    yield from ("/".join(parts[:n]) for n in range(1, len(parts)))


def is_under(name: str, directory: str) -> bool:
    """Return whether a name lies in a directory, at any depth."""
    return not directory or name.startswith(f"{directory}/")


def _spellings(path: str) -> Iterator[str]:
    """Yield what a path may be read as by who decodes or normalises it."""
    for _ in range(DECODED_TIMES_MAX):
        yield path
        yield unicodedata.normalize("NFKC", path)
        path = unquote(path)


def _is_traversal(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return "\\" in path or "\0" in path or any(part.strip() in (".", "..") for part in parts)
