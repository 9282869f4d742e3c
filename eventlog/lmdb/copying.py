"""Copying a table row by row, in order, so that its pages are packed full.

LMDB's own compacting copy takes pages as they are. Rows that are put in order at the end of an
empty table fill one page after another instead. Transactions and tables are LMDB's, which only
environment.py imports.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from eventlog.core.errors import CorruptLog

TRANSACTION_BYTES = 16 << 20  # of pages: they are held in memory until they are committed
ROWS_AT_ONCE = 1000  # so that a transaction that is large enough is noticed


def pages(transaction: Any, table: Any) -> int:
    """Return how many pages a table takes."""
    stat = transaction.stat(table)
    return int(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])


def copy_table(
    source: Any, table: Any, begin: Callable[[], Any], into: Any, page_bytes: int
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
    rows: Iterator[tuple[bytes, bytes]], transaction: Any, into: Any, at_once: int, pages_max: int
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
