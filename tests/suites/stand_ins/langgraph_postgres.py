"""Stands in for `langgraph.store.postgres`, and for the databases that its tests make and drop."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any, Self

from memory_actors.integrations.langgraph import MemoryActorsStore
from suites.stand_ins import replace
from suites.stand_ins.langgraph_memory import embedder

DATABASES = TemporaryDirectory()


def directory_of(uri: str) -> Path:
    """Return the directory that is the database of a connection string."""
    return Path(DATABASES.name, uri.rpartition("/")[2].partition("?")[0])


def options(index: Any, ttl: Any) -> dict[str, Any]:
    """Return what our store is told."""
    if index is not None:
        index = {name: index[name] for name in ("dims", "embed", "fields") if name in index}
    return {"index": index, "ttl": ttl, "embedder": embedder()}


class Connection(AbstractContextManager["Connection"]):
    """To the server: its statements make a database, drop one, or are about tables."""

    @classmethod
    def connect(cls, _uri: str, **_how: Any) -> Self:
        return cls()

    def __exit__(self, *_error: object) -> None:
        pass

    def execute(self, statement: str) -> None:
        if statement.startswith("DROP DATABASE"):
            rmtree(directory_of(statement.split()[-1]), ignore_errors=True)


class AsyncConnection:
    """The same with `await`."""

    @classmethod
    async def connect(cls, _uri: str, **_how: Any) -> Self:
        return cls()

    __class_getitem__ = classmethod(lambda cls, _row: cls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def execute(self, statement: str) -> None:
        Connection().execute(statement)


class PostgresStore(MemoryActorsStore):
    """Ours over the memory without `await`."""

    MIGRATIONS: tuple[str, ...] = ()

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, uri: str, *, index: Any = None, ttl: Any = None, **_how: Any
    ) -> Iterator[Self]:
        with cls.open(directory_of(uri), **options(index, ttl)) as store:
            yield store

    def setup(self) -> None:
        """Do nothing: there are no tables."""

    def _cursor(self) -> Connection:
        return Connection()


class AsyncPostgresStore(MemoryActorsStore):
    """Ours on an event loop."""

    MIGRATIONS: tuple[str, ...] = ()

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, uri: str, *, index: Any = None, ttl: Any = None, **_how: Any
    ) -> AsyncIterator[Self]:
        async with cls.aopen(directory_of(uri), **options(index, ttl)) as store:
            yield store

    async def setup(self) -> None:
        """Do nothing: there are no tables."""

    def _cursor(self) -> AsyncConnection:
        return AsyncConnection()

    async def start_ttl_sweeper(self) -> None:  # type: ignore[override]
        super().start_ttl_sweeper()

    async def stop_ttl_sweeper(self) -> bool:  # type: ignore[override]
        return super().stop_ttl_sweeper()


def install() -> None:
    """Put them there, and names that are only of SQL: the tests of those are left out."""
    embedder()  # before the first item that expires
    stores = {"PostgresStore": PostgresStore, "AsyncPostgresStore": AsyncPostgresStore}
    sql = dict.fromkeys(("_escape_like_literal", "_namespace_match_pattern"))
    replace("psycopg", Connection=Connection, AsyncConnection=AsyncConnection)
    replace("psycopg.errors", UndefinedTable=LookupError)
    replace("psycopg.rows", DictRow=dict, dict_row=dict)
    replace("langgraph.store.postgres", **stores)
    replace("langgraph.store.postgres.base", **sql)
    replace("langgraph.checkpoint.postgres", _ainternal=None)
