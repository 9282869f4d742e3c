"""The directory of a log: its files, the anchor of its end, and how a new one comes whole.

LMDB believes the newer of its two meta pages that it can read, so a damaged one rolls the last
transaction back without a word. The anchor outside the file shows it: after each commit it gets the
position and chain value of the last event, and the number of the transaction, counted over all
files the log has had. At the next open that event must be there, and no later transaction may be
missing. The anchor is not synced with the commit (a second fsync would halve the throughput), so it
may lag after a power loss, and never leads. Two slots are written in turn against torn writes.

A new directory is made under another name and then renamed. Whoever dies meanwhile leaves a
directory with `_MARK` in it, which the next one with the same wish may remove; one of the user's
own that has that name has no mark and is left alone. The mark goes after the rename.

A restore needs two renames: the old log goes aside, then the new one comes. Whoever opened the log
between the two would begin an empty one. Therefore `_READY` says that the new one is complete, and
`finish_restore` does the second rename for a process that crashed before it.
"""

import fcntl
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from eventlog.core.errors import LogUnavailable
from eventlog.core.logs import get_logger
from eventlog.files import datafile

LOG = "log.mdb"
"""The tables."""
ANCHOR = "log.anchor"
"""The end of the log."""
ARCHIVE = "archive"
"""The directory of payloads that were moved out of the tables: see archive.py."""
RESTORING = ".restoring"
"""Suffix of a log that is being restored."""

_MARK = ".unfinished"
_READY = ".ready"

_SLOT = struct.Struct(">QQ32s")
_CRC_BYTES = 4
SLOTS = 2

_logger = get_logger("eventlog")


class Tail(NamedTuple):
    """The end of a log. Compares by transaction."""

    transaction: int = 0
    position: int = 0
    chain: bytes = b""

    @property
    def is_known(self) -> bool:
        """True if anything was ever committed, as far as the anchor can be read."""
        return self.transaction > 0


class Anchor:
    """The last tail known to be committed."""

    def __init__(self, path: Path):
        try:
            self._fd = datafile.open_regular(path, os.O_RDWR | datafile.MADE)
        except OSError as error:
            raise LogUnavailable(
                f"cannot open {path}: {error.strerror}{datafile.advice(error)}"
            ) from error
        self._turn = 0

    def read(self) -> Tail:
        """Return the newest whole slot, `Tail()` if there is none."""
        size = _SLOT.size + _CRC_BYTES
        return max(_unpack(os.pread(self._fd, size, turn * size)) for turn in range(SLOTS))

    def write(self, tail: Tail) -> None:
        """Remember a commit. A failure is logged: the anchor then lags, and the log goes on."""
        data = _SLOT.pack(*tail)
        data += zlib.crc32(data).to_bytes(_CRC_BYTES, "big")
        self._turn = (self._turn + 1) % SLOTS
        try:
            os.pwrite(self._fd, data, self._turn * len(data))
        except OSError as error:
            _logger.warning("anchor not written", error=str(error))

    def close(self) -> None:
        """Sync and close. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            os.fsync(fd)
        except OSError as error:
            _logger.warning("anchor not synced", error=str(error))
        finally:
            os.close(fd)


def read_anchor(path: Path) -> Tail:
    """Return the content of the anchor at a path, and close it. It is made if it is missing."""
    anchor = Anchor(path)
    try:
        return anchor.read()
    finally:
        anchor.close()


def _unpack(data: bytes) -> Tail:
    content, crc = data[:-_CRC_BYTES], data[-_CRC_BYTES:]
    if len(content) != _SLOT.size or zlib.crc32(content).to_bytes(_CRC_BYTES, "big") != crc:
        return Tail()
    transaction, position, chain = _SLOT.unpack(content)
    return Tail(transaction, position, chain if position else b"")


class ClosedLog:
    """The log in a directory, which is looked at and never opened."""

    def __init__(self, directory: Path):
        self.path = directory / LOG
        """Its file."""
        self.anchor = directory / ANCHOR
        """The file that says how far it had got, so that lost commits show."""
        self._lock = directory / f"{LOG}.lock"

    @property
    def size_bytes(self) -> int:
        """The size of its file; 0 if there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    def owner(self) -> str | None:
        """Return its owner and opening time, or None. Takes the lock briefly, shared."""
        try:
            with datafile.opened(self._lock) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return datafile.holder(file.fileno())
        except FileNotFoundError:
            pass
        return None

    def check(self) -> None:
        """Look at the pages of its file as opening does, and not at what they say.

        :raises CorruptLog: one is damaged or missing.
        """
        from eventlog.files.pages import check_file  # numpy, which most callers do not need

        check_file(self.path)


