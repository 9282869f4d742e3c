"""Opening a file of a store: a regular file, and nothing that stands in its place.

A pipe lets whoever opens it wait for ever, a device may be endless, a directory fails later and in
another way each time. So every file of a store is opened here, whoever reads or writes it: without
a wait, and then it is looked at before anything is read. What is refused is an `OSError`, as what
the system refuses is, so that each caller says in its own words which work cannot be done.

A file that is read may be reached by a symbolic link: keys lie behind one where a machine mounts
its secrets. A file that is made or overwritten in place may not (`O_NOFOLLOW`): its content would
go into somebody else's.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

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
        what = _other_kind(path, flags)
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
    """Return what is in a regular file. Raises as `open_regular` does."""
    with opened(path) as file:
        return file.read()


def _other_kind(path: Path, flags: int) -> str:
    """Say what is in the place of a file that could not be opened, empty if that is not why."""
    try:
        return _kind(path.stat(follow_symlinks=not flags & os.O_NOFOLLOW).st_mode)
    except (OSError, ValueError):
        return ""


def _kind(mode: int) -> str:
    return next((what for is_so, what in _KINDS if is_so(mode)), "")
