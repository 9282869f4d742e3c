"""One LMDB environment, opened safely. The only file that imports lmdb.

LMDB is fast and exact when its rules are kept, and silent or deadly when they are not. The rules
kept here:

- One process: an flock on a file beside the data, taken before LMDB maps anything. LMDB alone
  lets two processes overwrite each other's work through our own cached heads.
- Never across fork: a child that writes corrupts its parent's log, so every use checks the pid.
- A file shorter than its own meta page says kills the process with SIGBUS on first touch, so the
  size is compared before LMDB maps it.
- Fully synced commits only. The map is 1 TiB of address space, so it never has to be resized while
  readers are live; the limit users feel is `size_max_bytes`, checked before each write.
- `write` and `read` may be called from any thread; `reopen` waits for readers to leave.
"""

import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import lmdb

from eventlog.errors import (
    CorruptLog,
    DiskFull,
    InvalidAppend,
    LogClosed,
    LogLocked,
    LogUnavailable,
    StorageFailed,
)

MAP_BYTES = 1 << 40
READERS_MAX = 126
FULL_BELOW_BYTES = 16 << 20  # more than the pages of one batch: less free explains a failed write

Transaction: TypeAlias = "lmdb.Transaction[bytes]"
T = TypeVar("T")

RESERVE_BYTES = 4 << 20  # above the limit, for deletes: some 10,000 of them

_META_MAGIC = 0xBEEFC0DE
_PAGE_HEADER = struct.Struct("=QHHHH")
_META = struct.Struct("=IIQQ I36x8x 48x QQ")  # magic version addr mapsize psize … last_pgno txnid
_META_FLAG = 0x08


class Environment:
    """Named tables in one LMDB file, with an exclusive lock on it.

    :raises LogLocked: another process, or this one, has it open.
    :raises CorruptLog: the file is not whole.
    :raises LogUnavailable: it cannot be opened or created.
    """

    def __init__(self, path: Path, tables: Iterable[str], *, size_max_bytes: int = MAP_BYTES):
        self.path = path
        self._names = tuple(tables)
        self._size_max_bytes = size_max_bytes
        self._pid = os.getpid()
        self._gate = threading.Condition()
        self._readers = 0
        self._lock_fd: int | None = _lock(path.with_name(path.name + ".lock"))
        try:
            self._open()
        except BaseException:
            os.close(self._lock_fd)
            raise

    def _open(self) -> None:
        check_file(self.path)
        with _unavailable(self.path):
            _reserve(self.path.with_name(self.path.name + "-lock"))
            env = lmdb.open(
                str(self.path), subdir=False, map_size=MAP_BYTES, max_dbs=len(self._names),
                max_readers=READERS_MAX, max_spare_txns=1, lib_version=0, mode=0o600,
            )  # fmt: skip
        try:
            with _unavailable(self.path):
                env.reader_check()
                self.tables = {name: env.open_db(name.encode()) for name in self._names}
        except BaseException:
            env.close()
            raise
        self._env: lmdb.Environment | None = env
        self._page_bytes = env.stat()["psize"]

    def close(self) -> None:
        """Close the file and give up the lock. Idempotent."""
        if self._lock_fd is None or os.getpid() != self._pid:
            return
        with self._exclusive():
            if self._env is not None:
                self._env.close()
            self._env = None
        fcntl.flock(self._lock_fd, fcntl.LOCK_UN)  # a forked child may hold a copy
        os.close(self._lock_fd)
        self._lock_fd = None

    def reopen(self) -> None:
        """Close and open the file again: the only cure after a write that failed half-way."""
        with self._exclusive():
            if self._env is not None:
                self._env.close()
            self._env = None
            self._open()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Hold a read transaction: one consistent view. Copy rows out; never await inside."""
        with self._shared() as env:
            try:
                with env.begin() as txn:
                    yield txn
            except (lmdb.Error, struct.error) as error:
                raise CorruptLog(f"{self.path} cannot be read: {error}") from error

    def write(self, change: Callable[[Transaction], T]) -> T:
        """Run `change` in one transaction and commit it with fsync.

        Whatever `change` raises aborts the transaction and passes through.

        :raises DiskFull: no room; nothing was kept.
        :raises StorageFailed: the outcome is unknown; the file was closed and opened again.
        """
        before = self.last_transaction()
        try:
            with self._shared() as env, env.begin(write=True) as txn:
                return change(txn)
        except lmdb.BadValsizeError as error:
            raise InvalidAppend(f"a key or value does not fit the tables: {error}") from error
        except lmdb.MapFullError as error:
            raise DiskFull(f"the address space of {self.path} is used up") from error
        except (lmdb.Error, OSError) as error:
            self.reopen()
            if self.last_transaction() == before and _no_space(self.path, error):
                raise DiskFull(f"no space left for {self.path}: free some, try again") from error
            raise StorageFailed(f"writing {self.path} failed: {error}; read, then retry") from error

    def last_transaction(self) -> int:
        """Return the number of the last committed transaction."""
        with self._shared() as env:
            return env.info()["last_txnid"]

    def check_room(self, txn: Transaction, before_bytes: int, *, reserve: bool = False) -> None:
        """Refuse a transaction that has grown the pages in use beyond the size limit.

        What does not grow them, a refusal or a repeated request, always passes. `reserve` adds
        `RESERVE_BYTES` to the limit.

        :raises DiskFull: they are more than `size_max_bytes` now, and than before.
        """
        limit_bytes = self._size_max_bytes + (RESERVE_BYTES if reserve else 0)
        if self.used_bytes(txn) > max(before_bytes, limit_bytes):
            raise DiskFull(
                f"{self.path.name} holds {before_bytes:,} bytes and its limit is "
                f"{self._size_max_bytes:,}: delete or compact, or open it with a higher limit"
            )

    def used_bytes(self, txn: Transaction) -> int:
        """Return the bytes of all pages in use (the file may be larger by its free pages)."""
        stats = (txn.stat(table) for table in self.tables.values())
        pages = sum(s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"] for s in stats)
        return pages * self._page_bytes

    def check_process(self) -> None:
        """Refuse use in a forked child."""
        if os.getpid() != self._pid:
            raise LogClosed(f"{self.path} was opened before a fork: open it again in this process")

    @contextmanager
    def _shared(self) -> Iterator[lmdb.Environment]:
        self.check_process()
        with self._gate:
            env = self._env
            if env is None:
                raise LogClosed(f"{self.path} is closed: open it again")
            self._readers += 1
        try:
            yield env
        finally:
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._gate:
            self._gate.wait_for(lambda: self._readers == 0)
            yield


def check_file(path: Path) -> None:
    """Compare a file's size with its own newest meta page.

    :raises CorruptLog: it is shorter than it says, or has no readable meta page.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2 * 65536)  # two meta pages of the largest page size LMDB knows
            size = file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LogUnavailable(f"cannot read {path}: {error.strerror}") from error
    if size == 0:
        return  # created and killed before LMDB wrote its meta pages: nothing was acknowledged
    metas = list(_metas(head))
    if not metas:
        raise CorruptLog(f"{path} has no readable meta page: restore a backup")
    _, last_page, page_bytes = max(metas)
    if size < (last_page + 1) * page_bytes:
        raise CorruptLog(
            f"{path} is cut short: {size:,} bytes of {(last_page + 1) * page_bytes:,}: "
            "restore a backup"
        )


