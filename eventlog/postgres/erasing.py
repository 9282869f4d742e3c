"""Erasing a stream: a mark by which every reader goes, and then its rows, some thousand a commit.

Only the mark (`mark_erased` in schema.sql) goes through the writer, in the order of appends: from
its commit on nothing of the stream is read any more. Its rows go afterwards, on connections of the
pool, without the lock of the tail, a page a commit. Other appends therefore continue while a large
stream is erased, and no single statement takes long. Whatever interrupts it, erasing the stream
again does the rest: each page says by itself what is left to do in it.

The mark's commit must also delete data derived from the stream, because a stream with the same name
would find it. Most of it is deleted before, page by page, if the epoch is right; the mark deletes
what has come since.
"""

from collections.abc import Iterator

from eventlog.postgres.database import Database, Row

ROWS_MAX = 2048  # of a commit: some 20 ms

MARK_ERASED = "CALL mark_erased(%b, %b, %b, %b, %b, %b, %b, NULL, NULL)"
EMPTY_EVENTS = """
    UPDATE event SET payload = NULL, gone_at = s.erased_at
    FROM stream AS s
    WHERE s.sid = event.sid AND event.sid = %b AND event.version > %b AND event.version <= %b
        AND event.version <= s.erased_version
        AND (event.payload IS NOT NULL OR event.gone_at IS NULL OR event.version > %b)
"""
DELETE_ARCHIVED = """
    DELETE FROM event_archive AS a USING stream AS s
    WHERE s.sid = a.sid AND a.sid = %b AND a.version > %b AND a.version <= %b
        AND a.version <= s.erased_version
"""
DELETE_SNAPSHOTS = """
    DELETE FROM snapshot AS n USING stream AS s
    WHERE s.sid = n.sid AND n.sid = %b AND n.version <= s.erased_version
"""


def _page_of(table: str, key: str, is_to_go: str) -> str:
    """Return a statement that deletes what is to go of the next rows of a stream, in a table.

    It returns the key of the last row that it looked at, and nothing behind the last one of all.
    """
    return f"""
        WITH page AS (
            SELECT {key} AS last FROM (
                SELECT {key} FROM {table} WHERE sid = %b AND {key} > %b ORDER BY {key} LIMIT %b
            ) AS next ORDER BY {key} DESC LIMIT 1
        ), gone AS (
            DELETE FROM {table} AS t USING stream AS s
            WHERE s.sid = t.sid AND t.sid = %b AND t.{key} > %b
                AND t.{key} <= (SELECT last FROM page) AND {is_to_go}
        )
        SELECT last FROM page
    """  # noqa: S608 - of constants


KEYS_PAGE = _page_of("event_key", "key", "t.version <= s.erased_version")
REQUESTS_PAGE = _page_of("request", "key", "t.last_version <= s.erased_version")
DERIVED_PAGE = _page_of("derived", "name", "s.epoch = coalesce(%b, s.epoch)")


async def delete_derived(database: Database, sid: bytes, epoch: int | None) -> None:
    """Delete what was derived from a stream before its mark; with an epoch, if it is its own."""
    await _delete_pages(database, DERIVED_PAGE, sid, epoch)


async def delete_rows(database: Database, sid: bytes, before: int, until: int) -> None:
    """Delete the rows of a stream that is marked as erased up to a version, and was up to another.

    Payloads that retention has dropped since then count as erased when the stream was.
    """
    for after, last in _ranges(until):
        await database.run(EMPTY_EVENTS, [sid, after, last, before])
        # In a statement of its own, which sees what an archiving under way has just put there.
        await database.run(DELETE_ARCHIVED, [sid, after, last])
    await database.run(DELETE_SNAPSHOTS, [sid])
    for page in (KEYS_PAGE, REQUESTS_PAGE):
        await _delete_pages(database, page, sid)


def _ranges(until: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of versions up to one."""
    for after in range(0, until, ROWS_MAX):
        yield after, min(after + ROWS_MAX, until)


async def _delete_pages(database: Database, page: str, sid: bytes, *values: object) -> None:
    rows: list[Row] = [(b"",)]
    while rows:
        after = rows[0][0]
        rows = await database.run(page, [sid, after, ROWS_MAX, sid, after, *values])
