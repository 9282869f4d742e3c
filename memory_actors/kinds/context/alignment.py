"""From one version of a document to the next: which block became which.

Theory. A file says what a document is to be, not what was done to it. To keep ids, and with them
history, pins and times of use, each block of the new text takes the id of an old one where it can:
first the same text in the same order (the longest runs, as a diff has it), then, between two of
those, a block of the same sort that reads alike: it was edited. The rest came or went.

A block's own text is not always how it shows beside its neighbours (markdown.py). Texts are
compared with what shows; changes are made only where own texts would not show as the new one reads.

Similarity is measured on words, or on pairs of letters if there are few words: linear in the
length, whatever the text.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple
from uuid import uuid4

from memory_actors.base.context_documents import BlockChange, EditBlock, InsertBlock, RemoveBlock
from memory_actors.kinds.context.markdown import ParsedBlock, parse, shown

ALIKE = 0.5  # of the words in common: an entry with half of it new is still the entry that was
WORDS_MIN = 8  # below that, one other word would make another entry of it
COMPARISONS_MAX = 20_000  # in one gap: a wholly new document is not worth more
REPEATS_MAX = 2_000_000  # pairs of the same text: a text of a thousand equal lines is nobody's
WORD = re.compile(r"\w+")

NewId = Callable[[], str]
Pair = tuple[int, int]


class Placed(NamedTuple):
    """A block of a document: its id, its exact text, and its title if it is a heading."""

    block_id: str
    raw: str
    heading: str | None


def new_block_id() -> str:
    """Return an id that nobody has."""
    return uuid4().hex


def align(old: Sequence[Placed], text: str, new_id: NewId = new_block_id) -> list[BlockChange]:
    """Return the changes that make a document read `text`, as few as possible, in their order."""
    return changes_between(old, aligned(as_shown(old), parse(text), new_id))


def as_shown(blocks: Sequence[Placed]) -> list[Placed]:
    """Return blocks with the texts that they show beside each other."""
    raws = shown(block.raw for block in blocks)
    return [block._replace(raw=raw) for block, raw in zip(blocks, raws, strict=True)]


def aligned(
    old: Sequence[Placed], new: Sequence[ParsedBlock], new_id: NewId = new_block_id
) -> list[Placed]:
    """Return the blocks `new` with ids: those of the blocks they were, in order, or new ones."""
    same, edited = matched([block.raw for block in old], [block.raw for block in new], old, new)
    ids = {j: old[i].block_id for i, j in (*same, *edited)}
    return [Placed(ids.get(j) or new_id(), *block) for j, block in enumerate(new)]


def changes_between(old: Sequence[Placed], new: Sequence[Placed]) -> list[BlockChange]:
    """Return removes, edits and inserts from one list of blocks to another, as that is to show.

    Blocks with ids in common stand in the same order in both. An insert follows a block that is
    there when its turn comes.
    """
    before = {block.block_id: block.raw for block in old}
    kept = {block.block_id for block in new}
    changes: list[BlockChange] = [RemoveBlock(name) for name in before if name not in kept]
    raws = _own_texts(old, new)
    changes += [
        EditBlock(block.block_id, raw)
        for block, raw in zip(new, raws, strict=True)
        if before.get(block.block_id, raw) != raw
    ]
    after = None
    for block, raw in zip(new, raws, strict=True):
        if block.block_id not in before:
            changes.append(InsertBlock(block.block_id, raw, block.heading, after))
        after = block.block_id
    return changes


def _own_texts(old: Sequence[Placed], new: Sequence[Placed]) -> list[str]:
    """Return the new texts of blocks: a block keeps its text if that is shown as the new one."""
    own = {block.block_id: block.raw for block in old}
    was = {block.block_id: block.raw for block in as_shown(old)}
    wanted = [block.raw for block in new]
    raws = [
        own[block.block_id] if was.get(block.block_id) == block.raw else block.raw for block in new
    ]
    while wrong := [n for n, raw in enumerate(shown(raws)) if raw != wanted[n]]:
        if all(raws[n] == wanted[n] for n in wrong):
            return wanted
        for n in wrong:
            raws[n] = wanted[n]
    return raws


def matched(
    old_keys: Sequence[Hashable],
    new_keys: Sequence[Hashable],
    old: Sequence[Placed | None],
    new: Sequence[ParsedBlock],
) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs of places that are the same, by key, and those that were edited.

    An old block is None where its text is not known any more: what is left between the same
    neighbours passes for an edit of it.
    """
    same: list[Pair] = []
    edited: list[Pair] = []
    for olds, news, equal in runs(old_keys, new_keys):
        if equal:
            same += zip(olds, news, strict=True)
        elif len(olds) * len(news) <= COMPARISONS_MAX:
            edited += _edited(olds, news, old, new)
    return same, edited


def runs(
    old_keys: Sequence[Hashable], new_keys: Sequence[Hashable]
) -> Iterator[tuple[range, range, bool]]:
    """Yield runs of places on both sides, in order, and whether their keys are the same."""
    length = min(len(old_keys), len(new_keys))
    start = next((n for n in range(length) if old_keys[n] != new_keys[n]), length)
    left = range(1, length - start + 1)
    end = next((n for n in left if old_keys[-n] != new_keys[-n]), len(left) + 1) - 1
    olds, news = range(start, len(old_keys) - end), range(start, len(new_keys) - end)
    yield range(start), range(start), True
    yield from _runs_between(old_keys, new_keys, olds, news)
    yield range(olds.stop, len(old_keys)), range(news.stop, len(new_keys)), True


def _runs_between(
    old_keys: Sequence[Hashable], new_keys: Sequence[Hashable], olds: range, news: range
) -> Iterator[tuple[range, range, bool]]:
    old, new = [old_keys[i] for i in olds], [new_keys[j] for j in news]
    often = Counter(new)
    if sum(often[key] for key in old) > REPEATS_MAX:
        yield olds, news, False
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield olds[i1:i2], news[j1:j2], tag == "equal"


def _edited(
    olds: range, news: range, old: Sequence[Placed | None], new: Sequence[ParsedBlock]
) -> list[Pair]:
    """Return pairs that read alike, each old block with the first that is left; then the rest."""
    pairs: list[Pair] = []
    free = news.start
    for i in olds:
        j = next((j for j in range(free, news.stop) if alike(old[i], new[j])), None)
        if j is not None:
            pairs.append((i, j))
            free = j + 1
    taken = {j for _, j in pairs}
    left = (j for j in news if j not in taken)
    return pairs + list(zip((i for i in olds if old[i] is None), left, strict=False))


def alike(one: Placed | None, other: ParsedBlock) -> bool:
    """Return whether two blocks are of one sort and half of what they say is the same."""
    if one is None or (one.heading is None) != (other.heading is None):
        return False
    words, more = WORD.findall(one.raw), WORD.findall(other.raw)
    if min(len(words), len(more)) < WORDS_MIN:
        words, more = _pairs(one.raw), _pairs(other.raw)
    shared = (Counter(words) & Counter(more)).total()
    return 2 * shared >= ALIKE * (len(words) + len(more))


def _pairs(raw: str) -> list[str]:
    return ["".join(pair) for pair in pairwise(raw.strip())]
