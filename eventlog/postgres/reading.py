"""Reading events: one statement a read, from rows to what callers get, checked on the way.

A row has the header of a frame and its payload, which makes the frame whole, archived or not. A
payload that is gone has a time at which it went. The rest of its frame has no CRC: `verify` checks
its chain, over all events that the log had when `verify` began.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import anyio.to_thread

from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, KeyGone, UnknownEvent
from eventlog.core.records import Dropped, Finding, Head, Heads, OnDropped, Recorded, VerifyReport
from eventlog.core.rules import FrameReading, about, without_payload
from eventlog.keys.heads import FORMAT, compare_event, compare_log
from eventlog.postgres.database import Database, Row
from eventlog.postgres.plan import Believed

EVENTS_AT_ONCE = 512

# The columns of an event, and those of its stream. An archived payload is looked for only where
# the row has none and says of none that it is gone.
EVENT = """
    e.position, e.sid, e.version, e.frame, e.gone_at,
    CASE WHEN e.payload IS NULL AND e.gone_at IS NULL
        THEN (SELECT payload FROM event_archive AS a WHERE a.sid = e.sid AND a.version = e.version)
        ELSE e.payload END AS payload
"""
OF_STREAM = "s.name, s.erased_version, s.erased_at"
READ_STREAM = f"""
    SELECT s.version, e.*, {OF_STREAM}
    FROM stream AS s
    LEFT JOIN LATERAL (
        SELECT {EVENT} FROM event AS e
        WHERE e.sid = s.sid AND e.version > %b AND e.version <= %b
        ORDER BY e.version
    ) AS e ON true
    WHERE s.sid = %b
"""  # noqa: S608 - of constants
READ_VERSIONS = f"""
    SELECT {EVENT}, {OF_STREAM} FROM event AS e JOIN stream AS s USING (sid)
    WHERE e.sid = %b AND e.version = ANY (%b)
"""  # noqa: S608 - of constants
READ_CHAIN = "SELECT position, frame FROM event WHERE sid = %b AND version = %b"
READ_ALL = f"""
    SELECT {EVENT}, {OF_STREAM} FROM event AS e JOIN stream AS s USING (sid)
    WHERE e.position > %b AND e.position <= %b ORDER BY e.position
"""  # noqa: S608 - of constants
# With the event there and the one behind it, which prove that it is this place: a header that is
# damaged leads a search by halves to its own event, and reading that finds the damage.
LOCATE = f"""
    SELECT v.version, {EVENT}, {OF_STREAM}
    FROM version_at(%b, %b, %b) AS v (version)
    LEFT JOIN stream AS s ON s.sid = %b
    LEFT JOIN event AS e ON e.sid = s.sid AND e.version IN (v.version, v.version + 1)
