"""SQLite files of other programs: read only, and trusted in nothing."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from memory_actors.base.errors import InvalidInputError
from memory_actors.interchange.files import open_file

VALUE_BYTES_MAX: Final = 32 << 20  # of a text or a blob
ROWS_AT_ONCE: Final = 200


@contextmanager
def database(path: Path, *tables: str) -> Iterator[sqlite3.Connection]:
    """Hold a database open that has these tables. Nothing of it is changed.

    :raises InvalidInputError: it is none, or has one of them not.
    """
    open_file(path).close()
    with telling(path):
        # Without a log beside it, no lock and no other file is made.
        log = path.with_name(f"{path.name}-wal")
        way = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
        connection = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?{way}", uri=True, check_same_thread=False
        )
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


def _tables(connection: sqlite3.Connection) -> set[str]:
    """Return the names of its tables: a view could be an endless one."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchmany(
        10_000
    )
    return {str(name) for (name,) in found}


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Say whether there is such a table."""
    return name in _tables(connection)


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns."""
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}


def rows(
    connection: sqlite3.Connection, path: Path, query: str, values: Sequence[Any] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that a query finds.

    :raises InvalidInputError: the file is damaged.
    """
    with telling(path):
        cursor = connection.execute(query, values)
    while True:
        with telling(path):
            some = cursor.fetchmany(ROWS_AT_ONCE)
        if not some:
            return
        yield from some


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Say of a damaged database that it is one."""
    try:
        yield
    except (sqlite3.Error, UnicodeError, OverflowError) as error:
        raise InvalidInputError(
            f"{path} cannot be read as a SQLite database: {error}. Nothing was added: end the "
            "program that has it open, and give a whole copy"
        ) from error
