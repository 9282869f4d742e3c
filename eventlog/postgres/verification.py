"""Verifying a store: that every event is the one that was written, and follows from those before.

Events are read stream by stream up to where the log ended at the start, while it goes on. What is
compared: each frame with its CRC, each payload with its digest, each digest with the chain of its
stream, the end of each chain with the record of the stream, positions with their number; and
published heads with all of that.
"""

import hashlib
from collections import Counter
from typing import NamedTuple

import anyio.to_thread

from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, UnknownEvent
from eventlog.core.records import Finding, Head, Heads, VerifyReport
from eventlog.keys.heads import FORMAT, compare_event, compare_log
from eventlog.postgres.database import Database, Row
from eventlog.postgres.reading import EVENT, READ_CHAIN

EVENTS_AT_ONCE = 512

STREAMS = "SELECT sid, version, chain, erased_version FROM stream ORDER BY sid"
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


class _StreamRow(NamedTuple):
    version: int
    chain: bytes
    erased_version: int


class PgVerification:
    """One pass over a store."""

    def __init__(self, database: Database, progress: Progress | None, against: Heads | None):
        self._database = database
        self._progress = progress
        self._against = against
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()
        self._streams: dict[bytes, _StreamRow] = {}

    async def run(self) -> VerifyReport:
        """Read everything and return what was found."""
        rows = await self._database.run(STREAMS)
        self._streams = {sid: _StreamRow(*stream) for sid, *stream in rows}
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
        """Check one event behind another; return its chain value."""
        position, sid, version, header, gone_at, payload, is_moved = row
        stream = self._streams.get(sid)
        if version != before + 1:
            self._found(position, sid, f"version {before + 1} is missing")
        is_erased = stream is not None and version <= stream.erased_version
        self._counts["erased"] += is_erased
        self._counts["dropped"] += gone_at is not None and not is_erased
        self._counts["archived"] += is_moved and payload is not None
        try:
            whole = frame.erased(version, header, gone_at or 0) if payload is None else None
            if payload is None and gone_at is None and not is_erased:
                raise CorruptLog("its payload is missing")
            taken = frame.unpack(version, header + payload if whole is None else whole)
            if (taken.stream_id, taken.version) != (sid, version):
                raise CorruptLog("it is the frame of another event")
            if not frame.check_chain(taken, prev):
                raise CorruptLog("its digest or chain does not follow from what is there")
        except (CorruptLog, UnknownEvent) as error:
            self._found(position, sid, str(error))
        chain = frame.chain_of(header)
        if stream is not None and version == stream.version and chain != stream.chain:
            self._found(position, sid, "the record of the stream has another chain")
        return chain

    async def _compare(self, heads: Heads) -> None:
        """Report each difference between the log and its published heads."""
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
