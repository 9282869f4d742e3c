"""One LMDB file: opened, shared, measured, copied, closed. The only module that imports lmdb.

- A process opens or closes one file at a time: py-lmdb knows open files by their inodes, and
  forgets a closed one a moment after the system may have given its inode to a new file.
- A file that is open is never closed in a forked child: that would write to its table of readers.
- A table is copied row by row, in order, so that its pages are packed full. LMDB's own compacting
  copy takes pages as they are; rows that are put in order at the end of an empty table fill one
  page after another instead.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeAlias

import lmdb
from lmdb import _envid

from eventlog.core.errors import CorruptLog, DiskFull, LogClosed, LogUnavailable
from eventlog.files.datafile import OWNER_ONLY, advice, beside, means_no_room, reserve_readers
from eventlog.files.mapped import MappedFile, mapping_lock, note_mapped, note_unmapped

MAP_BYTES = 1 << 40
READERS_MAX = 126
TRANSACTION_BYTES = 16 << 20  # of pages: they are held in memory until they are committed
ROWS_AT_ONCE = 1000  # so that a transaction that is large enough is noticed
DAMAGE = lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.VersionMismatchError
PASSING = lmdb.PanicError, lmdb.ReadersFullError, lmdb.MemoryError  # of a file that may be healthy
Error, BadSize, MapFull = lmdb.Error, lmdb.BadValsizeError, lmdb.MapFullError

_Raw: TypeAlias = "lmdb.Transaction[bytes]"
Cursor: TypeAlias = "lmdb.Cursor[bytes]"
Table: TypeAlias = "lmdb._Database"  # noqa: SLF001 - its stubs name it so
Tables: TypeAlias = dict[str, Table]

forks = 0  # between the first process and this one; asking for a process's id takes longer
_open: set[lmdb.Environment] = set()
_inherited: list[set[lmdb.Environment]] = []


def _count_fork() -> None:
    """Keep the files of the parent: closing one here would write to its table of readers."""
    global forks, _open
    forks += 1
    _inherited.append(_open)
    _open = set()


os.register_at_fork(after_in_child=_count_fork)


@contextmanager
def _apart_from_parent() -> Iterator[None]:
    """Let py-lmdb open a file that is in its list of open ones since before a fork.

    Whoever has our lock on the file knows that the parent has closed it, or is gone.
    """
    known: Any = _envid.env_keys
    if forks:
        _envid.env_keys = lambda *given: tuple((*key, forks) for key in known(*given))
    try:
        yield
    finally:
        _envid.env_keys = known


class Transaction:
    """A view of the tables of a file as of one moment, or a change of them."""

    __slots__ = "cursor", "delete", "drop", "file", "get", "id", "put", "stat", "tables"

    def __init__(self, raw: _Raw, file: "LmdbFile"):
        self.file, self.tables = file, file.tables
        self.get, self.put, self.delete, self.cursor = raw.get, raw.put, raw.delete, raw.cursor
        self.id, self.stat, self.drop = raw.id, raw.stat, raw.drop

    @property
    def number(self) -> int:
        """The number of a transaction that writes, over all files there have been."""
        return self.file.earlier + self.id()


@dataclass(slots=True, eq=False)
class LmdbFile:
    """An open LMDB file."""

    env: lmdb.Environment
    tables: Tables
    page_bytes: int
    earlier: int
    """Transactions counted in the files before this one."""
    known_as: MappedFile
    """Among the files that are mapped."""
    users: int = 0
    """How many threads are in it: see `SharedFile`."""

    @classmethod
    def open(cls, path: Path, tables: Sequence[str], earlier: int) -> Self:
        """Open a file, made if it is missing, with tables of these names.

        :raises CorruptLog: it is no readable file of LMDB's.
        :raises DiskFull: there is no room for it.
        :raises LogUnavailable: it cannot be opened.
        """
        with unavailable(path), mapping_lock, _apart_from_parent():
            reserve_readers(beside(path, "-lock"))
            env = lmdb.open(
                str(path), subdir=False, map_size=MAP_BYTES, max_dbs=len(tables),
                max_readers=READERS_MAX, max_spare_txns=1, lib_version=0, mode=OWNER_ONLY,
            )  # fmt: skip
            _open.add(env)
            file = cls(env, {}, env.stat()["psize"], earlier, note_mapped(path))
        try:
            with unavailable(path):
                env.reader_check()
                with env.begin(write=True) as txn:
                    file.tables |= {name: env.open_db(name.encode(), txn) for name in tables}
                return file
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        """Close it."""
        with mapping_lock:
            note_unmapped(self.known_as)
            _open.discard(self.env)
            self.env.close()

    def last_transaction(self) -> int:
        """Return the number of the last committed transaction, over all files there have been."""
        return self.earlier + self.env.info()["last_txnid"]

    def size(self) -> int:
        """Return the bytes of all pages, free ones included."""
        return (self.env.info()["last_pgno"] + 1) * self.page_bytes

    def copy_rows(self, source: _Raw, into: "LmdbFile") -> None:
        """Copy the rows of all tables, as a transaction sees them, into the empty ones of a file.

        :raises CorruptLog: see `copy_table`.
        """
        begin = partial(into.env.begin, write=True)
        for name, table in self.tables.items():
            copy_table(source, table, begin, into.tables[name], into.page_bytes)


@contextmanager
def unavailable(path: Path) -> Iterator[None]:
    """Raise an error of the log if a file cannot be opened."""
    try:
        yield
    except (lmdb.Error, OSError, ValueError) as error:
        if isinstance(error, DAMAGE):
            raise CorruptLog(f"{path} is not a readable LMDB file: restore a backup") from error
        if means_no_room(error):
            raise DiskFull(
                f"no space left to open {path}: free some, then open it again"
            ) from error
        raise LogUnavailable(f"cannot open {path}: {error}{advice(error)}") from error


class SharedFile:
    """A file that many threads use, and that may be replaced while they do.

    A thread that enters gets the current file and keeps it until it leaves, even if the file is
    replaced meanwhile. One that was replaced is closed by the last who leaves it.
    """

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.RLock()  # a condition's own methods take longer, for each read
        self._gate = threading.Condition(self._lock)
        self._waiting = 0  # threads in `alone`, which wait until nobody is in any file
        self._users = 0  # of all files
        self._current: LmdbFile | None = None

    @property
    def file(self) -> LmdbFile:
        """The current file.

        :raises LogClosed: there is none.
        """
        file = self._current
        if file is None:
            raise LogClosed(f"{self._path} is closed: open it again")
        return file

    @contextmanager
    def use(self) -> Iterator[LmdbFile]:
        """Be in the current file.

        :raises LogClosed: there is none.
        """
        file = self.enter()
        try:
            yield file
        finally:
            self.leave(file)

    def enter(self) -> LmdbFile:
        """Be in the current file, and return it."""
        with self._lock:
            file = self.file
            file.users += 1
            self._users += 1
        return file

    def leave(self, file: LmdbFile) -> None:
        """Leave a file."""
        with self._lock:
            file.users -= 1
            if file.users == 0 and file is not self._current:
                file.close()  # in here: who waits for all users waits for this too
            self._users -= 1
            if self._waiting:
                self._gate.notify_all()

    def replace(self, file: LmdbFile | None) -> None:
        """Let everyone who comes from now on use another file, or none."""
        with self._lock:
            before, self._current = self._current, file
            if before is not None and before.users == 0:
                before.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody is in any file, and keep everybody out."""
        with self._gate:
            self._waiting += 1
            self._gate.wait_for(lambda: self._users == 0)
            self._waiting -= 1
            yield


