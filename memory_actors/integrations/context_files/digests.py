"""What a file held when it and its document were last in step: ids and digests, in order."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from memory_actors.kinds.context.alignment import Placed
from memory_actors.kinds.phrasing import text_digest

Base: TypeAlias = tuple[tuple[str, bytes], ...]
ENDS = ("\n", "\n\n", "", "\r\n", "\r\n\r\n", "\n\n\n")  # what people leave behind an entry


def base_of(blocks: Iterable[Placed]) -> Base:
    """Return blocks as a base."""
    return tuple((block.block_id, text_digest(block.raw)) for block in blocks)


def but_for_spacing(raw: str) -> Iterator[bytes]:
    """Yield the digests of a block as it is, then with other blank lines behind it."""
    yield text_digest(raw)
    body = raw.rstrip()
    for end in ENDS:
        yield text_digest(body + end)
