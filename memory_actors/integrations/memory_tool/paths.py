"""Paths under /memories, the names of documents, views of both, and refusals.

`/memories/trips/rome.md` is the document `trips/rome.md`: a directory is what names have in common.
No code here touches a file system. Paths that would leave the root are refused all the same, in
every spelling: a model that writes one is being misled, and names go into files of others.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from memory_actors.base.errors import MemoryActorsError
from memory_actors.base.quota import KIB

# --- refusals of the memory tool, in the texts that its public documentation gives


TEXTS: Final[Mapping[str, str]] = {
    "missing": "Error: The path {path} does not exist",
    "missing to view": "The path {path} does not exist. Please provide a valid path.",
    "missing to insert": "Error: The path {path} does not exist",
    "missing to edit": "Error: The path {path} does not exist. Please provide a valid path.",
    "exists": "Error: File {path} already exists",
    "destination exists": "Error: The destination {path} already exists",
    "no directory": "Error: The path {path} is not a directory",
    "not found": (
        "No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
    ),
    "found often": (
        "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: "
        "{lines}. Please ensure it is unique"
    ),
    "bad insert_line": (
        "Error: Invalid `insert_line` parameter: {line}. It should be within the range of "
        "lines of the file: [0, {lines}]"
    ),
    "too long": "File {path} exceeds maximum line limit of {lines_max:,} lines.",
    "outside": "Path must start with /memories, got: {path}",
    "escapes": "Path {path} would escape /memories directory",
    "root": "Cannot {verb} the /memories directory itself",
    "bad input": "Error: {what}",
}


class MemoryToolError(MemoryActorsError):
    """The tool refused a command; the message is what the model is to read."""

    why: str = ""
    """The key of the message in `TEXTS`; "" if the memory itself refused."""
    values: Mapping[str, object] = MappingProxyType({})


def refused(why: str, **values: object) -> MemoryToolError:
    """Return the error of a refusal: one of `TEXTS`, with its values."""
    error = MemoryToolError(TEXTS[why].format(**values))
    error.why, error.values = why, values
    return error


# --- paths

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
    if _leaves_the_root(path):
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


def parents(name: str) -> Iterator[str]:
    """Yield the directories above a name, outermost first, without the root."""
    parts = name.split("/")
    yield from ("/".join(parts[:n]) for n in range(1, len(parts)))


def is_under(name: str, directory: str) -> bool:
    """Return whether a name lies in a directory, at any depth."""
    return not directory or name.startswith(f"{directory}/")


def _leaves_the_root(path: str) -> bool:
    """Say whether a path may be read as another one by who decodes or normalises it."""
    for _ in range(DECODED_TIMES_MAX):
        for spelling in (path, unicodedata.normalize("NFKC", path)):
            parts = {part.strip() for part in spelling.split("/")}
            if "\\" in spelling or "\0" in spelling or parts & {".", ".."}:
                return True
        path = unquote(path)
    return False


LINES_MAX = 999_999  # what fits the six columns of a line number
NUMBER_WIDTH = 6
DEPTH_MAX = 2
UNITS = "BKMG"
SNIPPET_LINES = 2  # before and behind the line that changed


def view_of_file(path: str, text: str, first: int = 1, last: int = -1) -> str:
    """Return a file's lines with their numbers, from `first` to `last`; -1 is the last of all.

    :raises MemoryToolError: it has too many lines.
    """
    lines = text.split("\n")
    if len(lines) > LINES_MAX:
        raise refused("too long", path=path, lines_max=LINES_MAX)
    first = max(1, first)
    shown = lines[first - 1 : len(lines) if last == -1 else max(0, last)]
    return f"Here's the content of {path} with line numbers:\n{numbered(shown, first)}"


def view_of_directory(path: str, name: str, sizes: Mapping[str, int]) -> str:
    """Return a directory's files and directories, two levels deep, with their sizes in bytes.

    `sizes` are those of all files by name. A directory is as large as what lies in it.
    """
    inside = {file: size for file, size in sizes.items() if is_under(file, name)}
    depth = name.count("/") + 1 if name else 0
    rows = [f"{human(sum(inside.values()))}\t{path}"]
    for entry, size in _entries(inside, depth):
        rows.append(f"{human(size)}\t{path.rstrip('/')}/{entry}")
    return (
        f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items "
        "and node_modules:\n" + "\n".join(rows)
    )


def _entries(inside: Mapping[str, int], depth: int) -> Iterator[tuple[str, int]]:
    """Yield the entries at most two levels below, each directory before its content."""
    totals: dict[tuple[str, ...], int] = {}
    for file, size in inside.items():
        parts = tuple(file.split("/")[depth:])
        if any(part.startswith(".") or part == HIDDEN for part in parts):
            continue
        for n in range(1, min(len(parts), DEPTH_MAX) + 1):
            entry = parts[:n] if n == len(parts) else (*parts[:n], "")
            totals[entry] = totals.get(entry, 0) + size
    for entry in sorted(totals):
        yield "/".join(entry), totals[entry]


def snippet(text: str, at: int) -> str:
    """Return the line of a place in a text and two on each side, with their numbers."""
    line = text.count("\n", 0, at)
    first = max(0, line - SNIPPET_LINES)
    return numbered(text.split("\n")[first : line + SNIPPET_LINES + 1], first + 1)


def numbered(lines: Sequence[str], first: int) -> str:
    """Return lines behind their numbers, six columns wide, and a tab."""
    return "\n".join(f"{n:>{NUMBER_WIDTH}}\t{line}" for n, line in enumerate(lines, first))


def human(size_bytes: int) -> str:
    """Return a size as `ls -h` has it: 12B, 5.5K, 2M."""
    power = sum(1 for _ in takewhile(lambda n: size_bytes >= KIB**n, range(1, len(UNITS))))
    number = size_bytes / KIB**power
    return f"{number:.0f}{UNITS[power]}" if number.is_integer() else f"{number:.1f}{UNITS[power]}"