def _metas(head: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield transaction id, last page and page size of each readable meta page."""
    for at in (0, *(1 << shift for shift in range(9, 17))):
        if len(head) < at + _PAGE_HEADER.size + _META.size:
            return
        flags = _PAGE_HEADER.unpack_from(head, at)[2]
        magic, _, _, _, page_bytes, last_page, txn_id = _META.unpack_from(
            head, at + _PAGE_HEADER.size
        )
        if magic == _META_MAGIC and flags & _META_FLAG and page_bytes and at in (0, page_bytes):
            yield txn_id, last_page, page_bytes


def _reserve(path: Path) -> None:
    """Give LMDB's table of readers its blocks: it is mapped, and a full disk would be a SIGBUS."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, 4 * 4096)
    finally:
        os.close(fd)


def _lock(path: Path) -> int:
    with _unavailable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise LogLocked(
            f"{path.parent} is open in process {owner}: close it there, or use another directory"
        ) from error
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        pass  # it only tells others who holds the lock
    return fd


@contextmanager
def _unavailable(path: Path) -> Iterator[None]:
    try:
        yield
    except (lmdb.Error, OSError, ValueError) as error:
        if isinstance(
            error,
            lmdb.InvalidError
            | lmdb.CorruptedError
            | lmdb.PageNotFoundError
            | lmdb.VersionMismatchError,
        ):
            raise CorruptLog(f"{path} is not a readable LMDB file: restore a backup") from error
        if _errno(error) in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left to open {path}") from error
        raise LogUnavailable(f"cannot open {path}: {error}") from error


def _no_space(path: Path, error: Exception) -> bool:
    """Say whether a full disk explains `error`: LMDB reports a short write as EIO."""
    if _errno(error) in (errno.ENOSPC, errno.EDQUOT):
        return True
    disk = os.statvfs(path.parent)
    return disk.f_bavail * disk.f_frsize < FULL_BELOW_BYTES


def _errno(error: Exception) -> int | None:
    """Return the system's error number; lmdb.Error keeps its own in `code`, where it has one."""
    number = getattr(error, "code", None) or getattr(error, "errno", None)
    return number if isinstance(number, int) else None
