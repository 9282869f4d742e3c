"""The files of a store, without LMDB: opened, locked, written whole, synced, removed.

The lock is an flock on a file beside the data: LMDB alone lets two processes overwrite each other's
work. A rename is durable when its directory has been synced.

Directories of a store are for their owner alone, as files are (`open_regular`), whatever the umask.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, cast

from eventlog.core.errors import DiskFull, LogLocked, LogUnavailable, StorageFailed

# --- opening a file of a store: the file must be a regular one
#
# Opening a pipe may block for ever, and a device may be endless. Therefore every file of a store is
# opened here, without a wait, and its type is checked before anything is read. A file that is read
# may be reached by a symbolic link, as mounted secrets are. A file that is made or overwritten in
# place may not (`O_NOFOLLOW`): its content would go into somebody else's.


OWNER_ONLY = 0o600
MADE = os.O_CREAT | os.O_NOFOLLOW
"""Flags for a file that is made where it is missing."""
ANEW = os.O_WRONLY | os.O_TRUNC | MADE
"""Flags for one that is written from its beginning."""

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)


class NotARegularFile(OSError):
    """Something else has the name of a file: move it away."""

    def __init__(self, path: Path, what: str):
        super().__init__(errno.EINVAL, f"it is {what} and not a file: move it away", str(path))


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Return the descriptor of a regular file. Never waits.

    :raises NotARegularFile: it is something else.
    :raises OSError: what the system says.
    """
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, OWNER_ONLY)
    except OSError as error:
        what = ""
        with suppress(OSError, ValueError):  # the cause is another one
            what = _kind(path.stat(follow_symlinks=not flags & os.O_NOFOLLOW).st_mode)
        if what:
            raise NotARegularFile(path, what) from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise NotARegularFile(path, _kind(mode))
    return fd


def opened(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Return a regular file as an object, to be read or written as `flags` say."""
    way = {os.O_RDONLY: "rb", os.O_WRONLY: "wb", os.O_RDWR: "r+b"}[flags & os.O_ACCMODE]
    return cast("BinaryIO", os.fdopen(open_regular(path, flags), way))


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file. Raises as `open_regular` does."""
    with opened(path) as file:
        return file.read()


def _kind(mode: int) -> str:
    return next((what for is_so, what in _KINDS if is_so(mode)), "")


# --- written whole, locked, synced, removed

DIRECTORY_MODE = 0o700
TEMPORARY = ".tmp"  # behind the name of a file that is not finished
FULL_BELOW_BYTES = 16 << 20  # more than the pages of one batch: less free explains a failed write

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+)://")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def named(directory: str | Path) -> Path:
    """Return the path of a directory with a name of its own, beside which files can go.

    `.` and `..` become absolute, others stay as they are.

    :raises LogUnavailable: it has none: nothing was named, the root, or what no name can be.
    """
    if not str(directory):
        raise LogUnavailable("no directory is named: name one")
    path = Path(directory)
    if (scheme := _SCHEME.match(str(directory))) is not None:
        raise LogUnavailable(f"a {scheme[1]} URL is no directory: name one")
    is_there(path)
    if path.name in ("", ".."):
        path = path.resolve()
    if not path.name:
        raise LogUnavailable(f"{path} cannot be a store: name a directory in it")
    return path


def is_there(path: Path) -> bool:
    """Say whether there is something of a name.

    :raises LogUnavailable: there cannot be.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise LogUnavailable(
            f"cannot use {str(path)!r:.200}: {reason(error)}: give it another name"
        ) from error
    return True


def reason(error: OSError | ValueError) -> str:
    """Say why a file cannot be used; a name that the system does not take is a `ValueError`."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file that goes with a data file."""
    return path.with_name(path.name + suffix)


def reserve_readers(path: Path) -> None:
    """Give LMDB's table of readers its blocks: it is mapped, and a full disk would be a SIGBUS."""
    fd = open_regular(path, os.O_RDWR | MADE)
    try:
        os.posix_fallocate(fd, 0, 4 * 4096)
    finally:
        os.close(fd)


