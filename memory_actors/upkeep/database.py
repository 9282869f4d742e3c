"""The log of a store that is in a database: `PgEventStore`. No other file names it.

It is imported where it is used: its driver is an extra, and most stores are in directories.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from eventlog import EventRegistry, EventStore, Keys, SettingStore, system_clock_us
from memory_actors.base.settings import Settings
from memory_actors.kinds.user_state import event_registry

if TYPE_CHECKING:
    from eventlog import PgEventStore


def has_store(url: str) -> bool:
    """Say whether there is a store in a database, and make none. It blocks.

    :raises LogUnavailable: the database cannot be reached.
    :raises MissingExtra: its driver is not installed.
    """
    from eventlog.postgres.database import look

    return look(url).store_format is not None


@asynccontextmanager
async def settings_in(url: str) -> AsyncIterator[SettingStore]:
    """Hold the settings of a store in a database, made if missing, for a block."""
    async with _opened(url, event_registry()) as store:
        yield store


def store_in(
    url: str, shard_of: Callable[[str], int]
) -> "AbstractAsyncContextManager[PgEventStore]":
    """Hold a store that is one of several open, to read it."""
    return _opened(url, event_registry(), shard_of=shard_of)


class LogInDatabase:
    """Opens the log at a URL, as `open_log` does that of a directory."""

    def __init__(self, url: str, shard_of: Callable[[str], int] | None = None):
        """Take a URL, and what says the shard of a stream, if the store is one of several."""
        self._url = url
        self._shard_of = shard_of

    @asynccontextmanager
    async def __call__(
        self, _directory: Path, keys: Keys | None, clock: Callable[[], int], _settings: Settings
    ) -> AsyncIterator[EventStore]:
        """Open it, and close it at the end of the block. Raises as `PgEventStore.open` does."""
        async with _opened(self._url, event_registry(), clock, keys, self._shard_of) as log:
            yield log


def _opened(
    url: str,
    registry: EventRegistry,
    clock: Callable[[], int] = system_clock_us,
    keys: Keys | None = None,
    shard_of: Callable[[str], int] | None = None,
) -> "AbstractAsyncContextManager[PgEventStore]":
    from eventlog import PgEventStore

    return PgEventStore.open(url, registry, clock=clock, keys=keys, shard_of=shard_of)
