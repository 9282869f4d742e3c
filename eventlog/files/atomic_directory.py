"""A new directory comes whole, or not at all: it is made under another name and then renamed.

Whoever dies meanwhile leaves a directory with `_MARK` in it, which the next one with the same wish
may remove; one of the user's own that happens to have that name has no mark and is left alone. The
mark goes after the rename: an empty file too many harms nobody, a directory that nobody may remove
would be in the way for ever.

A restore needs two renames: the old log goes aside, then the new one comes. Between the two there
is none, and whoever opened it would begin an empty one. Therefore the marker `_READY` says that the
new one is complete, and `finish_restore` does the second rename for a process that crashed before
it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eventlog.core.errors import LogUnavailable
from eventlog.files.datafile import (
    DIRECTORY_MODE,
    OWNER_ONLY,
    beside,
    lock,
    make_directory,
    storing,
    sync_to_disk,
    unlock,
)

LOG = "log.mdb"
"""The tables."""
ANCHOR = "log.anchor"
"""The end of the log: see anchor.py."""
ARCHIVE = "archive"
"""The directory of payloads that were moved out of the tables: see archive.py."""
RESTORING = ".restoring"
"""Suffix of a log that is being restored."""

_MARK = ".unfinished"
_READY = ".ready"


@contextmanager
def written(directory: Path, suffix: str) -> Iterator[Path]:
    """Give a new directory beside the wanted one; it is removed unless it was renamed.

    :raises LogUnavailable: it cannot be made.
    :raises DiskFull: what the system said of a write.
    :raises StorageFailed: what the system said of a write.
    """
    scratch = beside(directory, suffix)
    try:
        if (scratch / _MARK).exists() or _is_empty(scratch):
            _discard(scratch)  # of a process that died
        make_directory(directory.parent)
        scratch.mkdir(DIRECTORY_MODE)
        (scratch / _MARK).touch(OWNER_ONLY)
    except OSError as error:
        raise LogUnavailable(f"cannot make {scratch}: {error.strerror}") from error
    try:
        with storing(directory):
            yield scratch
    finally:
        with suppress(OSError):
            _discard(scratch)


def _is_empty(directory: Path) -> bool:
    return directory.is_dir() and not any(directory.iterdir())


def _discard(scratch: Path) -> None:
    """Remove a directory: first the mark that it is whole, last the mark that it may go."""
    (scratch / _READY).unlink(missing_ok=True)
    for path in scratch.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _MARK:
            path.unlink()
    (scratch / _MARK).unlink(missing_ok=True)
    scratch.rmdir()


def files_in(directory: Path) -> list[Path]:
    """Return every file that was put into a directory, sorted."""
    marks = {directory / _MARK, directory / _READY}
    return sorted(path for path in directory.rglob("*") if path.is_file() and path not in marks)


def say_ready(scratch: Path) -> None:
    """Note, for good, that a directory is whole and only has to be given its name."""
    _sync(scratch)
    (scratch / _READY).touch(OWNER_ONLY)
    sync_to_disk(scratch)


def put_in_place(scratch: Path, directory: Path) -> None:
    """Give a directory that is whole its name, for good, once all of it is on disk."""
    _sync(scratch)
    scratch.rename(directory)
    for mark in (_MARK, _READY):
        (directory / mark).unlink(missing_ok=True)
    sync_to_disk(directory)
    sync_to_disk(directory.parent)


def _sync(directory: Path) -> None:
    for path in [*directory.rglob("*"), directory]:
        sync_to_disk(path)


def finish_restore(directory: Path) -> None:
    """Put a restored log in its place, where a process died just before that.

    An empty directory there was made by an opening since then, and gives way.

    :raises LogUnavailable: it cannot be seen whether there is one, or moved there.
    """
    scratch = beside(directory, RESTORING)
    try:
        if (scratch / _READY).exists() and (not directory.exists() or _is_empty(directory)):
            put_in_place(scratch, directory)
    except OSError as error:
        raise LogUnavailable(f"cannot open {directory}: {error.strerror}") from error


@contextmanager
def held(directory: Path) -> Iterator[bool]:
    """Keep everybody out of a log; say whether there is one.

    :raises LogUnavailable: there is something else, or it cannot be written to.
    :raises LogLocked: somebody has it open.
    """
    try:
        fd = _locked(directory)
    except OSError as error:
        raise LogUnavailable(
            f"cannot use {directory}: {error.strerror}: make it writable, or name another directory"
        ) from error
    try:
        yield fd is not None
    finally:
        if fd is not None:
            unlock(fd)


def _locked(directory: Path) -> int | None:
    """Lock a log; or return None without one."""
    if _is_empty(directory):
        directory.rmdir()
    if not directory.exists():
        return None
    if not (directory / LOG).exists():
        raise LogUnavailable(f"{directory} holds something that is no log: name another directory")
    return lock(beside(directory / LOG, ".lock"))
