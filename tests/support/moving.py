"""Memories in several databases, between which shards move."""

from typing import Any

import pytest

from eventlog import LogUnavailable, stream_id
from eventlog.postgres import shard_move
from memory_actors import MemorySystem, Settings
from memory_actors.sharing.moving import move_shards
from memory_actors.sharing.shards import shard_of
from support.fakes import FakeEmbedder

TABLES = ("event", "event_archive", "event_key", "request", "snapshot", "derived")


def opened(urls: Any, **more: Any) -> Any:
    settings = Settings(latency_targets_ms={}, **more)
    return MemorySystem.open(urls, embedder=FakeEmbedder(), settings=settings)


async def all_at_first(urls: list[str], user_ids: list[str]) -> None:
    """Make a memory whose users are all in the first database."""
    async with opened(urls[0]) as alone:
        for user_id in user_ids:
            await alone.user(user_id).add(f"{user_id} enjoys skiing")


def url_of(memory: MemorySystem, urls: list[str], user_id: str) -> str:
    caller: Any = memory._caller
    schema = caller.nodes[caller.at(user_id)].memory._eventlog._database.place.schema
    return next(url for url in urls if url.endswith(schema))


async def rows_of(url: str, stream: str, *tables: str) -> list[int]:
    """Return how many rows with bytes of a stream there are in tables of a database."""
    import psycopg

    base, _, schema = url.partition("?schema=")
    counts = []
    async with await psycopg.AsyncConnection.connect(base, autocommit=True) as connection:
        for table in tables:
            also = " AND payload IS NOT NULL" if table == "event" else ""
            query = f"SELECT count(*) FROM {schema}.{table} WHERE sid = %s{also}"
            [count] = await (await connection.execute(query, [stream_id(stream)])).fetchone()
            counts.append(count)
    return counts


async def cut_off(urls: list[str], user_id: str, to: str, step: str) -> None:
    """Begin to move a user's shard, up to a step of the move."""

    async def ended(_self):
        raise LogUnavailable("cut off")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shard_move.ShardMove, step, ended)
        with pytest.raises(LogUnavailable):
            await move_shards(urls, [shard_of(user_id)], to)