# --- whole, or not at all


def link_target(directory: Path) -> Path:
    """Return the target of a symbolic link: a log can replace a directory, not a link."""
    return Path(os.path.realpath(directory)) if directory.is_symlink() else directory


@contextmanager
def written(directory: Path, suffix: str) -> Iterator[Path]:
    """Give a new directory beside the wanted one; it is removed unless it was renamed.

    :raises LogUnavailable: it cannot be made.
    :raises DiskFull, StorageFailed: what the system said of a write.
    """
    scratch = datafile.beside(directory, suffix)
    try:
        if (scratch / _MARK).exists() or _is_empty(scratch):
            _discard(scratch)  # of a process that died
        datafile.make_directory(directory.parent)
        scratch.mkdir(datafile.DIRECTORY_MODE)
        (scratch / _MARK).touch(datafile.OWNER_ONLY)
    except OSError as error:
        raise LogUnavailable(f"cannot make {scratch}: {error.strerror}") from error
    try:
        with datafile.storing(directory):
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


def say_ready(scratch: Path) -> None:
    """Note, for good, that a directory is whole and only has to be given its name."""
    _sync(scratch)
    (scratch / _READY).touch(datafile.OWNER_ONLY)
    datafile.sync_to_disk(scratch)


def put_in_place(scratch: Path, directory: Path) -> None:
    """Give a directory that is whole its name, for good, once all of it is on disk."""
    _sync(scratch)
    scratch.rename(directory)
    for mark in (_MARK, _READY):
        (directory / mark).unlink(missing_ok=True)
    datafile.sync_to_disk(directory)
    datafile.sync_to_disk(directory.parent)


def _sync(directory: Path) -> None:
    for path in [*directory.rglob("*"), directory]:
        datafile.sync_to_disk(path)


def finish_restore(directory: Path) -> None:
    """Put a restored log in its place, where a process died just before that.

    An empty directory there was made by an opening since then, and gives way.

    :raises LogUnavailable: it cannot be seen whether there is one, or moved there.
    """
    directory = link_target(directory)
    scratch = datafile.beside(directory, RESTORING)
    try:
        if (scratch / _READY).exists() and (not directory.exists() or _is_empty(directory)):
            put_in_place(scratch, directory)
    except OSError as error:
        raise LogUnavailable(
            f"cannot open {directory}: {error.strerror}{datafile.advice(error)}"
        ) from error


@contextmanager
def held(directory: Path) -> Iterator[bool]:
    """Keep everybody out of a log; say whether there is one.

    :raises LogUnavailable: there is something else, or it cannot be written to.
    :raises LogLocked: somebody has it open.
    """
    fd = None
    try:
        if _is_empty(directory):
            directory.rmdir()
        if directory.exists():
            if not (directory / LOG).exists():
                raise LogUnavailable(
                    f"{directory} holds something that is no log: name another directory"
                )
            fd = datafile.lock(datafile.beside(directory / LOG, ".lock"))
    except OSError as error:
        raise LogUnavailable(
            f"cannot use {directory}: {error.strerror}: make it writable, or name another directory"
        ) from error
    try:
        yield fd is not None
    finally:
        if fd is not None:
            datafile.unlock(fd)
