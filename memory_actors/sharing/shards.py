"""Shards: each user is in one of 4,096, by the hash of their id, and each shard in one place."""

import hashlib
from typing import Final

from memory_actors.base.streams import key_owner, user_of

SHARDS: Final = 4096


def shard_of(user_id: str) -> int:
    """Return the shard of a user: the first 12 bits of the SHA-256 of the id."""
    return int.from_bytes(hashlib.sha256(user_id.encode()).digest()[:2]) >> 4


def shard_of_stream(stream: str) -> int:
    """Return the shard of a stream: that of the user whose it is."""
    return shard_of(user_of(key_owner(stream)))
