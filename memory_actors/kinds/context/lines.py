"""What the lines of a Markdown text mean to the blocks it is made of: which of them begin one.

Theory. Going through a text line by line, what a line means depends on what goes on there: a
paragraph, an item of a list, fenced code, or nothing. Each of these is a state; `step` takes it
over a line.
"""

import re

LINES = re.compile(r"[^\n]*\n|[^\n]+")  # `splitlines` also breaks at form feeds and the like
HEADING = re.compile(r"#{1,6}[ \t]")
ITEM = re.compile(r"( {0,3})(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|(?=\r?\n|\r?\Z))")
FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
BYTE_ORDER_MARK = "\ufeff"  # some editors write one at the start of a file
INDENTED = re.compile(r"(?: {2,}|\t)")


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
    """What a line means: nothing that went before has a say. Each state is what it continues."""

    def step(self, line: str) -> tuple["Start", bool]:
        """Return the state behind a line, and whether the line begins a block."""
        if is_blank(line):
            return self.behind_blank(), False
        fence = FENCE.match(line)
        if fence and not self.holds(line):
            return Fenced(fence[1]), True
        if title_of(line) is not None:
            return Start(), True
        item = ITEM.match(line)
        if item and not self.holds(line):
            return Item(len(item[1])), True
        return self.on(line)

    def behind_blank(self) -> "Start":
        """Return the state behind a blank line."""
        return Start()

    def holds(self, _line: str) -> bool:
        """Return whether a line that could begin something is inside of what goes on."""
        return False

    def on(self, _line: str) -> tuple["Start", bool]:
        """Return the state behind a line of plain text, and whether it begins a block."""
        return Paragraph(), True


class Paragraph(Start):
    """Inside a run of plain lines."""

    def on(self, _line: str) -> tuple[Start, bool]:
        """Go on with any of them."""
        return self, False


class Item(Start):
    """Inside a list item; `spaced` behind a blank line, where only indented lines continue it."""

    def __init__(self, indent: int, *, spaced: bool = False):
        self._indent = indent
        self._spaced = spaced

    def behind_blank(self) -> Start:
        """Go on, for indented lines only."""
        return Item(self._indent, spaced=True)

    def holds(self, line: str) -> bool:
        """Hold what is indented more than the item; behind a blank line, by two at least."""
        if self._spaced and not INDENTED.match(line):
            return False
        return len(line) - len(line.lstrip(" \t")) > self._indent

    def on(self, line: str) -> tuple[Start, bool]:
        """Go on, unless a blank line came before one that is not indented."""
        if self._spaced and not INDENTED.match(line):
            return Paragraph(), True
        return Item(self._indent), False


class Fenced(Start):
    """Inside fenced code, up to a fence of the same kind that is at least as long."""

    def __init__(self, fence: str):
        self.fence = fence
        self._closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}\s*$")

    def step(self, line: str) -> tuple[Start, bool]:
        """Take in every line."""
        return (Start() if self._closing.match(line) else self), False
