"""The directory of a store, and which log is in it.

The log is `EventLog`, on LMDB, unless the choices of its opener name another; no other file names
it. Another log is a function like `open_log`, in a file of its own, over a store that passes
tests/contracts; `wired` in api/wiring.py takes it. Work on a closed store (offline/) is work on
the files of this log.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from eventlog import EventLog, Keys, system_clock_us
from eventlog.files.atomic_directory import finish_restore
from eventlog.files.closed_log import ClosedLog
from memory_actors.base.errors import StoreBusyError
from memory_actors.base.settings import Settings
from memory_actors.kinds.user_state import event_registry


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
    """Return what can be told of a log without opening it."""
    return ClosedLog(directory)
