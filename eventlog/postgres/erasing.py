"""What takes payloads away: archiving, retention, and erasing a stream.

Only the mark of an erasure (`mark_erased` in schema.sql) goes through the writer, in the order of
appends: from its commit on nothing of the stream is read any more. Its rows go afterwards, a page a
commit, on connections of the pool, while others append. Each page says by itself what is left to do
in it, so erasing the stream again does the rest. The mark's commit also deletes data derived from
the stream, because a stream with the same name would find it.
"""

from collections.abc import Callable, Mapping, Sequence

import anyio.to_thread

from eventlog.core import frame
from eventlog.core.errors import Fenced
from eventlog.core.records import Archived, DroppedPayloads, Erased, Rewrite
from eventlog.core.requests import I64_MAX, check_int, check_stream_name
from eventlog.core.rows import key_id
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.calls import LogTail
from eventlog.postgres.reading import EVENT, RowReading
from eventlog.postgres.tables import SideTables

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
ARCHIVE = """
    WITH moved AS (
        SELECT e.sid, e.version, e.payload FROM event AS e JOIN stream AS s USING (sid)
        WHERE e.sid = %b AND e.version = ANY (%b) AND e.version > s.erased_version
            AND e.payload IS NOT NULL
        FOR UPDATE OF e
    ), put AS (
        INSERT INTO event_archive (sid, version, payload, archived_at)
        SELECT sid, version, payload, %b FROM moved
    ), gone AS (
        UPDATE event SET payload = NULL FROM moved
        WHERE event.sid = moved.sid AND event.version = moved.version
    )
    SELECT count(*), coalesce(sum(octet_length(payload)), 0)::bigint FROM moved
"""
DROP_ARCHIVED = """
    WITH gone AS (
        DELETE FROM event_archive
        WHERE archived_at < %b AND (%b::bytea IS NULL OR sid = %b::bytea)
        RETURNING sid, version, payload
    ), marked AS (
        UPDATE event SET gone_at = %b FROM gone
        WHERE event.sid = gone.sid AND event.version = gone.version
    )
    SELECT count(*), coalesce(sum(octet_length(payload)), 0)::bigint FROM gone
"""

TO_REDACT = f"""
    SELECT {EVENT} FROM event AS e
    WHERE e.sid = %b AND e.version > %b AND e.version <= %b ORDER BY e.version
"""  # noqa: S608 - of constants
REDACT = """
    WITH archived AS (
        UPDATE event_archive SET payload = %b WHERE sid = %b AND version = %b RETURNING version
    )
    UPDATE event SET frame = %b,
        payload = CASE WHEN EXISTS (SELECT FROM archived) THEN NULL ELSE %b::bytea END
    WHERE sid = %b AND version = %b AND gone_at IS NULL
"""
FORGET_SNAPSHOTS = "DELETE FROM snapshot WHERE sid = %b"


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


class PgErasing(SideTables):
    """The part of a store that archives, drops and erases."""

    _clock: Callable[[], int]
    _reading: RowReading
    _tail: LogTail

    async def archive(self, stream: str, versions: Sequence[int]) -> Archived:
        """Move the payloads of these events to a table of their own. See `ArchivingStore`."""
        check_stream_name(stream)
        await self._writer.flush()
        last = (await self._believed(frame.stream_id(stream))).version
        for version in versions:
            check_int(f"version of stream {stream!r}", version, 1, last)
        sought, at_us, events, size = sorted(set(versions)), self._clock(), 0, 0
        for start in range(0, len(sought), ROWS_MAX):
            some = Ints(sought[start : start + ROWS_MAX])
            values = [frame.stream_id(stream), some, at_us]
            [(moved, moved_bytes)] = await self._database.run(ARCHIVE, values)
            events, size = events + moved, size + moved_bytes
        return Archived(events, hot_bytes=size, archive_bytes=size)

    async def drop_archived(self, before_us: int, stream: str | None = None) -> DroppedPayloads:
        """Delete the payloads that were archived before a time. See `ArchivingStore`."""
        check_int("time", before_us, None, None)
        sid = None
        if stream is not None:
            check_stream_name(stream)
            sid = frame.stream_id(stream)
        self._writer.check_open()
        before_us = max(-I64_MAX, min(before_us, I64_MAX))
        values = [before_us, sid, sid, self._clock()]
        [(events, size)] = await self._database.run(DROP_ARCHIVED, values)
        return DroppedPayloads(events, archive_bytes=size)

    async def erase(
        self,
        stream: str,
        *,
        counted: Mapping[str, int] | None = None,
        projections: Sequence[str] = (),
        epoch: int | None = None,
    ) -> Erased:
        """Erase a stream. See `ErasingStore`.

        Its rows are gone for every query. docs/internals/postgres.md describes the deleted data
        that PostgreSQL keeps until it vacuums and recycles its own log.
        """
        check_stream_name(stream)
        self._writer.check_open()
        sid, at_us, counters = frame.stream_id(stream), self._clock(), counted or {}
        await self._delete_pages(DERIVED_PAGE, sid, epoch)
        erased_before = (await self._believed(sid)).erased_version
        values = [
            sid, at_us, Bytes(map(key_id, projections)),
            Bytes(name.encode() for name in counters), Ints(counters.values()),
            epoch, erased_before,
        ]  # fmt: skip
        [(before, until, current)] = await self._writer.call(MARK_ERASED, values)
        self._writer.forget(sid)
        if epoch is not None and current not in (None, epoch):
            raise Fenced(stream, epoch, current)
        await self._tail.look_again()
        is_deleted = False
        if self._keys is not None:
            is_deleted = await anyio.to_thread.run_sync(self._keys.forget, sid)
        # Payloads that retention has dropped since then count as erased when the stream was.
        for after in range(0, until, ROWS_MAX):
            last = min(after + ROWS_MAX, until)
            await self._database.run(EMPTY_EVENTS, [sid, after, last, before])
            # In a statement of its own, which sees what an archiving under way has just put there.
            await self._database.run(DELETE_ARCHIVED, [sid, after, last])
        await self._database.run(DELETE_SNAPSHOTS, [sid])
        for page in (KEYS_PAGE, REQUESTS_PAGE):
            await self._delete_pages(page, sid)
        events = until - before
        return Erased(events, at_us if events else 0, key_deleted=is_deleted)

    async def redact(self, stream: str, rewrite: Rewrite) -> int:
        """Replace the data of events of a stream, one a commit. See `RedactingStore`."""
        check_stream_name(stream)
        await self._writer.flush()
        sid, redacted = frame.stream_id(stream), 0
        end = await self._believed(sid)
        for after in range(end.erased_version, end.version, ROWS_MAX):
            last = min(after + ROWS_MAX, end.version)
            for _, _, version, header, _, payload in await self._database.run(
                TO_REDACT, [sid, after, last]
            ):
                if payload is None:
                    continue
                taken = frame.read(version, header + payload)
                body = self._reading.rewritten(taken, stream, taken[7], rewrite)
                if body is not None:
                    header, new = frame.split(frame.redacted(version, header + payload, body))
                    values = [new, sid, version, header, new, sid, version]
                    await self._database.run(REDACT, values)
                    redacted += 1
        await self._database.run(FORGET_SNAPSHOTS, [sid])
        await self._delete_pages(DERIVED_PAGE, sid, None)
        return redacted

    async def _delete_pages(self, page: str, sid: bytes, *values: object) -> None:
        after: bytes | None = b""
        while after is not None:
            rows = await self._database.run(page, [sid, after, ROWS_MAX, sid, after, *values])
            after = rows[0][0] if rows else None
