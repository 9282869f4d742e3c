"""Markdown as blocks: headings and entries, which together are the text to the last byte.

Theory. A context document is edited by people, in files, and by programs, entry by entry. Both see
the same thing only if taking a text apart loses nothing: the blocks partition the text, so their
join is the text. Hence blank lines belong to the block before them, line ends stay as they are, and
nothing is ever reformatted; only an entry that is reworded gets new bytes.

What begins a block: a heading (`# ` to `###### ` at the start of a line), an item of a top-level
list, a fence (``` or ~~~, which runs to its end whatever is in it), and any line behind a blank one
that does not continue an item. An item is continued by lines right below it, as CommonMark has it,
and behind blank lines by indented ones. How blocks become a text again: rendering.py.
"""

from collections.abc import Iterator
from types import EllipsisType
from typing import NamedTuple

from memory_actors.base.errors import InvalidInputError
from memory_actors.kinds.context.lines import ITEM, LINES, Fenced, Start, is_blank, title_of
from memory_actors.kinds.context.rendering import state_behind


class Block(NamedTuple):
    """One block: its exact text, and its title if it is a heading."""

    raw: str
    heading: str | None


def parse(text: str) -> list[Block]:
    """Return the blocks of a text. Joined, their `raw` is the text, to the last byte."""
    return [Block("".join(lines), _title(lines)) for lines in _grouped(LINES.findall(text))]


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
    if isinstance(state_behind(raw), Fenced):
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


def _title(lines: list[str]) -> str | None:
    first = next((line for line in lines if not is_blank(line)), "")
    return title_of(first)


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
