"""Three-way merge of a document and its file, entry by entry.

Theory. The base is what the file held when the two were last in step: ids and digests, in order.
Each side is compared with it. The file has no ids: its blocks get those of the base by their
digests, and, where one was edited, by likeness to what the id reads now (alive or archived). Then
each entry has one of nine fates:

| in the file | in the document: same | edited | gone |
|---|---|---|---|
| same | stays | the document's | goes |
| edited | the file's | both, unless they read alike | the file's, as a new entry |
| gone | goes | the document's | goes |

The last of the second row and of the second column are conflicts: somebody's removal is not carried
out, or both texts are kept. A difference in the blank lines behind an entry alone is no edit that
could conflict. With no base nothing was ever removed: the result is the union.

The order is the document's. A block that is only in the file follows the block that it follows
there; where both sides added in one place, entries of the document come first, up to its next new
heading.

Two bases come out. `file_base` says what the file that was read holds, in ids of the merged
document; `base` says what the merged document holds. The first is true until the file is replaced,
the second from then on. See syncing.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, TypeAlias, TypeVar

from eventlog.core.records import Returned
from memory_actors.base.context_documents import BlockChange
from memory_actors.base.errors import ContextFileError
from memory_actors.kinds.context import alignment
from memory_actors.kinds.context.markdown import ParsedBlock, entry_text, parse, render
from memory_actors.kinds.passages import text_digest

# --- two orders become one: where the blocks that only the file has go in the document
#
# The document's order stands. A block of the file goes behind the one that it follows in the file;
# if the document has entries of its own there, behind those, up to the document's next new heading:
# so each side's entries stay in the section they were written in.


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

    def block(self) -> ParsedBlock:
        """Return the block as it was read."""
        return ParsedBlock(self.raw, self.heading)

    def placed(self) -> alignment.Placed:
        """Return the block under its id, which is set by this time."""
        assert self.name is not None
        return alignment.Placed(self.name, self.raw, self.heading)


def weave(
    document: Sequence[alignment.Placed], read: Sequence[FileBlock], new_id: alignment.NewId
) -> list[alignment.Placed]:
    """Return the document's blocks with the file's own among them, which get their ids here."""
    places = {block.block_id: n for n, block in enumerate(document)}
    in_file = {block.name for block in read if not block.goes}
    added: dict[int, list[alignment.Placed]] = {}
    at = 0
    for block in read:
        if block.goes:
            continue
        if block.name is not None:
            at = places[block.name] + 1
            continue
        if block.behind is not None:
            at = places[block.behind] + 1
        else:  # behind the entries that only the document has: a heading ends them
            others = (
                n
                for n in range(at, len(document))
                if document[n].block_id in in_file or document[n].heading is not None
            )
            at = next(others, len(document))
        block.name = new_id()
        added.setdefault(at, []).append(block.placed())
    ends = range(len(document) + 1)
    return [block for n in ends for block in (*added.get(n, ()), *document[n : n + 1])]


def added_by_both(
    document: Sequence[alignment.Placed], mine: set[str], read: Sequence[FileBlock]
) -> Iterator[tuple[alignment.Placed, FileBlock]]:
    """Yield pairs of blocks that both sides added in sections of one name and that say the same.

    `mine` are the ids that the document added; the file's blocks are those without an id. Blank
    lines behind a block do not count. Blocks in the same order match first, then any others.
    """
    ours = [(k, b) for k, b in _keyed(document) if b.block_id in mine]
    theirs = [(k, b) for k, b in _keyed(read) if b.name is None and b.behind is None]
    left: dict[_Key, list[alignment.Placed]] = {}
    rest: list[tuple[_Key, FileBlock]] = []
    for old, new, equal in alignment.runs([key for key, _ in ours], [key for key, _ in theirs]):
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
_Some = TypeVar("_Some", alignment.Placed, FileBlock)


def _keyed(blocks: Sequence[_Some]) -> Iterator[tuple[_Key, _Some]]:
    section = ""
    for block in blocks:
        section = section if block.heading is None else block.heading
        yield (section, block.raw.strip()), block


def whole(blocks: Sequence[alignment.Placed], new_id: alignment.NewId) -> list[alignment.Placed]:
    """Return blocks as they show, so that they are what their text is taken apart into."""
    apart = alignment.as_shown(blocks)
    found = parse("".join(block.raw for block in apart))
    if [block.raw for block in found] == [block.raw for block in apart]:
        return apart
    return alignment.aligned(apart, found, new_id)  # without what has blank lines alone


# --- the merge

Base: TypeAlias = tuple[tuple[str, bytes], ...]
ENDS = ("\n", "\n\n", "", "\r\n", "\r\n\r\n", "\n\n\n")  # what people leave behind an entry
BLOCKS_MAX = 10_000  # of a file: as many as a user may have entries

Reason = Literal[
    "edited in both", "edited here, removed in the file", "edited in the file, gone here"
]


class Conflict(Returned, frozen=True):
    """Two sides that disagree about an entry. Nothing is lost: `reason` says what was kept."""

    entry_id: str
    """The entry it is about."""
    reason: Reason
    document: str | None
    """The text in the document; None: the entry is gone there."""
    file: str | None
    """The text in the file; None: the entry is gone there."""


class Merged(Returned, frozen=True):
    """The outcome of a merge."""

    changes: tuple[BlockChange, ...]
    """Changes after which the document reads `text`."""
    text: str
    file_base: Base
    base: Base
    conflicts: tuple[Conflict, ...]


def merge(
    document: Sequence[alignment.Placed],
    file_text: str,
    base: Base | None,
    archived: Mapping[str, alignment.Placed],
    new_id: alignment.NewId = alignment.new_block_id,
) -> Merged:
    """Merge a document and the text of its file; no base on the first time.

    `archived` has archived entries by id: an edit of one of them in the file is known as such.

    :raises ContextFileError: the file has too many blocks.
    """
    found = parse(file_text)
    if len(found) > BLOCKS_MAX:
        raise ContextFileError(
            f"the file has {len(found):,} entries and headings, and {BLOCKS_MAX:,} is the most: "
            "move some elsewhere"
        )
    read = [FileBlock(*block) for block in found]
    text = render(block.raw for block in document)
    live = alignment.aligned(alignment.as_shown(document), parse(text), new_id)
    if text == file_text:  # in step, whatever a sync that was cut off has noted
        base = base_of(live)
    merging = _Merging(live, read)
    merging.settle(base or (), archived)
    final = whole(weave(list(merging.shown.values()), merging.read, new_id), new_id)
    return Merged(
        changes=tuple(alignment.changes_between(document, final)),
        text=render(block.raw for block in final),
        file_base=base_of(block.placed() for block in merging.read),
        base=base_of(final),
        conflicts=tuple(merging.conflicts),
    )


class _Edit(IntEnum):
    NONE = 0
    SPACING = 1  # other blank lines behind it
    TEXT = 2


class _Merging:
    def __init__(self, live: Sequence[alignment.Placed], read: list[FileBlock]):
        self.live = {block.block_id: block for block in live}
        self.shown = dict(self.live)  # the document's blocks as they will be, without those that go
        self.read = read
        self.conflicts: list[Conflict] = []

    def settle(self, base: Base, archived: Mapping[str, alignment.Placed]) -> None:
        of_name = dict(self._of_base(base, archived))
        for name, digest in base:
            self._decide(name, digest, of_name.get(name))
        mine = self.live.keys() - {name for name, _ in base}
        for placed, block in added_by_both(list(self.live.values()), mine, self.read):
            block.name = placed.block_id
            self.shown[placed.block_id] = placed._replace(raw=block.raw)

    def _of_base(
        self, base: Base, archived: Mapping[str, alignment.Placed]
    ) -> list[tuple[str, FileBlock]]:
        digests = {digest for _, digest in base}
        if not digests:
            return []
        keys = [
            next((one for one in _but_for_spacing(block.raw) if one in digests), None)
            for block in self.read
        ]
        known = [self.live.get(name) or archived.get(name) for name, _ in base]
        blocks = [block.block() for block in self.read]
        same, edited = alignment.matched([digest for _, digest in base], keys, known, blocks)
        return [(base[i][0], self.read[j]) for i, j in (*same, *edited)]

    def _decide(self, name: str, digest: bytes, block: FileBlock | None) -> None:
        mine = self.live.get(name)
        if mine is None and block is not None:
            if _edit(block.raw, digest) < _Edit.TEXT:
                block.name, block.goes = name, True
            else:
                self._conflict(name, "edited in the file, gone here", None, block)
        elif mine is not None and block is None:
            if _edit(mine.raw, digest) < _Edit.TEXT:
                del self.shown[mine.block_id]
            else:
                self._conflict(mine.block_id, "edited here, removed in the file", mine, None)
        elif mine is not None and block is not None:
            here, there = _edit(mine.raw, digest), _edit(block.raw, digest)
            alike = mine.raw.rstrip() == block.raw.rstrip()
            if here == there == _Edit.TEXT and not alike:
                block.behind = mine.block_id
                self._conflict(mine.block_id, "edited in both", mine, block)
                return
            block.name = mine.block_id
            if alike or here < there:
                mine = block.placed() if there else mine
            elif there:
                mine = mine._replace(raw=mine.raw.rstrip() + block.raw[len(block.raw.rstrip()) :])
            self.shown[mine.block_id] = mine

    def _conflict(
        self, name: str, reason: Reason, mine: alignment.Placed | None, block: FileBlock | None
    ) -> None:
        here = None if mine is None else entry_text(mine.raw)
        there = None if block is None else entry_text(block.raw)
        self.conflicts.append(Conflict(name, reason, here, there))


def base_of(blocks: Iterable[alignment.Placed]) -> Base:
    """Return blocks as a base."""
    return tuple((block.block_id, text_digest(block.raw)) for block in blocks)


def _but_for_spacing(raw: str) -> Iterator[bytes]:
    yield text_digest(raw)
    body = raw.rstrip()
    for end in ENDS:
        yield text_digest(body + end)


def _edit(raw: str, digest: bytes) -> _Edit:
    if text_digest(raw) == digest:
        return _Edit.NONE
    return _Edit.SPACING if digest in _but_for_spacing(raw) else _Edit.TEXT
