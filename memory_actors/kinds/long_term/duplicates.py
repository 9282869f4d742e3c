"""Which of the living memories say the same: the same words, in the same session, about the same.

Two texts are the same if they are after `phrasing.normalised`, with who says them. Memories of the
same text with other metadata, or of another session, are no duplicates: each knows something that
the other does not. Nor are those that come from elsewhere: each source is trusted, or purged, by
itself (the state of origins is not this kind's, so who looks for a duplicate brings that along).

A memory is found by a hash of all that must be the same, which is compared in full afterwards. It
takes some 100 bytes a memory. Python salts its hashes, so they stay in the process.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec
from immutables import Map, MapMutation

Duplicates: TypeAlias = Map[int, str | tuple[str, ...]]
"""By hash: the id of a memory, or of several, in order, that were all kept."""


Identity: TypeAlias = tuple[bytes, str | None, bytes]
"""What must be the same: the digest of the text, the session, the metadata as JSON."""


def identity(one: Any) -> Identity:
    """Return what is the same of those that say the same as a row, or a `MemoryAdded`."""
    told = msgspec.json.encode(one.metadata, order="sorted") if one.metadata else b""
    return one.same or one.digest, one.session_id, told


def named(known: Duplicates, one: Any) -> Iterator[str]:
    """Yield the memories that may say the same, in the order of their ids."""
    ids = known.get(hash(identity(one)), ())
    yield from (ids,) if isinstance(ids, str) else ids


def put(draft: MapMutation[int, str | tuple[str, ...]], one: Any) -> None:
    """Take note of a memory."""
    key, memory_id = hash(identity(one)), one.memory_id
    ids = draft.get(key)
    if ids is None:
        draft[key] = memory_id
    else:
        draft[key] = tuple(sorted((memory_id, ids) if isinstance(ids, str) else (memory_id, *ids)))


def drop(draft: MapMutation[int, str | tuple[str, ...]], one: Any) -> None:
    """Forget a memory."""
    key = hash(identity(one))
    ids = draft[key]
    left = () if isinstance(ids, str) else tuple(known for known in ids if known != one.memory_id)
    if left:
        draft[key] = left if len(left) > 1 else left[0]
    else:
        del draft[key]
