"""How blocks stand beside each other: the text of a document, from the exact texts of its blocks.

Theory. What is taken apart must be what was put together: `parse` of a document's text gives just
its blocks. Blocks that come from one text do so. But entries leave (an archive, a removal), come
back and are edited, and then two stand side by side that never did: a paragraph behind an item that
left its blank line with another, anything behind a fence that nobody closed. So a block shows as
it must, not always as it is: with a blank line behind it, its fence closed, without the indentation
that would make it a part of the item before. Its own text stays as it is; when its neighbours are
back, so are the bytes.

How a block must show is told by its neighbours alone, as a line that begins a block of its sort
leads to the same state whatever went on before.
"""

from collections.abc import Iterable

from memory_actors.kinds.context.lines import (
    FENCE,
    ITEM,
    LINES,
    Fenced,
    Start,
    is_blank,
    title_of,
)

FENCES = ("```", "~~~")


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
    """Return what goes on behind a text."""
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
    return f"{ended}{state.fence}\n" if isinstance(state, Fenced) else ended


def _side_by_side(before: str, after: str) -> tuple[str, str]:
    """Return how two neighbours show."""
    before = closed(before)
    if after[:1].isspace():
        after = _without_leading_blanks(after)
    first = LINES.findall(after, 0, after.find("\n") + 1 or len(after))[0]
    if _surely_begins(before, first):
        return before, after
    state = state_behind(before)
    if _begins(state, first):
        return before, after
    if not before.endswith("\n\n"):
        before, state = f"{before}\n", state.behind_blank()
    return before, after if _begins(state, first) else _outdented(after)


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


def _without_leading_blanks(raw: str) -> str:
    lines = LINES.findall(raw)
    while is_blank(lines[0]):
        del lines[0]
    return "".join(lines)


def _outdented(raw: str) -> str:
    """Return a block that is no part of an item before it: its first line is not indented.

    Where what was indented code would then be something else, it is escaped.
    """
    body = raw.lstrip(" \t")
    if ITEM.match(raw) or FENCE.match(raw):
        return body
    special = ITEM.match(body) or FENCE.match(body) or title_of(body)
    return f"\\{body}" if special else body