# --- copying a table


def pages(transaction: "Transaction | _Raw", table: "Table | None") -> int:
    """Return how many pages a table takes."""
    stat = transaction.stat(table)
    return int(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])


def copy_table(
    source: _Raw,
    table: Table,
    begin: Callable[[], _Raw],
    into: Table,
    page_bytes: int,
) -> None:
    """Copy the rows of a table into an empty one, in as many transactions of it as that takes.

    :raises CorruptLog: there are fewer or more than the table says, or they are out of order.
    """
    entries = source.stat(table)["entries"]
    row_bytes = max(1, pages(source, table) * page_bytes // max(1, entries))
    at_once = max(1, min(ROWS_AT_ONCE, TRANSACTION_BYTES // row_bytes))
    copied, rows_left = 0, True
    with source.cursor(table) as cursor:
        rows = iter(cursor)
        while rows_left:
            with begin() as transaction:
                pages_max = pages(transaction, into) + TRANSACTION_BYTES // page_bytes
                rows_left, added = _put(rows, transaction, into, at_once, pages_max)
            copied += added
    if copied != entries:
        raise CorruptLog(f"a table has {copied} rows in order of its {entries}: verify the log")


def _put(
    rows: Iterator[tuple[bytes, bytes]],
    transaction: _Raw,
    into: Table,
    at_once: int,
    pages_max: int,
) -> tuple[bool, int]:
    """Put rows until there are `pages_max`; return whether some may be left, and how many it put.

    One that is out of order is not put, so that it is missing in the count.
    """
    added = 0
    with transaction.cursor(into) as cursor:
        while pages(transaction, into) < pages_max:
            taken, put = cursor.putmulti(islice(rows, at_once), append=True)
            added += put
            if taken < at_once:
                return False, added
    return True, added
