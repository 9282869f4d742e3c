"""The implementations of the port that the contract is tested over, and events to put in them."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from support.in_memory_log import InMemoryLog
from support.postgres import lent_url

from eventlog import Decider, Environment, EventLog, EventRegistry, EventStore
from eventlog.keys import keyfile
from eventlog.lmdb.tables import TABLES

registry = EventRegistry()
FOREVER = 2**62
COUNT: Decider[Any, Any, int] = Decider(
    0, lambda _command, _state: (), lambda state, _event: state + 1
)


@registry.event("test.noted", keys=lambda event: event.about)
class Noted(msgspec.Struct, frozen=True):
    text: str
    about: tuple[str, ...] = ()
    detail: Any = None


@registry.event("test.counted")
class Counted(msgspec.Struct, frozen=True):
    count: int


@registry.event("test.keyed", keys=lambda event: [event.key or event.text[:3]])
class Keyed(msgspec.Struct, frozen=True):
    text: str
    key: str = ""


def opened(path: Path, **options: Any) -> AbstractAsyncContextManager[EventLog]:
    """Open a log of these events."""
    return EventLog.open(path, registry, **options)


def changed(path: Path, change: Callable[[Environment, Any], object]) -> None:
    """Change rows of a closed log past its rules, with CRCs that hold."""
    env = Environment(path / "log.mdb", TABLES)
    env.write(lambda txn: change(env, txn))
    env.close()


@asynccontextmanager
async def _lmdb(path: Path, clock: Callable[[], int]) -> AsyncIterator[EventStore]:
    async with EventLog.open(path / "log", registry, clock=clock) as log:
        yield log


@asynccontextmanager
async def _encrypted(path: Path, clock: Callable[[], int]) -> AsyncIterator[EventStore]:
    with keyfile.opened(path / "log.keys") as keys:
        async with EventLog.open(path / "log", registry, clock=clock, keys=keys) as log:
            yield log


@asynccontextmanager
async def _memory(_path: Path, clock: Callable[[], int]) -> AsyncIterator[EventStore]:
    log = InMemoryLog(registry, clock=clock)
    yield log
    log.close()


@asynccontextmanager
async def _postgres(_path: Path, clock: Callable[[], int]) -> AsyncIterator[EventStore]:
    with lent_url() as url:
        from eventlog import PgEventStore

        async with PgEventStore.open(url, registry, clock=clock) as log:
            yield log


@asynccontextmanager
async def _encrypted_postgres(path: Path, clock: Callable[[], int]) -> AsyncIterator[EventStore]:
    with lent_url() as url, keyfile.opened(path / "log.keys") as keys:
        from eventlog import PgEventStore

        async with PgEventStore.open(url, registry, clock=clock, keys=keys) as log:
            yield log


STORES = {
    "lmdb": _lmdb,
    "encrypted": _encrypted,
    "memory": _memory,
    "postgres": _postgres,
    "encrypted postgres": _encrypted_postgres,
}


def open_store(name: str, path: Path) -> AbstractAsyncContextManager[EventStore]:
    """Return a context manager that opens a new store whose clock counts 1000, 1001, ..."""
    ticks = itertools.count(1000)
    return STORES[name](path, lambda: next(ticks))
