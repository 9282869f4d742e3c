"""What a file held when it and its document were last in step: ids and digests, in order."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from memory_actors.context_files.alignment import Placed

Base: TypeAlias = tuple[tuple[str, bytes], ...]
DIGEST_BYTES = 16  # of SHA-256: chance collisions are out of the question, and a base stays small
ENDS = ("\n", "\n\n", "", "\r\n", "\r\n\r\n", "\n\n\n")  # what people leave behind an entry


def digest_of(text: str) -> bytes:
    """Return the digest of a text, 16 bytes."""
    return hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]


def base_of(blocks: Iterable[Placed]) -> Base:
    """Return blocks as a base."""
    return tuple((block.block_id, digest_of(block.raw)) for block in blocks)


def but_for_spacing(raw: str) -> Iterator[bytes]:
    """Yield the digests of a block as it is, then with other blank lines behind it."""
    yield digest_of(raw)
    body = raw.rstrip()
    for end in ENDS:
        yield digest_of(body + end)
