"""One file of text: read with care, replaced in one step, never over what somebody just wrote.

Theory. Between reading a file and replacing it, people save. Therefore the check follows the
replacement: the new file and the old one swap names in one system call (`renameat2`), and what came
out is compared with what was read. If it is something else, or somebody has it open for writing,
the two swap back, and the caller reads again. On systems without such a call, the old file gets a
second name before it is replaced, and is compared after it.

A new text is on the disk before it gets the name. Scratch files say in their names what they may
hold, and only such a one is ever removed, at once or by a later sync; what else comes out under a
scratch name is somebody's, and stays.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import secrets
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from eventlog.files.datafile import NotARegularFile, opened, read_bytes, sync_to_disk
from memory_actors.base.errors import ContextFileError, InvalidInputError

FILE_BYTES_MAX = 128 << 10  # ten times what the default limit lets into a prompt
NEW_FILE_MODE = 0o600  # it quotes memories: who wants others to read it says so
BUSY_S, LOOK_AGAIN_S = 0.2, 0.02  # an editor is done with a small file by then
SCRATCH = r"\.[0-9a-f]{16}\.[0-9a-f]{16}\.[0-9a-f]{8}\.(?:tmp|new)"
LEFT_BEHIND_S = 60.0  # no sync takes that long: older scratch files have no process any more
RENAME_EXCHANGE = 2
AT_FDCWD = -100


class Seen(NamedTuple):
    """A file as it was read; `data` None: there was none."""

    path: Path
    data: bytes | None

    @property
    def text(self) -> str | None:
        """Return its text.

        :raises ContextFileError: it is not UTF-8.
        """
        try:
            return None if self.data is None else self.data.decode()
        except UnicodeDecodeError as error:
            raise ContextFileError(
                f"{self.path} is not UTF-8 (byte {error.start:,}): save it as that, then sync again"
            ) from error


def read(path: Path, bytes_max: int = FILE_BYTES_MAX) -> Seen:
    """Read a file, through symbolic links.

    :raises ContextFileError: it is no regular file, too large, or cannot be read.
    """
    real = real_path(path)
    try:
        return Seen(real, _data(real, bytes_max))
    except FileNotFoundError:
        if not real.parent.is_dir():
            raise ContextFileError(
                f"there is no directory {real.parent}: make it, or name another file"
            ) from None
        return Seen(real, None)
    except OSError as error:
        raise ContextFileError(f"{path} could not be read: {error}") from error


def real_path(path: str | Path) -> Path:
    """Return where a path leads, through symbolic links.

    :raises InvalidInputError: it is no path.
    :raises ContextFileError: it leads in a circle, or no file can have such a name.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"path must be a string or a Path, not {type(path).__name__}")
    try:
        real = Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ContextFileError(f"{str(path)!r:.80} leads to no file: {error}") from error
    if real.is_symlink():  # from Python 3.13 on, links in a circle are left as they are
        raise ContextFileError(f"{str(path)!r:.80} leads to no file: its links lead in a circle")
    return real


