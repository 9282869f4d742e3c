"""Verification: whether everything in the log is what was written.

Three walks in one read transaction: over the events (event_walk.py), over the archive, where every
payload is compared with the digest in its stub, and over every other table, where each row is
checked by itself and against the events. An index whose rows are as many as the events should have,
and each of these found by a search, has no others: no row of it is looked at again. Findings are
collected, not raised: a report of all the damage is worth more than the first of it. Dropped
payloads, and those without a key, are no damage; they are counted.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise

from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import EventLogError, MissingSegment
from eventlog.core.keys import NO_KEYS
from eventlog.core.records import Finding, Head, Heads, VerifyReport
from eventlog.core.rows import KEY_ID_BYTES, U64, key_check, unseal, unseal_record
from eventlog.keys.heads import FORMAT, compare_event, compare_log
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.erasing import TABLE as ERASURES
from eventlog.lmdb.file import Cursor, Transaction
from eventlog.lmdb.ledger import unseal_totals
from eventlog.lmdb.opening import KEYS_ROW, Files, FormatRecord, load_keys_identity
from eventlog.lmdb.reading import check_entry
from eventlog.lmdb.segment import ArchiveBlock, SegmentId, walk
from eventlog.lmdb.tables import (
    ErasureRecord,
    RequestRecord,
    SegmentRecord,
    SnapshotRecord,
    StreamRecord,
    event_at,
    scan,
    stream_records,
    unpack_segment,
)
from eventlog.upkeep.event_walk import INDEXES, ROWS_AT_ONCE, SID, EventWalk, WalkedEnd

META_ROWS = 2  # the format and the totals; one more if it is encrypted

Check = Callable[[bytes, bytes], object]


class Verification:
    """One verification of a log."""

    def __init__(self, files: Files, progress: Progress | None, against: Heads | None = None):
        self._env = files.env
        self._reading = files.reading
        self._archive = files.archive
        self._has_keys = files.keys not in (None, NO_KEYS)
        self._progress = progress or (lambda _done, _total: None)
        self._against = against
        self._findings: list[Finding] = []
        self._walk: EventWalk
        self._prefix = b""
        self._dropped: set[SegmentId] = set()
        self._erasing: dict[bytes, int] = {}  # until which version, where that is under way

    def run(self) -> VerifyReport:
        """Read everything and report."""
        with self._env.read() as txn:
            for sid, value in scan(txn, ERASURES, b""):
                with suppress(EventLogError):  # damage shows with the table
                    erasure = unseal_record(value, ErasureRecord, "an erasure", sid)
                    self._erasing[sid] = erasure.until
            last: int = txn.stat(txn.tables["events"])["entries"]
            walk = EventWalk(self._reading, txn, self._erasing, self._found)
            self._walk = walk
            walk.run(lambda done: self._progress(done, last))
            self._check_entries(txn, "events", walk.rows)
            self._check_archive(txn)
            self._check_tables(txn)
            self._check_unread()
            if self._against is not None:
                self._compare(txn, self._against)
        self._progress(last, last)
        dropped = sum(walk.stubs[segment] for segment in self._dropped)
        archived = walk.stubs.total() - dropped
        return VerifyReport(
            walk.events,
            len(walk.ends),
            self._findings,
            archived,
            dropped,
            walk.erased,
            walk.index.unread.total(),
            walk.redacted,
        )

    # --- the archive

    def _check_archive(self, txn: Transaction) -> None:
        segments = self._segments(txn)
        for segment, record in segments.items():
            if segment.sid in self._erasing:
                continue
            if record.dropped_at_us is not None or self._check_segment(txn, segment, record):
                self._dropped.add(segment)
            self._walk.index.search()
            if self._walk.stubs[segment] != record.events:
                message = (
                    f"{self._walk.stubs[segment]} events are in {segment.name}, not {record.events}"
                )
                self._found(0, segment.sid, message)
        for segment in self._walk.stubs.keys() - segments.keys():
            self._found(0, segment.sid, f"{segment.name} has no record")
        if self._erasing or any(self._walk.stubs[segment] for segment in self._dropped):
            self._walk.index.count = None

    def _check_segment(self, txn: Transaction, segment: SegmentId, record: SegmentRecord) -> bool:
        """Check a segment that should be there; say whether retention has dropped it meanwhile."""
        events = 0
        try:
            for offset, block in walk(self._archive.directory, segment):
                events += len(block.versions)
                for slot in range(len(block.versions)):
                    place = frame.Place(segment.number, offset, slot)
                    self._check_archived(txn, segment, place, block)
        except MissingSegment as error:
            if self._reading.dropped_now(segment) is not None:
                return True
            self._lost(segment, str(error))
        except EventLogError as error:
            self._lost(segment, str(error))
        else:
            if events != record.events:
                self._lost(segment, f"{segment.name} has {events} payloads, not {record.events}")
            if self._archive.sha256(segment) != record.sha256:
                self._lost(segment, f"{segment.name} is not the file that was sealed")
        return False

    def _check_archived(
        self, txn: Transaction, segment: SegmentId, place: frame.Place, block: ArchiveBlock
    ) -> None:
        sid, version = segment.sid, block.versions[place.slot]
        try:
            position, data = self._reading.row(txn, sid.hex(), sid, version)
            taken, entry = frame.read(position, data), block.entry(place.slot)
            stub = taken[-1]
            if not isinstance(stub, frame.Pointer) or stub.place != place:
                self._found(position, sid, f"its payload is not said to be at {place}")
                return
            check_entry(entry, taken[1], place, stub.digest)
            payload = frame.Encrypted(entry.raw) if stub.is_encrypted else entry.raw
            self._walk.index.add_keys(position, taken, payload)
        except EventLogError as error:
            self._lost(segment, f"version {version} in {segment.name}: {error}")

    def _lost(self, segment: SegmentId, message: str) -> None:
        self._walk.index.count = None
        self._found(0, segment.sid, message)

    def _segments(self, txn: Transaction) -> dict[SegmentId, SegmentRecord]:
        segments = {}
        for key, value in self._rows(txn, "segments"):
            with suppress(EventLogError):
                segment, record = unpack_segment(key, value)
                segments[segment] = record
        return segments

    # --- the other tables

    def _check_tables(self, txn: Transaction) -> None:
        checks: dict[str, Check] = {
            "streams": self._check_stream,
            "versions": lambda key, _value: self._check_version(key[:SID], key[SID:]),
            "keys": self._check_key,
            "requests": self._check_request,
            "snapshots": lambda _key, value: unseal_record(value, SnapshotRecord, "a snapshot"),
            "checkpoints": self._check_checkpoint,
            "projections": lambda key, value: unseal(value, "an entry", key),
            "meta": self._check_meta,
            "segments": unpack_segment,
            ERASURES: lambda key, value: unseal_record(value, ErasureRecord, "an erasure", key),
        }
        should = {"versions": self._walk.events, "keys": self._walk.index.count}
        with suppress(EventLogError):  # which the check of its row finds
            is_encrypted = load_keys_identity(txn) is not None
            should["meta"] = META_ROWS + is_encrypted
        for table, check in checks.items():
            self._check_table(txn, table, check, should.get(table))
        for sid in self._walk.ends:
            if txn.get(sid, db=txn.tables["streams"]) is None:
                self._found(0, sid, "the stream has events and no record")

    def _check_unread(self) -> None:
        if self._has_keys:
            for sid, events in self._walk.index.unread.items():
                self._found(
                    0, sid,
                    f"its key is not in the file of keys (events that cannot be read: {events:,}): "
                    "put a newer copy of that file back, or, if it was erased since the backup "
                    "that this is, erase it again",
                )  # fmt: skip

    def _check_table(self, txn: Transaction, table: str, check: Check, should: int | None) -> None:
        count, handle = 0, txn.tables[table]
        is_searched = table in INDEXES and should is not None
        all_found = is_searched and table not in self._walk.index.missed
        if all_found and txn.stat(handle)["entries"] == should:
            self._check_known(txn, table)
            return
        with txn.cursor(handle) as cursor:
            for key, value in self._rows(txn, table):
                count += 1
                if table == "keys":
                    self._check_prefix(cursor, key)
                if not is_searched and txn.get(key, db=handle) != value:
                    message = f"a search in table {table} misses a row that is there"
                    self._found(0, key[:SID], message)
                try:
                    check(key, value)
                except EventLogError as error:
                    self._found(0, key[:SID], f"in table {table}: {error}")
        if should is not None and count != should:
            self._found(0, b"", f"table {table} has {count} rows and should have {should}")

    def _check_known(self, txn: Transaction, table: str) -> None:
        """Check an index that has as many rows as were searched for, and found: their order."""
        count, last = 0, b""
        with (
            txn.cursor(txn.tables[table]) as cursor,
            txn.cursor(txn.tables[table]) as searching,
        ):
            rows = cursor.iternext(values=False)
            while keys := list(islice(rows, ROWS_AT_ONCE)):
                self._check_order(table, [last, *keys])
                count, last = count + len(keys), keys[-1]
                if table == "keys":
                    for key in keys:
                        self._check_prefix(searching, key)
        self._check_entries(txn, table, count)

    def _rows(self, txn: Transaction, table: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a table; they must be in order, and as many as it says it has."""
        count, before = 0, b""
        with txn.cursor(txn.tables[table]) as cursor:
            for key, value in cursor:
                self._check_order(table, (before, key))
                count, before = count + 1, key
                yield key, value
        self._check_entries(txn, table, count)

    def _check_order(self, table: str, keys: Sequence[bytes]) -> None:
        for key in [later for earlier, later in pairwise(keys) if later <= earlier]:
            self._found(0, b"", f"table {table} is out of order at {key.hex()}")

    def _check_entries(self, txn: Transaction, table: str, rows: int) -> None:
        entries = txn.stat(txn.tables[table])["entries"]
        if rows != entries:
            self._found(0, b"", f"table {table} says {entries} rows and has {rows}")

    def _check_stream(self, sid: bytes, value: bytes) -> None:
        record = unseal_record(value, StreamRecord, "a stream's record")
        end = self._walk.ends.get(sid) or WalkedEnd(0, frame.chain_start(sid))
        nameless = not record.name and record.is_empty
        if not nameless and frame.stream_id(record.name) != sid:
            self._found(0, sid, f"its record is of stream {record.name!r}")
        if record.erased_version != end.erased:
            self._found(0, sid, f"its record says it is erased up to {record.erased_version}")
        if (record.version, record.chain) != (end.version, end.chain):
            self._found(0, sid, f"its record says version {record.version}, not {end.version}")
        if record.stored_bytes != end.stored_bytes:
            self._found(0, sid, f"its record says {record.stored_bytes} stored bytes")

    def _check_version(self, sid: bytes, version: bytes) -> None:
        end = self._walk.ends.get(sid)
        if end is None or len(version) != U64.size or not 0 < U64.unpack(version)[0] <= end.version:
            self._found(0, sid, f"an index has version {version.hex()}, which the stream has not")

    def _check_prefix(self, cursor: Cursor, key: bytes) -> None:
        """See that a search for a key leads to the first of its rows."""
        prefix = key[: SID + KEY_ID_BYTES]
        if prefix != self._prefix:
            self._prefix = prefix
            if not cursor.set_range(prefix) or cursor.key() != key:
                self._found(0, key[:SID], "a search in the index of keys leads elsewhere")

    def _check_key(self, key: bytes, value: bytes) -> None:
        if value != key_check(key):
            self._found(0, key[:SID], "a row in the index of keys is damaged")
        self._check_version(key[:SID], key[SID + KEY_ID_BYTES :])

    def _check_request(self, key: bytes, value: bytes) -> None:
        record = unseal_record(value, RequestRecord, "an idempotency key")
        end = self._walk.ends.get(key[:SID])
        if record.key != key:
            self._found(0, key[:SID], "an idempotency key is kept under another one")
        if end is None or not 0 < record.first_version <= record.last_version <= end.version:
            self._found(0, key[:SID], "an idempotency key got events that are not there")

    def _check_checkpoint(self, key: bytes, value: bytes) -> None:
        if len(unseal(value, "a checkpoint", key)) != U64.size:
            self._found(0, b"", "a checkpoint is no position")

    def _check_meta(self, key: bytes, value: bytes) -> None:
        if key == b"format":
            unseal_record(value, FormatRecord, "the store's format")
        elif key == KEYS_ROW:
            unseal(value, "the identity of the store's keys", key)
        else:  # what it should come to is known to those who count; that it is whole, to its CRC
            unseal_totals(key, value)

    def _compare(self, txn: Transaction, heads: Heads) -> None:
        digest, events = _digest(txn, max(heads.position, 0))
        compare_log(heads, events, digest, self._found)
        for name, head in heads.streams.items():
            sid = bytes.fromhex(name)
            at, data = event_at(txn, sid, head.version)
            position = U64.unpack(at)[0] if at else 0
            compare_event(head, sid, position, frame.chain_of(data), self._found)

    def _found(self, position: int, sid: bytes, message: str) -> None:
        self._findings.append(Finding(position, sid.hex(), message))


def read_heads(env: Environment, now_us: int) -> Heads:
    """Return where the log stands. Reads all of it. Blocks."""
    with env.read() as txn:
        digest, position = _digest(txn)
        streams = {
            sid.hex(): Head(record.version, record.chain.hex())
            for sid, record in stream_records(txn)
        }
    return Heads(FORMAT, now_us, position, digest, streams)


def _digest(txn: Transaction, until: int | None = None) -> tuple[str, int]:
    digest, count = hashlib.sha256(), 0
    with txn.cursor(txn.tables["events"]) as cursor:
        for data in islice(cursor.iternext(keys=False, values=True), until):
            digest.update(frame.chain_of(data))
            count += 1
    return digest.hexdigest(), count
