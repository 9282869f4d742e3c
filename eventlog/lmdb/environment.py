"""One LMDB environment, opened safely: locked, read, written, and made smaller.

LMDB is fast and exact when its rules are kept, and silent or deadly when they are not. The rules
kept here:

- One process: an flock on a file beside the data, taken before LMDB maps anything.
- Never across fork: a child that writes corrupts its parent's log, so every use looks for a fork.
- A file cut short is refused before LMDB maps it (pages.py).
- Fully synced commits only, and the file's name is synced before the first of them. The map is 1
  TiB of address space, so it never has to be resized while readers are live; the limit users feel
  is `size_max_bytes`, checked before each write.
- `write` and `read` may be called from any thread; `reopen` waits for readers to leave. LMDB lets
  nobody begin to read between a write that failed and the reopening: they are to try again.

`shrink` copies row by row into a new file, which is whole and synced before it is renamed over the
old one: whenever the process dies, one whole file is there. The last reader of the old file closes
it. A new file counts its transactions from 1; `last_transaction` goes on counting, with what
`shrink` hands to the caller to be stored, and the caller gives back as `count_from`.
"""

import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar, cast

from eventlog.core.errors import (
    CorruptLog,
    DiskFull,
    InvalidAppend,
    LogBusy,
    LogClosed,
    LogUnavailable,
    StorageFailed,
)
from eventlog.core.records import Shrunk
from eventlog.files import datafile
from eventlog.files.pages import CHECKED_BYTES_MAX, META_PAGES, check_file
from eventlog.lmdb import file as lmdb
from eventlog.lmdb.file import MAP_BYTES, LmdbFile, SharedFile, Transaction, pages, unavailable

RESERVE_BYTES = 4 << 20  # above the limit, for deletes: some 10,000 of them
NEAR_BYTES = 64 << 20  # below the limit: from there on the pages in use are counted
SPARE_BYTES = 1 << 20  # of a disk, beside a copy: tables of readers, pages not quite full

T = TypeVar("T")