"""  # noqa: S608 - of constants


class RowReading(FrameReading):
    """Makes events of rows."""

    def stream(
        self, name: str, after: int, limit: int, rows: Sequence[Row], dropped: OnDropped
    ) -> list[Recorded[object]]:
        """Return the events that `READ_STREAM` found.

        :raises CorruptLog: one is missing.
        """
        found = [row[1:] for row in rows if row[1] is not None]
        head = rows[0][0] if rows else 0
        expected = range(after + 1, min(head, after + limit) + 1)
        if [row[2] for row in found] != list(expected):
            raise CorruptLog(f"events of stream {name!r} are missing: restore a backup")
        return [self._recorded(row, name, dropped) for row in found]

    def versions(
        self, name: str, versions: Sequence[int], rows: Iterable[Row], dropped: OnDropped
    ) -> list[Recorded[object]]:
        """Return the events that `READ_VERSIONS` found, in the order asked for.

        :raises CorruptLog: one is missing.
        """
        found = {row[2]: row for row in rows}
        missing = [version for version in versions if version not in found]
        if missing:
            raise CorruptLog(f"event {missing[0]} of stream {name!r} is missing: restore a backup")
        return [self._recorded(found[version], name, dropped) for version in versions]

    def located(self, name: str, rows: Sequence[Row], until: int, *, is_timed: bool) -> int:
        """Return the version that `LOCATE` found: of the last event by a position or a time.

        :raises CorruptLog: an event is missing there, or does not prove it.
        """
        version: int | None = rows[0][0]
        found = [self._recorded(row[1:], name, "mark") for row in rows if row[1] is not None]
        passed = {
            one.version: (one.recorded_at_us if is_timed else one.position) <= until
            for one in found
        }
        if version is None or any(passed[one] != (one <= version) for one in passed):
            raise CorruptLog(f"stream {name!r} is damaged or has gaps there: restore a backup")
        return version

    def all(
        self, after: int, rows: Iterable[Row], dropped: OnDropped
    ) -> Iterator[Recorded[object]]:
        """Yield the events that `READ_ALL` found.

        :raises CorruptLog: one is missing.
        """
        for position, row in enumerate(rows, after + 1):
            if row[0] != position:
                raise CorruptLog(f"event {position} is missing: restore a backup")
            name = row[6]
            try:
                yield self._recorded(row, None if name is None else name.decode(), dropped)
            except KeyGone:
                if dropped != "mark":
                    raise
                taken = frame.read(row[2], row[3] + row[5])
                gone = Dropped(taken[2], key_gone=True)
                yield without_payload(row[0], taken, name.decode(), gone, dropped)

    def _recorded(self, row: Row, name: str | None, dropped: OnDropped) -> Recorded[object]:
        position, sid, version, header, gone_at, payload, stored_name, erased_version, erased_at = (
            row
        )
        if version <= erased_version or gone_at is not None:
            at_us = erased_at if gone_at is None else gone_at
            taken = frame.read(version, frame.erased(version, header, at_us))
            gone = Dropped(at_us, erased=version <= erased_version)
            return without_payload(position, taken, name, gone, dropped)
        if name is None or stored_name is None or stored_name.decode() != name:
            raise CorruptLog(f"event {position} has a stream of another name: restore a backup")
        if payload is None:
            raise CorruptLog(f"the payload of event {position} is missing: restore a backup")
        try:
            taken = frame.read(version, header + payload)
            if taken[0] != sid or taken[1] != version:
                raise CorruptLog("it is the frame of another event: restore a backup")
        except (CorruptLog, UnknownEvent) as error:
            raise about(error, position, name) from error
        return self.recorded(position, taken, name, taken[7])


# --- verifying

STREAMS = """
    SELECT sid, version, epoch, stored_bytes, chain, recorded_at, erased_version
    FROM stream ORDER BY sid
"""
COUNT = "SELECT (SELECT position FROM log_tail), (SELECT count(*) FROM event)"
NEXT = f"""
    SELECT {EVENT}, e.payload IS NULL FROM event AS e
    WHERE (e.sid, e.version) > (%b, %b::bigint) AND e.position <= %b
    ORDER BY e.sid, e.version LIMIT %b
"""  # noqa: S608 - of constants
HEADS = """
    SELECT t.position, s.sid, s.version, s.chain FROM log_tail AS t LEFT JOIN stream AS s ON true