def lock(path: Path) -> int:
    """Return the descriptor of a file that is locked and says which process holds it, since when.

    :raises LogLocked: another one does, or this one.
    """
    make_directory(path.parent)
    fd = open_regular(path, os.O_RDWR | MADE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        who = holder(fd)
        os.close(fd)
        raise LogLocked(
            f"{path.parent} is open in {who}: close it there, or use another directory"
        ) from error
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {int(time.time())}\n".encode(), 0)
    except OSError:
        pass  # it only tells others who holds the lock
    _locked.add(fd)
    return fd


def holder(fd: int) -> str:
    """Return the holder of a lock and its start time, from a file that may be outdated."""
    pid, _, since_s = os.pread(fd, 40, 0).decode(errors="replace").strip().partition(" ")
    who = f"process {pid or 'unknown'}"
    try:
        since = datetime.fromtimestamp(int(since_s), UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return who
    return f"{who} since {since:%Y-%m-%d %H:%M:%S}"


def unlock(fd: int) -> None:
    """Give a lock up, even if a forked child holds a copy of the descriptor."""
    _locked.discard(fd)
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


_locked: Final[set[int]] = set()


def _let_go() -> None:
    """Close the locks of a forked child's parent: else they would outlive the parent in it."""
    while _locked:
        os.close(_locked.pop())


os.register_at_fork(after_in_child=_let_go)


def make_directory(path: Path) -> None:
    """Make a directory, for its owner alone, and those above it, for good, where they are missing.

    One that is there keeps the mode that it was given.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    for each in missing:
        sync_to_disk(each.parent)


def sync_to_disk(path: Path) -> None:
    """Make a file durable; of a directory, what was created, renamed and removed in it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def written_whole(path: Path, *, contested: bool = False) -> Iterator[BinaryIO]:
    """Give a file to write to, and put it at `path` when the block is left: whole, and durable.

    The old content stays until then, even after an error. It is readable by its owner only. An
    unfinished file is removed, unless the process dies: this is `<name>.tmp`, and the next one
    writes over it, so that what it holds of a secret goes as well. Therefore one may write at a
    time; where others may, who know nothing of each other, the file is `contested` and each one has
    a name of its own.
    """
    temporary = beside(path, (f".{secrets.token_hex(8)}" if contested else "") + TEMPORARY)
    file = opened(temporary, ANEW | os.O_EXCL if contested else ANEW)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_to_disk(path.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file so that it is there whole, whatever happens, or as it was before."""
    with written_whole(path) as file:
        file.write(data)


def remove_named(directory: Path, wanted: Callable[[str], bool]) -> int:
    """Remove the files of a directory whose names are wanted, for good; return how many there were.

    :raises StorageFailed: it cannot be looked into, or a file cannot be removed: says what is left.
    """
    try:
        left = [name for name in os.listdir(directory) if wanted(name)]  # noqa: PTH208 - names
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise StorageFailed(
            f"{directory} cannot be looked into ({error.strerror}), so nothing in it was removed: "
            "make it a directory that may be read and written, then repeat this"
        ) from error
    count = len(left)
    try:
        while left:
            (directory / left[-1]).unlink(missing_ok=True)
            left.pop()
        sync_to_disk(directory)
    except OSError as error:
        raise StorageFailed(
            f"{len(left)} of {count} files are left in {directory} and cannot be removed for good "
            f"({error}), such as {left[-1:]}: mend that, then repeat this"
        ) from error
    return count


def bytes_under(directory: Path) -> int:
    """Return the size of the files in a directory, as far as they are readable."""
    total = 0
    for path in directory.rglob("*"):
        with suppress(OSError):  # it was replaced or removed meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def free_bytes(directory: Path) -> int:
    """Return how much may still be written to the disk that a directory is on."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def check_disk(directory: Path, needed_bytes: int, what: str) -> None:
    """Refuse work that the disk has no room for, before it begins.

    :raises DiskFull: it has not.
    """
    free = free_bytes(directory)
    if free < needed_bytes:
        raise DiskFull(
            f"{what} needs {needed_bytes:,} bytes and {directory} has {free:,} free: "
            "free some, try again"
        )


def means_no_room(error: Exception) -> bool:
    """Say whether the system refused a write for want of room.

    An `lmdb.Error` has the system's error number, where it has one, in `code`.
    """
    return (getattr(error, "code", None) or getattr(error, "errno", None)) in _NO_ROOM


LIMITS: Final = {
    os.strerror(errno.EMFILE): "raise the number of files that a process may open (`ulimit -n`)",
    os.strerror(errno.ENFILE): "raise the number of files that all processes may open",
    os.strerror(errno.ENOMEM): "the log takes 1 TiB of addresses, not of memory: lift the limit on "
    "them (`ulimit -v unlimited`)",
    "can't start new thread": "raise the number of threads that a user may have (`ulimit -u`)",
    "home directory": "set HOME to a directory that you may write to",
    "No usable temporary directory": "set TMPDIR to a directory that you may write to",
}


def advice(error: BaseException) -> str:
    """Return advice if an error names a limit of the process, or what it lacks, else ""."""
    said = str(error)
    return next((f": {what}" for sign, what in LIMITS.items() if sign in said), "")


@contextmanager
def within_limits(what: object) -> Iterator[None]:
    """Name the limit of the process that an opening has reached.

    :raises LogUnavailable: it has met one.
    """
    try:
        yield
    except (OSError, RuntimeError, MemoryError) as error:
        if type(error).__module__ != "builtins" or not (how := advice(error)):
            raise
        raise LogUnavailable(f"cannot open {what}: {error}{how}") from error


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Translate the system's refusal of a write to a file or a directory.

    :raises DiskFull: there is no room for it.
    :raises StorageFailed: the disk failed.
    """
    try:
        yield
    except OSError as error:
        if means_no_room(error):
            raise DiskFull(f"no space left for {path}: free some, try again") from error
        raise StorageFailed(f"writing {path} failed: {error}") from error


def explains_no_room(path: Path, error: Exception) -> bool:
    """Say whether a full disk explains `error`: LMDB reports a short write as EIO."""
    return means_no_room(error) or free_bytes(path.parent) < FULL_BELOW_BYTES
