"""The place of a store, and which log is there: no other file names one.

In a directory it is `EventLog`, on LMDB; in a database it is `PgEventStore`, which is imported
where it is used, as its driver is an extra. Another log is a function like `open_log` over a store
that passes tests/contracts; `wired` in api/wiring.py takes it. Work on a closed store (offline/) is
work on the files of the log in a directory.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from eventlog import EventLog, EventRegistry, EventStore, Keys, SettingStore, system_clock_us
from eventlog.files.log_directory import ClosedLog, finish_restore
from memory_actors.base.errors import StoreBusyError
from memory_actors.base.settings import Settings
from memory_actors.kinds.effects import text_bytes
from memory_actors.kinds.user_state import PARTS
from memory_actors.users import recalls


def event_registry() -> EventRegistry:
    """Return a registry of every event that the streams of a store may hold."""
    registry = EventRegistry(text_bytes=text_bytes)
    for one in (recalls.registry, *(part.registry for part in PARTS)):
        registry.include(one)
    return registry


def open_log(
    directory: Path,
    keys: Keys | None,
    clock: Callable[[], int] = system_clock_us,
    settings: Settings | None = None,
) -> AbstractAsyncContextManager[EventLog]:
    """Open the log in a data directory, and close it at the end of the block.

    `keys` are those that users' memories are under; None: the store is not encrypted. Raises as
    `EventLog.open` does.
    """
    settings = settings or Settings()
    return EventLog.open(
        directory,
        event_registry(),
        clock=clock,
        size_max_bytes=settings.log_bytes_max,
        checked_bytes_max=settings.checked_bytes_max,
        keys=keys,
        busy=StoreBusyError,
    )


def has_log(directory: Path) -> bool:
    """Say whether there is a log in a directory; first finish a restore that was cut short.

    :raises LogUnavailable: the directory cannot be used.
    """
    finish_restore(directory)
    return closed_log(directory).path.exists()


def closed_log(directory: Path) -> ClosedLog:
    """Return the closed log of a directory, which answers some questions without opening it."""
    return ClosedLog(directory)


# --- in a database


def has_store_at(url: str) -> bool:
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