def mode_of(path: Path) -> int:
    """Return the permissions of a file; for a missing file, those of a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return NEW_FILE_MODE


def _data(path: Path, bytes_max: int) -> bytes:
    try:
        with opened(path) as file:
            data = file.read(bytes_max + 1)
    except NotARegularFile as error:
        raise ContextFileError(
            f"{path} is not a file: name a text file, such as MEMORY.md"
        ) from error
    if len(data) > bytes_max:
        raise ContextFileError(
            f"{path} is larger than {bytes_max:,} bytes: move most of it elsewhere"
        )
    return data


def replace(seen: Seen, text: str, mode: int | None = None) -> bool:
    """Put a text in the place of what was read; return False if that is no longer there.

    The file gets `mode`, or keeps the one it has, and where possible its owner. A new one is for
    its owner alone.

    :raises ContextFileError: it cannot be written, is read-only, or another program keeps it open
        for writing.
    """
    _check_free(seen)
    scratch = _scratch(seen, text.encode())
    try:
        _write(scratch, text.encode(), seen, mode)
        done = _create(scratch, seen) if seen.data is None else _swap(scratch, seen, seen.data)
        sync_to_disk(seen.path.parent)
    except FileNotFoundError:  # it went in the meantime
        return False
    except OSError as error:
        raise ContextFileError(f"{seen.path} could not be written: {error}") from error
    finally:
        _discard(scratch)
    return done


def _check_free(seen: Seen) -> None:
    """Refuse a file that is read-only, or that a program holds open for writing all along."""
    if seen.data is None or not seen.path.exists():
        return
    if not os.access(seen.path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise ContextFileError(f"{seen.path} is read-only: make it writable, or name another file")
    until_s = time.monotonic() + BUSY_S
    while _is_open_for_writing(seen.path):
        if time.monotonic() > until_s:
            raise ContextFileError(
                f"{seen.path} is open for writing in another program: close it there, then try "
                "again"
            )
        time.sleep(LOOK_AGAIN_S)


def _is_open_for_writing(path: Path) -> bool:
    with suppress(OSError), opened(path) as file:
        return _has_writers(file.fileno())
    return False


# --- scratch files


def sweep(path: Path) -> None:
    """Remove what a replacement whose process died has left beside a file."""
    ours = re.compile(re.escape(f".{path.name}") + SCRATCH)
    with suppress(OSError):
        for leftover in [one for one in path.parent.iterdir() if ours.fullmatch(one.name)]:
            with suppress(OSError):
                if time.time() - leftover.stat().st_ctime > LEFT_BEHIND_S:
                    _discard(leftover)


def _scratch(seen: Seen, ours: bytes) -> Path:
    """Return a name for a file that may hold what was read, or our text."""
    holds = ".".join(hashlib.sha256(data or b"").hexdigest()[:16] for data in (seen.data, ours))
    return seen.path.with_name(f".{seen.path.name}.{holds}.{secrets.token_hex(4)}.tmp")


def _discard(scratch: Path) -> None:
    """Remove a scratch file, unless it alone holds something else than its name says."""
    with suppress(FileNotFoundError):
        known = scratch.suffix == ".new" or scratch.stat().st_nlink > 1
        if known or hashlib.sha256(read_bytes(scratch)).hexdigest()[:16] in scratch.name:
            scratch.unlink()


def _write(scratch: Path, data: bytes, seen: Seen, mode: int | None) -> None:
    """Write a scratch file under a name that says it may be half-written, then give it its own."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    new = scratch.with_suffix(".new")
    try:
        with os.fdopen(os.open(new, flags, NEW_FILE_MODE), "wb") as file:
            if seen.data is not None:
                before = seen.path.stat()
                with suppress(PermissionError):  # somebody else's file that we may write stays ours
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.rename(scratch)
    finally:
        new.unlink(missing_ok=True)


def _create(scratch: Path, seen: Seen) -> bool:
    try:
        seen.path.hardlink_to(scratch)
    except FileExistsError:
        return False
    return True


def _swap(scratch: Path, seen: Seen, data: bytes) -> bool:
    """Swap names, look at what came out, and swap back if it is not what was read."""
    ours = read_bytes(scratch)
    if not _exchange(scratch, seen.path):
        return _linked(scratch, seen, data)
    if _is_still(scratch, data):
        return True
    _exchange(scratch, seen.path)
    if not _is_still(scratch, ours):  # edited in the instant between the two
        kept = seen.path.with_name(f"{seen.path.name}.{secrets.token_hex(4)}.kept")
        scratch.rename(kept)
        raise ContextFileError(
            f"{seen.path} was edited twice while it was written: what one edit made of it is in "
            f"{kept}; take from it what you want, then sync again"
        )
    return False


def _linked(scratch: Path, seen: Seen, data: bytes) -> bool:
    """Replace a file that keeps a second name for as long as it takes to compare it."""
    kept = _scratch(seen, b"")
    kept.hardlink_to(seen.path)
    try:
        if not _is_still(kept, data) or not kept.samefile(seen.path):
            return False
        scratch.replace(seen.path)
        if _is_still(kept, data):
            return True
        kept.replace(seen.path)
        return False
    finally:
        _discard(kept)


def _is_still(path: Path, data: bytes) -> bool:
    """Return whether a file under a name of our own holds some data and nobody is writing to it."""
    with opened(path) as file:
        return not _has_writers(file.fileno()) and file.read(len(data) + 1) == data


def _has_writers(descriptor: int) -> bool:
    """Return whether somebody has a file open for writing, as far as can be known."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    with suppress(OSError):  # no leases on this file system, or it is somebody else's file
        try:
            # Breaking a lease sends a signal. The default one would end the process.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return True
    return False


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; return False where that is not to be had."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0:
        return True
    if ctypes.get_errno() in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))
