"""Shards: each user is in one of 4,096, by the hash of their id, and each shard in one place."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from eventlog import SettingStore
from memory_actors.base.streams import key_owner, user_of
from memory_actors.upkeep.database import settings_in, store_in

SHARDS: Final = 4096


def shard_of(user_id: str) -> int:
    """Return the shard of a user: the first 12 bits of the SHA-256 of the id."""
    return int.from_bytes(hashlib.sha256(user_id.encode()).digest()[:2]) >> 4


def shard_of_stream(stream: str) -> int:
    """Return the shard of a stream: that of the user whose it is."""
    return shard_of(user_of(key_owner(stream)))


@asynccontextmanager
async def settings_of_all(urls: Sequence[str]) -> AsyncIterator[SettingStore]:
    """Hold the settings of a memory in one or several databases, made if missing, for a block.

    :raises LogUnavailable: a database cannot be reached, or they are not those of one memory.
    """
    from eventlog.postgres.shards import assemble  # psycopg, which most stores do not need

    if len(urls) == 1:
        async with settings_in(urls[0]) as settings:
            yield settings
        return
    home = (await assemble(urls, shard_of_stream, SHARDS)).home
    async with store_in(urls[home], shard_of_stream) as store:
        yield store
