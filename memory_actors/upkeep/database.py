"""The log of a store that is in a database: `PgEventStore`. No other file names it.

It is imported where it is used: its driver is an extra, and most stores are in directories.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from eventlog import EventStore, Keys, SettingStore
from memory_actors.base.settings import Settings
from memory_actors.kinds.user_state import event_registry


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
    from eventlog import PgEventStore

    async with PgEventStore.open(url, event_registry()) as store:
        yield store


class LogInDatabase:
    """Opens the log at a URL, as `open_log` does that of a directory."""

    def __init__(self, url: str):
        self._url = url

    @asynccontextmanager
    async def __call__(
        self, _directory: Path, keys: Keys | None, clock: Callable[[], int], _settings: Settings
    ) -> AsyncIterator[EventStore]:
        """Open it, and close it at the end of the block. Raises as `PgEventStore.open` does."""
        from eventlog import PgEventStore

        async with PgEventStore.open(self._url, event_registry(), clock=clock, keys=keys) as log:
            yield log