class Environment:
    """Named tables in one LMDB file, with an exclusive lock on it.

    The pages of a file of up to `checked_bytes_max` are checked before LMDB follows them. None maps
    any file: for a child that repairs it. `busy` is raised to readers while nobody can read.

    :raises LogLocked: another process, or this one, has it open.
    :raises CorruptLog: the file is not whole.
    :raises LogUnavailable: it cannot be opened or created.
    """

    def __init__(
        self,
        path: Path,
        tables: Iterable[str],
        *,
        size_max_bytes: int = MAP_BYTES,
        checked_bytes_max: int | None = CHECKED_BYTES_MAX,
        busy: type[LogBusy] = LogBusy,
    ):
        self.path = path
        self._busy = busy
        self._names = tuple(tables)
        self._size_max_bytes = size_max_bytes
        self._checked_bytes_max = checked_bytes_max
        self.committed = 0
        """The number of the last transaction that was committed when the last write ended well."""
        self._forks = lmdb.forks
        self._writing = threading.Lock()
        self._turn = threading.Lock()  # held by who waits to write next: a busy writer lets it in
        self._files = SharedFile(path)
        with unavailable(path):
            self._lock_fd: int | None = datafile.lock(datafile.beside(path, ".lock"))
        try:
            self._discard(self._copy_path)
            self._files.replace(self._load(path, 0))
            with unavailable(path):
                datafile.sync_to_disk(path.parent)
        except BaseException:
            with self._files.alone():
                self._files.replace(None)
            datafile.unlock(self._lock_fd)
            raise

    def _load(self, path: Path, earlier: int) -> LmdbFile:
        if self._checked_bytes_max is not None:
            check_file(path, self._checked_bytes_max)
        return LmdbFile.open(path, self._names, earlier)

    def close(self) -> None:
        """Close the file and give up the lock. Idempotent."""
        if self._lock_fd is None or self._forks != lmdb.forks:
            return
        with self._alone(), self._files.alone():
            self._files.replace(None)
        datafile.unlock(self._lock_fd)
        self._lock_fd = None

    def reopen(self) -> None:
        """Close and open the file again: the only cure after a write that failed half-way."""
        with self._files.alone():
            earlier = self._files.file.earlier
            self._files.replace(None)
            self._files.replace(self._load(self.path, earlier))

    def read(self, *, buffers: bool = False) -> AbstractContextManager[Transaction]:
        """Hold a read transaction: one consistent view. Copy rows out; never await inside.

        With `buffers`, keys and values are views of the mapped file, valid while it is held.

        :raises LogBusy: nobody can read now, which passes.
        """
        self.check_process()
        return _Reading(self, self._files, buffers=buffers)

    def not_read(self, error: BaseException) -> Exception | None:
        """Return the error for a reader instead of an error of LMDB; or None for other errors."""
        if isinstance(error, lmdb.PASSING):
            return self._busy(f"{self.path}: {error}: try again in a moment")
        if isinstance(error, lmdb.Error | struct.error):
            return CorruptLog(f"{self.path} cannot be read: {error}")
        return None

    def write(self, change: Callable[[Transaction], T]) -> T:
        """Run `change` in one transaction and commit it with fsync.

        Whatever `change` raises aborts the transaction and passes through.

        :raises DiskFull: no room; nothing was kept.
        :raises StorageFailed: the outcome is unknown; the file was closed and opened again.
        """
        self.check_process()
        with self._alone():
            number = 0
            try:
                with self._files.use() as file:
                    with file.env.begin(write=True) as raw:
                        number = file.earlier + raw.id()
                        result = change(Transaction(raw, file))
                    self.committed = file.last_transaction()
                    return result
            except lmdb.BadSize as error:
                raise InvalidAppend(f"a key or value does not fit the tables: {error}") from error
            except lmdb.MapFull as error:
                raise DiskFull(f"the address space of {self.path} is used up") from error
            except (lmdb.Error, OSError) as error:
                self.reopen()
                if self.last_transaction() < number and datafile.explains_no_room(self.path, error):
                    raise DiskFull(f"no space left for {self.path}: free some, retry") from error
                said = f"writing {self.path} failed: {error}; read, then retry"
                raise StorageFailed(said) from error

    def last_transaction(self) -> int:
        """Return the number of the last committed transaction, over all files there have been."""
        with self._shared() as file:
            return file.last_transaction()

    def count_from(self, transactions: int) -> None:
        """Add to `last_transaction` what `shrink` gave to be stored with the file."""
        with self._shared() as file:
            file.earlier = transactions

    def bytes_near_limit(self, txn: Transaction, incoming_bytes: int) -> int | None:
        """Return the bytes of pages in use, or None if the new bytes cannot pass the limit.

        Counting them for each small commit would cost more than writing it.
        """
        reached = txn.file.size() + NEAR_BYTES + 4 * incoming_bytes
        return None if reached < self._size_max_bytes else self.used_bytes(txn)

    def check_room(
        self, txn: Transaction, before_bytes: int | None, *, reserve: bool = False
    ) -> None:
        """Refuse a transaction that has grown the pages in use beyond the size limit.

        Transactions that do not grow them, such as a refusal or a repeated request, always pass.
        `before_bytes` is what `bytes_near_limit` gave at its beginning. `reserve` adds
        `RESERVE_BYTES` to the limit.

        :raises DiskFull: they are more than `size_max_bytes` now, and than before.
        """
        if before_bytes is None:
            return
        limit_bytes = self._size_max_bytes + (RESERVE_BYTES if reserve else 0)
        if self.used_bytes(txn) > max(before_bytes, limit_bytes):
            raise DiskFull(
                f"{self.path.name} holds {before_bytes:,} bytes and its limit is "
                f"{self._size_max_bytes:,}: delete or compact, or open it with a higher limit"
            )

    def used_bytes(self, txn: Transaction) -> int:
        """Return the bytes of all pages in use (the file may be larger by its free pages)."""
        used_pages = sum(pages(txn, table) for table in txn.tables.values())
        return used_pages * txn.file.page_bytes

    def free_bytes(self, txn: Transaction) -> int:
        """Return the bytes of pages that are in use no more, and stay in the file."""
        own_bytes = (META_PAGES + pages(txn, None)) * txn.file.page_bytes
        return max(0, txn.file.size() - own_bytes - self.used_bytes(txn))

    def file_bytes(self) -> int:
        """Return the bytes of all pages of the file, free ones included."""
        with self._shared() as file:
            return file.size()

    # --- a smaller file

    def shrink(self, store: Callable[[Transaction, int], object] | None = None) -> Shrunk:
        """Copy what is there into a new file, densely, and put it in the place of this one.

        Blocks, and so do writes meanwhile; reads go on. `store(txn, transactions)` is called in the
        new file's last transaction, to keep what `count_from` needs when it is opened again.

        :raises DiskFull: no room for the copy; nothing was changed.
        :raises CorruptLog: a table does not have the rows that it says it has; nothing was changed.
        :raises StorageFailed: the disk failed; nothing was changed, or the environment is closed.
        """
        self.check_process()
        with self._alone(), self._shared() as file:
            store = store or (lambda _txn, _transactions: None)
            copy = self._copied(file, store, self._copy_path)
            before, after = self.path.stat().st_size, self._copy_path.stat().st_size
            self._replace(copy)
        return Shrunk(before, after)

    def copy_to(self, path: Path, store: Callable[[Transaction, int], object]) -> int:
        """Copy what is there, as of one moment, into a new file; return its last transaction.

        Reads and writes go on. `store` is called as by `shrink`. Blocks.

        :raises DiskFull, CorruptLog, StorageFailed: as by `shrink`; nothing is left of the copy.
        """
        with self._shared() as file:
            copy = self._copied(file, store, path)
            try:
                return copy.last_transaction()
            finally:
                copy.close()
                datafile.beside(path, "-lock").unlink(missing_ok=True)

    @property
    def _copy_path(self) -> Path:
        return datafile.beside(self.path, ".shrunk")

    def _discard(self, copy: Path) -> None:
        with unavailable(self.path):
            for suffix in ("", "-lock"):
                datafile.beside(copy, suffix).unlink(missing_ok=True)

    def _copied(
        self, file: LmdbFile, store: Callable[[Transaction, int], object], path: Path
    ) -> LmdbFile:
        copy: LmdbFile | None = None
        try:
            with file.env.begin() as source:
                used_bytes = self.used_bytes(Transaction(source, file))
                if file.env.stat()["entries"] != len(self._names):
                    raise LogUnavailable(f"{self.path} has tables of another version: not copied")
                datafile.check_disk(path.parent, used_bytes + SPARE_BYTES, "a copy")
                copy = self._load(path, file.last_transaction())
                file.copy_rows(source, copy)
                with copy.env.begin(write=True) as raw:
                    store(Transaction(raw, copy), copy.earlier)
            return copy
        except BaseException as error:
            self._abandon(copy, path)
            if isinstance(error, lmdb.Error | OSError):
                raise self._not_copied(error, path) from error
            raise

    def _not_copied(self, error: Exception, path: Path) -> Exception:
        if isinstance(error, lmdb.DAMAGE):
            return CorruptLog(f"{self.path} cannot be read: {error}: nothing was changed")
        if datafile.explains_no_room(path, error):
            return DiskFull(f"no space left to copy {self.path}: free some, try again")
        return StorageFailed(f"copying {self.path} failed: {error}; nothing was changed")

    def _abandon(self, copy: LmdbFile | None, path: Path) -> None:
        if copy is not None:
            copy.close()
        with suppress(LogUnavailable, DiskFull):  # removed when it is opened again
            self._discard(path)

    def _replace(self, copy: LmdbFile) -> None:
        try:
            self._copy_path.replace(self.path)
        except OSError as error:
            self._abandon(copy, self._copy_path)
            raise self._not_copied(error, self.path) from error
        try:
            datafile.beside(self._copy_path, "-lock").replace(datafile.beside(self.path, "-lock"))
            datafile.sync_to_disk(self.path.parent)
        except OSError as error:  # both are whole; which one comes back after a power loss?
            self._files.replace(None)
            copy.close()
            raise StorageFailed(f"syncing {self.path.parent} failed: open it again") from error
        self._files.replace(copy)

    # --- who is in

    def check_process(self) -> None:
        """Refuse use in a forked child."""
        if self._forks != lmdb.forks:
            raise LogClosed(f"{self.path} was opened before a fork: open it again in this process")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._turn:
            self._writing.acquire()
        try:
            yield
        finally:
            self._writing.release()

    def _shared(self) -> AbstractContextManager[LmdbFile]:
        self.check_process()
        return self._files.use()


class _Reading(AbstractContextManager[Transaction]):
    """The context manager of `Environment.read`.

    A class, because `@contextmanager` takes twice as long to enter and leave, and every read does.
    """

    __slots__ = "_buffers", "_env", "_file", "_files", "_raw"

    def __init__(self, env: Environment, files: SharedFile, *, buffers: bool):
        self._env = env
        self._files = files
        self._buffers = cast("Literal[False]", buffers)  # views are typed as bytes, too

    def __enter__(self) -> Transaction:
        self._file = file = self._files.enter()
        try:
            self._raw = file.env.begin(buffers=self._buffers)
        except BaseException as error:
            self._files.leave(file)
            if (instead := self._env.not_read(error)) is not None:
                raise instead from error
            raise
        return Transaction(self._raw, file)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self._raw.abort()
        finally:
            self._files.leave(self._file)
        if error is not None and (instead := self._env.not_read(error)) is not None:
            raise instead from error
