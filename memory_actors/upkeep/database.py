"""The log of a store that is in a database: `PgEventStore`. No other file names it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from eventlog import EventStore, Keys, PgEventStore
from memory_actors.base.settings import Settings
from memory_actors.kinds.user_state import event_registry


class LogInDatabase:
    """Opens the log at a URL, as `open_log` does that of a directory."""

    def __init__(self, url: str):
        self._url = url

    @asynccontextmanager
    async def __call__(
        self, _directory: Path, keys: Keys | None, clock: Callable[[], int], _settings: Settings
    ) -> AsyncIterator[EventStore]:
        """Open it, and close it at the end of the block. Raises as `PgEventStore.open` does."""
        async with PgEventStore.open(self._url, event_registry(), clock=clock, keys=keys) as log:
            yield log
