"""Markdown as blocks: headings and entries, which together are the text to the last byte.

Taking apart. A context document is edited by people, in files, and by programs, entry by entry.
Both see the same thing only if taking a text apart loses nothing: the blocks partition the text, so
their join is the text. Hence blank lines belong to the block before them, line ends stay as they
are, and nothing is ever reformatted; only an entry that is reworded gets new bytes.

A block begins with a heading (`# ` to `###### ` at the start of a line), an item of a top-level
list, a fence (``` or ~~~, which runs to its end whatever is in it), and any line behind a blank one
that does not continue an item. An item is continued by lines right below it, as CommonMark has it,
and behind blank lines by indented ones. Going through a text line by line, the meaning of a line
depends on what goes on there: a paragraph, an item of a list, fenced code, or nothing. Each of
these is a state; `step` takes it over a line.

Joining. `parse` of a document's text gives just its blocks. Blocks that come from one text do so.
But entries leave (an archive, a removal), come back and are edited, and then two stand side by side
that never did: a paragraph behind an item that left its blank line with another, anything behind a
fence that nobody closed. Therefore the shown form of a block may differ from its own text: with a
blank line behind it, its fence closed, without the indentation that would make it a part of the
item before. Its own text stays as it is; when its neighbours are back, so are the bytes. Its
neighbours alone tell how a block must show, as a line that begins a block of its sort leads to the
same state whatever went on before.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import dropwhile
from types import EllipsisType
from typing import NamedTuple

from memory_actors.base.errors import InvalidInputError

LINES = re.compile(r"[^\n]*\n|[^\n]+")  # `splitlines` also breaks at form feeds and the like
HEADING = re.compile(r"#{1,6}[ \t]")
ITEM = re.compile(r"( {0,3})(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|(?=\r?\n|\r?\Z))")
FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
BYTE_ORDER_MARK = "\ufeff"  # some editors write one at the start of a file
INDENTED = re.compile(r"(?: {2,}|\t)")
FENCES = ("```", "~~~")

# --- lines


def title_of(line: str) -> str | None:
    """Return the title of a heading line, None for any other line."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    found = HEADING.match(line)
    if found is None:
        return None
    title = line[found.end() :].strip()
    opened = title.rstrip("#")
    return (title if opened[-1:].strip() else opened.rstrip()) or None


def is_blank(text: str) -> bool:
    """Say whether a text has nothing but white space."""
    return not text.strip()


class Start:
    """The state in which no earlier line has a say in the meaning of the next one."""

    def step(self, line: str) -> tuple["Start", bool]:
        """Return the state behind a line, and whether the line begins a block."""
        if is_blank(line):
            return self.behind_blank(), False
        fence = FENCE.match(line)
        if fence and not self.holds(line):
            return FencedLines(fence[1]), True
        if title_of(line) is not None:
            return Start(), True
        item = ITEM.match(line)
        if item and not self.holds(line):
            return ListItem(len(item[1])), True
        return self.on(line)

    def behind_blank(self) -> "Start":
        """Return the state behind a blank line."""
        return Start()

    def holds(self, _line: str) -> bool:
        """Return whether a line that could begin a block belongs to the current one."""
        return False

    def on(self, _line: str) -> tuple["Start", bool]:
        """Return the state behind a line of plain text, and whether it begins a block."""
        return Paragraph(), True


class Paragraph(Start):
    """Inside a run of plain lines."""

    def on(self, _line: str) -> tuple[Start, bool]:
        """Go on with any of them."""
        return self, False


class ListItem(Start):
    """Inside a list item; `spaced` behind a blank line, where only indented lines continue it."""

    def __init__(self, indent: int, *, spaced: bool = False):
        self._indent = indent
        self._spaced = spaced

    def behind_blank(self) -> Start:
        """Go on, for indented lines only."""
        return ListItem(self._indent, spaced=True)

    def holds(self, line: str) -> bool:
        """Accept lines indented more than the item, after a blank line by two at least."""
        if self._spaced and not INDENTED.match(line):
            return False
        return len(line) - len(line.lstrip(" \t")) > self._indent

    def on(self, line: str) -> tuple[Start, bool]:
        """Go on, unless a blank line came before one that is not indented."""
        if self._spaced and not INDENTED.match(line):
            return Paragraph(), True
        return ListItem(self._indent), False


class FencedLines(Start):
    """Inside fenced code, up to a fence of the same kind that is at least as long."""

    def __init__(self, fence: str):
        self.fence = fence
        self._closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}\s*$")

    def step(self, line: str) -> tuple[Start, bool]:
        """Take in every line."""
        return (Start() if self._closing.match(line) else self), False


# --- blocks beside each other


def render(raws: Iterable[str]) -> str:
    """Return the text of blocks in their order: as they are, but that none runs into another."""
    return "".join(shown(raws))


def shown(raws: Iterable[str]) -> list[str]:
    """Return how each block stands in the text.

    One of blank lines alone, which only an otherwise empty document has, is "" beside others.
    """
    own = list(raws)
    there = [n for n, raw in enumerate(own) if not is_blank(raw)]
    if not there:
        return own
    parts = [""] * len(own)
    last = there[0]
    parts[last] = own[last]
    for n in there[1:]:
        parts[last], parts[n] = _side_by_side(parts[last], own[n])
        last = n
    return parts


