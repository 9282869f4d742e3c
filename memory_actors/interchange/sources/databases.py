"""SQLite files of other programs: read only, and trusted in nothing.

A small file can have a large content: views and virtual tables compute rows, generated columns and
defaults compute values. The reader therefore reads only plain tables, one row at a time, and bounds
the bytes and rows of a file by its size.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from memory_actors.base.errors import InvalidInputError
from memory_actors.interchange.files import Unpacking, open_file

VALUE_BYTES_MAX: Final = 32 << 20  # of a text or a blob
ROW_BYTES: Final = 64  # that each row counts beside its texts: so rows are bounded, too


class Database(sqlite3.Connection):
    """An open file, with what may still be read of it."""

    path: Path
    unpacking: Unpacking


@contextmanager
def database(path: Path, *tables: str) -> Iterator[Database]:
    """Hold a database open that has these plain tables. The file is not changed.

    :raises InvalidInputError: it is none, or has one of them not.
    """
    open_file(path).close()
    with telling(path):
        # Without a log beside it, no lock and no other file is made.
        log = path.with_name(f"{path.name}-wal")
        way = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
        connection: Database = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?{way}",
            uri=True,
            check_same_thread=False,
            factory=Database,
        )
        connection.path, connection.unpacking = path, Unpacking(path)
        try:
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
            connection.execute("PRAGMA trusted_schema = OFF")
            missing = set(tables) - _tables(connection)
            if missing:
                raise InvalidInputError(
                    f"{path} has no table {min(missing)!r}: is it of this program?"
                )
            yield connection
        finally:
            connection.close()


def _tables(connection: Database) -> set[str]:
    """Return the names of the tables with rows of their own, and no values that are computed."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
    found = [str(name) for (name,) in connection.execute(query).fetchmany(10_000)]
    hidden = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden"
    return {name for name in found if connection.execute(hidden, (name,)).fetchone() is None}


def has_table(connection: Database, name: str) -> bool:
    """Say whether there is such a table."""
    return name in _tables(connection)


def columns(connection: Database, table: str) -> set[str]:
    """Return the names of a table's columns."""
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}


def rows(connection: Database, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that a query finds, each counted with its bytes.

    :raises InvalidInputError: the file is damaged, or has more than its size allows.
    """
    with telling(connection.path):
        cursor = connection.execute(query, values)
    while True:
        with telling(connection.path):
            row = cursor.fetchone()
        if row is None:
            return
        sizes = (len(one) for one in row if isinstance(one, str | bytes))
        connection.unpacking.take(ROW_BYTES + sum(sizes))
        yield row


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Convert errors of a damaged database to `InvalidInputError`."""
    try:
        yield
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise InvalidInputError(
            f"{path} cannot be read as a SQLite database: {error}. Nothing was added: end the "
            "program that has it open, and give a whole copy"
        ) from error