"""
HEADERS = "SELECT position, frame FROM event WHERE position > %b AND position <= %b ORDER BY 1"


class PgVerification:
    """One pass over a store."""

    def __init__(self, database: Database, progress: Progress | None, against: Heads | None):
        self._database = database
        self._progress = progress
        self._against = against
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()
        self._streams: dict[bytes, Believed] = {}

    async def run(self) -> VerifyReport:
        """Read everything and return what was found."""
        rows = await self._database.run(STREAMS)
        self._streams = {sid: Believed(*stream) for sid, *stream in rows}
        [(position, count)] = await self._database.run(COUNT)
        if count != position:
            self._found(0, b"", f"the log has {count} events, and its end is at {position}")
        await self._verify_events(position)
        if self._against is not None:
            await self._compare(self._against)
        return VerifyReport(
            events=self._counts["events"],
            streams=len(self._streams),
            findings=self._findings,
            archived_events=self._counts["archived"],
            dropped_events=self._counts["dropped"],
            erased_events=self._counts["erased"],
            redacted_events=self._counts["redacted"],
        )

    def _found(self, position: int, sid: bytes, message: str) -> None:
        self._findings.append(Finding(position, sid.hex(), message))

    async def _verify_events(self, until: int) -> None:
        sid, version, chain = b"", 0, b""
        seen: Counter[bytes] = Counter()
        while rows := await self._database.run(NEXT, [sid, version, until, EVENTS_AT_ONCE]):
            for row in rows:
                if row[1] != sid:
                    sid, chain, version = row[1], frame.chain_start(row[1]), 0
                chain = self._verify(row, version, chain)
                version = row[2]
                seen[sid] += 1
            self._counts["events"] += len(rows)
            if self._progress is not None:
                await anyio.to_thread.run_sync(self._progress, self._counts["events"], until)
        for sid, stream in self._streams.items():
            if seen[sid] < stream.version:
                self._found(0, sid, f"{stream.version - seen[sid]} events are missing")

    def _verify(self, row: Row, before: int, prev: bytes) -> bytes:
        position, sid, version, header, gone_at, payload, is_moved = row
        stream = self._streams.get(sid)
        if version != before + 1:
            self._found(position, sid, f"version {before + 1} is missing")
        is_erased = stream is not None and version <= stream.erased_version
        self._counts["erased"] += is_erased
        self._counts["dropped"] += gone_at is not None and not is_erased
        self._counts["archived"] += is_moved and payload is not None
        self._counts["redacted"] += frame.is_redacted(header)
        try:
            whole = frame.erased(version, header, gone_at or 0) if payload is None else None
            if payload is None and gone_at is None and not is_erased:
                raise CorruptLog("its payload is missing")
            taken = frame.unpack(version, header + payload if whole is None else whole)
            if (taken.stream_id, taken.version) != (sid, version):
                raise CorruptLog("it is the frame of another event")
            if not taken.follows(prev):
                raise CorruptLog("its digest or chain does not follow from what is there")
        except (CorruptLog, UnknownEvent) as error:
            self._found(position, sid, str(error))
        chain = frame.chain_of(header)
        if stream is not None and version == stream.version and chain != stream.chain:
            self._found(position, sid, "the record of the stream has another chain")
        return chain

    async def _compare(self, heads: Heads) -> None:
        digest, events = await digest_until(self._database, heads.position)
        compare_log(heads, events, digest, self._found)
        for name, head in heads.streams.items():
            sid = bytes.fromhex(name)
            rows = await self._database.run(READ_CHAIN, [sid, head.version])
            [(position, header)] = rows or [(0, b"")]
            compare_event(head, sid, position, frame.chain_of(header), self._found)


async def digest_until(database: Database, until: int) -> tuple[str, int]:
    """Return the digest over the chains of all events up to a position, and their number."""
    digest, position = hashlib.sha256(), 0
    while position < until:
        values = [position, min(position + EVENTS_AT_ONCE, until)]
        rows = await database.run(HEADERS, values)
        for at, header in rows:
            if at != position + 1:
                return digest.hexdigest(), position
            position = at
            digest.update(frame.chain_of(header))
        if not rows:
            break
    return digest.hexdigest(), position


async def read_heads(database: Database, now_us: int) -> Heads:
    """Return where the log and its streams stand at one moment. Reads all of it."""
    rows = await database.run(HEADS)
    position = rows[0][0]
    streams = {sid.hex(): Head(version, chain.hex()) for _, sid, version, chain in rows if sid}
    digest, _ = await digest_until(database, position)
    return Heads(FORMAT, now_us, position, digest, streams)
