"""Markdown as blocks: headings and entries, which together are the text to the last byte.

Theory. A context document is edited by people, in files, and by programs, entry by entry. Both see
the same thing only if taking a text apart loses nothing: the blocks partition the text, so their
join is the text. Hence blank lines belong to the block before them, line ends stay as they are, and
nothing is ever reformatted; only an entry that is reworded gets new bytes.

What begins a block: a heading (`# ` to `###### ` at the start of a line), an item of a top-level
list, a fence (``` or ~~~, which runs to its end whatever is in it), and any line behind a blank one
that does not continue an item. An item is continued by lines right below it, as CommonMark has it,
and behind blank lines by indented ones.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LINES = re.compile(r"[^\n]*\n|[^\n]+")  # `splitlines` also breaks at form feeds and the like
HEADING = re.compile(r"#{1,6}[ \t]")
ITEM = re.compile(r"( {0,3})(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|(?=\r?\n|$))")
FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
INDENTED = re.compile(r"(?: {2,}|\t)")


class Block(NamedTuple):
    """One block: its exact text, and its title if it is a heading."""

    raw: str
    heading: str | None


def parse(text: str) -> list[Block]:
    """Return the blocks of a text. Joined, their `raw` is the text, to the last byte."""
    return [Block("".join(lines), _title(lines)) for lines in _grouped(LINES.findall(text))]


def render(raws: Iterable[str]) -> str:
    """Return the text of blocks in their order.

    One that is not the last and lacks its final line feed gets it: nothing may run together.
    """
    parts = list(raws)
    ended = [raw if raw.endswith("\n") else f"{raw}\n" for raw in parts[:-1]]
    return "".join([*ended, *parts[-1:]])


def entry_raw(text: str) -> str:
    """Return a text as a list item; its continuation lines are indented by two spaces."""
    return _item("- ", text, "\n") + "\n"


def entry_text(raw: str) -> str:
    """Return what an entry says: no list marker, indentation of continuations, final blank lines.

    Lines end in a line feed, however they ended.
    """
    _, marker, body, _ = _parts(raw)
    lines = body.replace("\r\n", "\n").split("\n")
    if not marker:
        return "\n".join(lines)
    outdented = (_outdented(line, len(marker)) for line in lines[1:])
    return "\n".join([lines[0], *outdented])


def reworded(raw: str, text: str) -> str:
    """Return the raw text of an entry that now says `text`.

    Its marker, or lack of one, stays, and so do its kind of line end and the blank lines behind it.
    """
    before, marker, _, after = _parts(raw)
    line_end = "\r\n" if "\r\n" in raw else "\n"
    if marker:
        return (
            before + _item(marker if marker[-1] in " \t" else f"{marker} ", text, line_end) + after
        )
    return before + line_end.join(_lines_of(text)) + after


def heading_raw(title: str) -> str:
    """Return a heading of the second level, with the blank line behind it."""
    return f"## {title}\n\n"


def title_of(line: str) -> str | None:
    """Return the title of a heading line, None for any other line."""
    found = HEADING.match(line)
    if found is None:
        return None
    title = line[found.end() :].strip()
    opened = title.rstrip("#")
    return (title if opened[-1:].strip() else opened.rstrip()) or None


# --- taking apart


def _grouped(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines of each block. Blank lines at the very start go with the first block."""
    group: list[str] = []
    state, begun = _Start(), False
    for line in lines:
        state, begins = state.step(line)
        if begins and begun:
            yield group
            group = []
        begun = begun or begins
        group.append(line)
    if group:
        yield group


class _Start:
    """What a line means: nothing that went before has a say. Each state is what it continues."""

    def step(self, line: str) -> tuple["_Start", bool]:
        """Return the state behind a line, and whether the line begins a block."""
        if _blank(line):
            return self.behind_blank(), False
        fence = FENCE.match(line)
        if fence and not self.holds(line):
            return _Fenced(fence[1]), True
        if title_of(line) is not None:
            return _Start(), True
        item = ITEM.match(line)
        if item and not self.holds(line):
            return _Item(len(item[1])), True
        return self.on(line)

    def behind_blank(self) -> "_Start":
        """Return the state behind a blank line."""
        return _Start()

    def holds(self, _line: str) -> bool:
        """Return whether a line that could begin something is inside of what goes on."""
        return False

    def on(self, _line: str) -> tuple["_Start", bool]:
        """Return the state behind a line of plain text, and whether it begins a block."""
        return _Paragraph(), True


class _Paragraph(_Start):
    """Inside a run of plain lines."""

    def on(self, _line: str) -> tuple[_Start, bool]:
        return self, False


class _Item(_Start):
    """Inside a list item; `spaced` behind a blank line, where only indented lines continue it."""

    def __init__(self, indent: int, *, spaced: bool = False):
        self._indent = indent
        self._spaced = spaced

    def behind_blank(self) -> _Start:
        return _Item(self._indent, spaced=True)

    def holds(self, line: str) -> bool:
        return len(line) - len(line.lstrip(" \t")) > self._indent

    def on(self, line: str) -> tuple[_Start, bool]:
        if self._spaced and not INDENTED.match(line):
            return _Paragraph(), True
        return _Item(self._indent), False


class _Fenced(_Start):
    """Inside fenced code, up to a fence of the same kind that is at least as long."""

    def __init__(self, fence: str):
        self._closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}\s*$")

    def step(self, line: str) -> tuple[_Start, bool]:
        return (_Start() if self._closing.match(line) else self), False


def _title(lines: list[str]) -> str | None:
    first = next((line for line in lines if not _blank(line)), "")
    return title_of(first)


def _blank(text: str) -> bool:
    return not text.strip()


# --- one entry


def _parts(raw: str) -> tuple[str, str, str, str]:
    """Return what stands before an entry, its marker, what it says, and what stands behind it."""
    text = raw.lstrip("\r\n")
    found = ITEM.match(text)
    marker = found[0] if found else ""
    body = text[len(marker) :].rstrip()
    before, after = raw[: len(raw) - len(text)], text[len(marker) + len(body) :]
    return before, marker, body, after


def _item(marker: str, text: str, line_end: str) -> str:
    first, *rest = _lines_of(text)
    indent = " " * len(marker)
    return line_end.join([marker + first, *(indent + line if line else "" for line in rest)])


def _lines_of(text: str) -> list[str]:
    """Return the lines of a text without blank ones at its ends; blank ones inside are empty."""
    lines = text.replace("\r\n", "\n").strip().split("\n")
    return [line.rstrip() for line in lines]


def _outdented(line: str, width: int) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return line[min(indent, width) :]
