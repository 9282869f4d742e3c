"""SQLite files of other programs: read only, and trusted in nothing.

A small file can have a large content: views, virtual tables and defaults compute values, and
damaged pages repeat themselves. The reader therefore reads only plain tables, one row at a time,
and bounds bytes, rows and steps by the size of the file. No query sorts or has a subquery that
SQLite would store: that takes memory before there is a row to count.
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

VALUE_BYTES_MAX: Final = 16 << 20  # of a text or a blob
STEPS: Final = 10_000  # of SQLite between two counts; a row takes about as many as it has bytes
ROW_BYTES: Final = 64  # that each row counts beside its texts: so rows are bounded, too


class SqliteDB(sqlite3.Connection):
    """An open file, with what may still be read of it."""

    path: Path
    unpacking: Unpacking


@contextmanager
def database(path: Path, *tables: str) -> Iterator[SqliteDB]:
    """Open a database with these plain tables, or raise `InvalidInputError`. It is not changed."""
    open_file(path).close()
    unpacking = Unpacking(path)
    with telling(path, unpacking):
        # Without a log beside it, no lock and no other file is made.
        log = path.with_name(f"{path.name}-wal")
        way = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
        connection: SqliteDB = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?{way}",
            uri=True,
            check_same_thread=False,
            factory=SqliteDB,
        )
        connection.path, connection.unpacking = path, unpacking
        connection.set_progress_handler(lambda: unpacking.take(STEPS), STEPS)
        try:
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA automatic_index = OFF")
            for table in tables:
                if not has_table(connection, table):
                    raise InvalidInputError(
                        f"{path} has no table {table!r}: is it of this program?"
                    )
            yield connection
        finally:
            connection.close()


def has_table(connection: SqliteDB, name: str) -> bool:
    """Say whether there is such a table, with rows of its own and no values that are computed."""
    plain = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name = ?"
    hidden = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden"
    is_plain, is_hidden = (connection.execute(one, (name,)).fetchone() for one in (plain, hidden))
    return is_plain is not None and is_hidden is None


def columns(connection: SqliteDB, table: str) -> set[str]:
    """Return the names of a table's columns."""
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}


def rows(
    connection: SqliteDB, query: str, values: Sequence[object] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that a query finds, as many as the size of the file allows."""
    with telling(connection.path, connection.unpacking):
        cursor = connection.execute(query, values)
    while True:
        with telling(connection.path, connection.unpacking):
            row = cursor.fetchone()
        if row is None:
            return
        sizes = (len(one) for one in row if isinstance(one, str | bytes))
        connection.unpacking.take(ROW_BYTES + sum(sizes))
        yield row


@contextmanager
def telling(path: Path, unpacking: Unpacking) -> Iterator[None]:
    """Convert errors of a damaged database to `InvalidInputError`."""
    try:
        yield
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        unpacking.take(0)  # an error if it was this that ended the query
        raise InvalidInputError(
            f"{path} cannot be read as a SQLite database: {error}. Nothing was added: end the "
            "program that has it open, and give a whole copy"
        ) from error