def state_behind(raw: str) -> Start:
    """Return the state after a text."""
    state = Start()
    for line in LINES.findall(raw):
        state, _ = state.step(line)
    return state


def closed(raw: str) -> str:
    """Return a block with its final line feed, and with its fence closed if that is open."""
    ended = raw if raw.endswith("\n") else f"{raw}\n"
    if not any(fence in raw for fence in FENCES):
        return ended
    state = state_behind(ended)
    return f"{ended}{state.fence}\n" if isinstance(state, FencedLines) else ended


def _side_by_side(before: str, after: str) -> tuple[str, str]:
    before = closed(before)
    if after[:1].isspace():
        after = "".join(dropwhile(is_blank, LINES.findall(after)))
    first = LINES.findall(after, 0, after.find("\n") + 1 or len(after))[0]
    if _surely_begins(before, first):
        return before, after
    state = state_behind(before)
    if _begins(state, first):
        return before, after
    if not before.endswith("\n\n"):
        before, state = f"{before}\n", state.behind_blank()
    return before, after if _begins(state, first) else _unindented(after)


def _surely_begins(before: str, first: str) -> bool:
    """Say, at little cost, whether a line begins a block behind one that is closed."""
    if first[0] in " \t":
        return False
    plain = not (ITEM.match(first) or FENCE.match(first) or title_of(first))
    return before.endswith("\n\n") if plain else True


def _begins(state: Start, line: str) -> bool:
    """Say whether a line begins a block that is of the sort which it begins by itself."""
    behind, begins = state.step(line)
    return begins and type(behind) is type(Start().step(line)[0])


def _unindented(raw: str) -> str:
    """Return a block without indentation in its first line; code that would change is escaped."""
    body = raw.lstrip(" \t")
    if ITEM.match(raw) or FENCE.match(raw):
        return body
    special = ITEM.match(body) or FENCE.match(body) or title_of(body)
    return f"\\{body}" if special else body


# --- blocks


class ParsedBlock(NamedTuple):
    """One block: its exact text, and its title if it is a heading."""

    raw: str
    heading: str | None


def parse(text: str) -> list[ParsedBlock]:
    """Return the blocks of a text. Joined, their `raw` is the text, to the last byte."""
    blocks = []
    for lines in _grouped(LINES.findall(text)):
        first = next((line for line in lines if not is_blank(line)), "")
        blocks.append(ParsedBlock("".join(lines), title_of(first)))
    return blocks


def entry_raw(text: str) -> str:
    """Return a text as a list item; its continuation lines are indented by two spaces."""
    return _item("- ", text, "\n") + "\n"


def entry_text(raw: str) -> str:
    """Return the text of an entry: no list marker, indentation of continuations, final blank lines.

    Lines end in a line feed, however they ended.
    """
    _, marker, body, _ = _parts(raw)
    lines = body.replace("\r\n", "\n").split("\n")
    indent = re.compile(rf" {{0,{len(marker)}}}")
    return "\n".join([lines[0], *(indent.sub("", line, count=1) for line in lines[1:])])


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


def check_one(raw: str, heading: str | EllipsisType | None = ...) -> None:
    """See that a text is one block and, unless left out, a heading of this title; None: an entry.

    :raises InvalidInputError: it is not.
    """
    found = parse(raw)
    if len(found) != 1:
        raise InvalidInputError(
            f"a block is one heading or one entry, and this is {len(found):,}: {raw!r:.80}"
        )
    read = found[0].heading
    if heading is not ... and heading != read:
        raise InvalidInputError(f"{raw!r:.80} reads as {_sort(read)}, not as {_sort(heading)}")


def check_entry(raw: str) -> None:
    """See that a text is one entry and stays one whatever follows it.

    :raises InvalidInputError: it reads as a heading or as several blocks, or is open code.
    """
    found = parse(raw)
    if isinstance(state_behind(raw), FencedLines):
        raise InvalidInputError(f"{raw!r:.80} leaves fenced code open: close the fence")
    if len(found) != 1 or found[0].heading is not None:
        raise InvalidInputError(
            f"{raw!r:.80} does not read as one entry: give a text without a heading, further list "
            "items or blank lines, or add what is more as entries of their own"
        )


def _sort(heading: str | None) -> str:
    return "an entry" if heading is None else f"the heading {heading!r:.80}"


# --- taking apart


def _grouped(lines: list[str]) -> Iterator[list[str]]:
    """Yield the lines of each block. Blank lines at the very start go with the first block."""
    group: list[str] = []
    state, begun = Start(), False
    for line in lines:
        state, begins = state.step(line)
        if begins and begun:
            yield group
            group = []
        begun = begun or begins
        group.append(line)
    if group:
        yield group


# --- one entry


def _parts(raw: str) -> tuple[str, str, str, str]:
    """Split an entry into prefix, list marker, text and suffix."""
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
    lines = text.replace("\r\n", "\n").strip().split("\n")
    return [line.rstrip() for line in lines]
