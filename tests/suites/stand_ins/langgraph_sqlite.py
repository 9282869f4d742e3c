"""Stands in for `langgraph.store.sqlite`: what its tests take for a file is a directory of ours."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Self

from langgraph.store.base import IndexConfig

from memory_actors.integrations.langgraph import MemoryActorsStore
from suites.stand_ins import replace
from suites.stand_ins.langgraph_memory import embedder


def index_of(config: Any) -> IndexConfig | None:
    """Return what our store is told: `fields` are `text_fields` there."""
    if config is None:
        return None
    return {"dims": config["dims"], "embed": config["embed"], "fields": config.get("text_fields")}


class SqliteStore(MemoryActorsStore):
    """Ours over the memory without `await`."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, _name: str, *, index: Any = None, ttl: Any = None) -> Iterator[Self]:
        options = {"index": index_of(index), "ttl": ttl, "embedder": embedder()}
        with TemporaryDirectory() as directory, cls.open(directory, **options) as store:
            yield store

    def setup(self) -> None:
        """Do nothing: there are no tables."""


class AsyncSqliteStore(MemoryActorsStore):
    """Ours on an event loop."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, _name: str, *, index: Any = None, ttl: Any = None
    ) -> AsyncIterator[Self]:
        options = {"index": index_of(index), "ttl": ttl, "embedder": embedder()}
        with TemporaryDirectory() as directory:
            async with cls.aopen(directory, **options) as store:
                yield store

    async def setup(self) -> None:
        """Do nothing: there are no tables."""

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        return await self.asweep_ttl()

    async def start_ttl_sweeper(self) -> None:  # type: ignore[override]
        super().start_ttl_sweeper()

    async def stop_ttl_sweeper(self) -> bool:  # type: ignore[override]
        return super().stop_ttl_sweeper()


def install() -> None:
    """Put them there, and names that are only of SQL: the tests of those are left out."""
    embedder()  # before the first item that expires
    stores = {"SqliteStore": SqliteStore, "AsyncSqliteStore": AsyncSqliteStore}
    sql = ("NS_MATCH_FUNCTION", "_escape_glob_literal", "_namespace_match_pattern")
    more = dict.fromkeys((*sql, "BaseSqliteStore"))
    replace("langgraph.store.sqlite", **stores)
    replace("langgraph.store.sqlite.base", SqliteIndexConfig=IndexConfig, **stores, **more)
    replace("langgraph.store.sqlite.aio", AsyncSqliteStore=AsyncSqliteStore)
