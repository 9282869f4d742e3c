"""Two orders become one: where the blocks that only the file has go in the document.

The document's order stands. A block of the file goes behind the one that it follows in the file; if
the document has entries of its own there, behind those, up to the document's next new heading: so
each side's entries stay in the section they were written in.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memory_actors.kinds.context.alignment import NewId, Placed, aligned, as_shown, runs
from memory_actors.kinds.context.markdown import Block, parse


@dataclass(slots=True, eq=False)
class FileBlock:
    """A block of the file, and what was decided about it."""

    raw: str
    heading: str | None
    name: str | None = None
    """The id it has in the document; None: not known there."""
    goes: bool = False
    """It has gone in the document, and so it goes from the file."""
    behind: str | None = None
    """The id of the block that it is another version of."""

    def block(self) -> Block:
        """Return it as it was read."""
        return Block(self.raw, self.heading)

    def placed(self) -> Placed:
        """Return it under its id, which it has by then."""
        assert self.name is not None
        return Placed(self.name, self.raw, self.heading)


def weave(document: Sequence[Placed], read: Sequence[FileBlock], new_id: NewId) -> list[Placed]:
    """Return the document's blocks with the file's own among them, which get their ids here."""
    places = {block.block_id: n for n, block in enumerate(document)}
    in_file = {block.name for block in read if not block.goes}
    added: dict[int, list[Placed]] = {}
    at = 0
    for block in read:
        if block.goes:
            continue
        if block.name is not None:
            at = places[block.name] + 1
            continue
        if block.behind is not None:
            at = places[block.behind] + 1
        else:
            at = _behind_entries(document, at, in_file)
        block.name = new_id()
        added.setdefault(at, []).append(block.placed())
    ends = range(len(document) + 1)
    return [block for n in ends for block in (*added.get(n, ()), *document[n : n + 1])]


def _behind_entries(document: Sequence[Placed], at: int, in_file: set[str | None]) -> int:
    """Return the place behind the entries that only the document has: a heading ends them."""
    own = (
        n
        for n in range(at, len(document))
        if document[n].block_id in in_file or document[n].heading is not None
    )
    return next(own, len(document))


def added_by_both(
    document: Sequence[Placed], mine: set[str], read: Sequence[FileBlock]
) -> Iterator[tuple[Placed, FileBlock]]:
    """Yield pairs of blocks that both sides added in sections of one name and that say the same.

    `mine` are the ids that the document added; the file's blocks are those without an id. Blank
    lines behind a block do not count. Those in the same order match first, then any.
    """
    ours = [(k, b) for k, b in _keyed(document) if b.block_id in mine]
    theirs = [(k, b) for k, b in _keyed(read) if b.name is None and b.behind is None]
    left: dict[_Key, list[Placed]] = {}
    rest: list[tuple[_Key, FileBlock]] = []
    for old, new, equal in runs([key for key, _ in ours], [key for key, _ in theirs]):
        if equal:
            yield from ((ours[i][1], theirs[j][1]) for i, j in zip(old, new, strict=True))
            continue
        for i in old:
            left.setdefault(ours[i][0], []).append(ours[i][1])
        rest += (theirs[j] for j in new)
    for key, block in rest:
        if left.get(key):
            yield left[key].pop(0), block


_Key = tuple[str, str]
_Some = TypeVar("_Some", Placed, FileBlock)


def _keyed(blocks: Sequence[_Some]) -> Iterator[tuple[_Key, _Some]]:
    """Yield blocks with their section and what they say."""
    section = ""
    for block in blocks:
        section = section if block.heading is None else block.heading
        yield (section, block.raw.strip()), block


def whole(blocks: Sequence[Placed], new_id: NewId) -> list[Placed]:
    """Return blocks as they show, so that they are what their text is taken apart into."""
    apart = as_shown(blocks)
    found = parse("".join(block.raw for block in apart))
    if [block.raw for block in found] == [block.raw for block in apart]:
        return apart
    return aligned(apart, found, new_id)  # without what has blank lines alone
