"""Errors of the log, and bugs, in this package's terms: by what the caller does next."""

from eventlog import DiskFull, EventLogError, IdempotencyConflict, InvalidAppend
from memory_actors.base.errors import (
    CommandCrashedError,
    InvalidInputError,
    MemoryActorsError,
    StorageFullError,
    UnavailableError,
)


def unavailable(error: EventLogError) -> MemoryActorsError:
    """Return an error of the log in this package's terms: by what the caller does next."""
    kind: type[MemoryActorsError] = UnavailableError
    if isinstance(error, IdempotencyConflict | InvalidAppend):
        kind = InvalidInputError
    elif isinstance(error, DiskFull):
        kind = StorageFullError
    translated = kind(f"the log refused the write: {error}")
    translated.__cause__ = error
    return translated


def crashed(error: Exception) -> CommandCrashedError:
    """Return what a caller is told of an exception that should not have been."""
    translated = CommandCrashedError(f"the command crashed: {error!r}; nothing of it was kept")
    translated.__cause__ = error
    return translated
