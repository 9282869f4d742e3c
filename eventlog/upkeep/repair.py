"""Repair: the valid beginning of each stream of a damaged log, in a new one.

Repair never changes the source and never guesses: a copy of the damaged file is opened. Each event,
in order of position, is copied if it is valid and continues the copied part of its stream. The
first event that is not ends its stream; what is behind it is left behind and reported. Snapshots,
checkpoints and projections are left out; totals are for the caller to count.

An event whose key is not here is kept, and is not found by what it is about.

LMDB can end the process that reads a damaged tree: do it in a child.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from eventlog.core import frame
from eventlog.core.codec import EventRegistry
from eventlog.core.errors import CorruptLog, EventLogError, KeyGone, LogUnavailable
from eventlog.core.frame import Frame
from eventlog.core.keys import NO_KEYS, Keys
from eventlog.core.records import LeftBehind, RepairReport
from eventlog.core.rows import U64, key_check, seal_record, unseal_record
from eventlog.core.rules import count
from eventlog.files import log_directory
from eventlog.files.datafile import is_there
from eventlog.files.pages import pad
from eventlog.lmdb.archive import Archive
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import EVENTS_AT_ONCE, Ledger, put_totals
from eventlog.lmdb.opening import load_keys_identity, put_format
from eventlog.lmdb.reading import LogReading, refilled
from eventlog.lmdb.segment import SegmentId
from eventlog.lmdb.tables import (
    TABLES,
    RequestRecord,
    SegmentRecord,
    StreamRecord,
    load_segment,
    put_events,
    put_segment,
    scan,
)
from eventlog.upkeep.copying import copied, verify_copy


@dataclass(slots=True)
class _Kept:
    record: StreamRecord
    broken: str | None = None
    lost: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    """The new positions of its events, by version."""


def repair(
    source: Path,
    target: Path,
    registry: EventRegistry,
    now_us: int,
    *,
    keys: Keys = NO_KEYS,
    recount: Callable[[Path], Mapping[str, int]] | None = None,
    also: Callable[[Path], object] | None = None,
) -> RepairReport:
    """Copy the readable events of the log in `source` to a new log in `target`. Blocks.

    `keys` are those of the log, if it is encrypted. `recount(path)` and `also(path)` are called
    with the new log, closed, before it is given its name: `target` is there with all of it, or not
    at all. The totals that `recount` returns are put into it; without, there are none.

    :raises LogLocked: `source` is open.
    :raises LogUnavailable: it is no log, or there is something at `target`.
    :raises UnknownEvent: it has events that the registry does not know.
    :raises CorruptLog: nothing of it can be read.
    :raises KeysUnavailable: `keys` are not those of the log; see the message.
    :raises DiskFull: the disk is full; no new log remains.
    :raises StorageFailed: a write failed; no new log remains.
    """
    if is_there(target) or not is_there(source / log_directory.LOG):
        raise LogUnavailable(f"there is no log in {source}, or {target} is there already")
    with log_directory.written(target, ".repairing") as scratch, log_directory.held(source):
        for name in (log_directory.LOG, log_directory.ANCHOR):
            if is_there(source / name):
                copied(source / name, scratch / f"damaged-{name}")
        pad(scratch / f"damaged-{log_directory.LOG}")
        report = _Repair(source, scratch, registry, now_us, keys).run(target)
        for path in scratch.glob("damaged-*"):
            path.unlink()
        verify_copy(scratch, registry, now_us)
        if recount is not None:
            totals = count({}, recount(scratch))
            with closing(Environment(scratch / log_directory.LOG, TABLES)) as env:
                env.write(lambda txn: put_totals(txn, totals))
        if also is not None:
            also(scratch)
        log_directory.put_in_place(scratch, target)
    return report


class _Repair:
    def __init__(
        self, source: Path, scratch: Path, registry: EventRegistry, now_us: int, keys: Keys
    ):
        self._scratch = scratch
        self._now_us = now_us
        self._old = Environment(
            scratch / f"damaged-{log_directory.LOG}", TABLES, checked_bytes_max=None
        )
        self._new = Environment(scratch / log_directory.LOG, TABLES)
        self._archive = Archive(source / log_directory.ARCHIVE)
        self._registry = registry
        self._keys = keys
        self._streams: dict[bytes, _Kept] = {}
        self._dropped: Counter[SegmentId] = Counter()
        self._position = 0
        self._unreadable = 0
        self._last: int | None = None
        """Last position of the old log, or None if unknown."""

    def run(self, target: Path) -> RepairReport:
        try:
            self._last = self._last_position()
            identity = self._matched()
            ledger, keys = Ledger(self._new), self._keys if identity else None
            self._reading = LogReading(self._new, ledger, self._registry, self._archive, keys)
            self._new.write(lambda txn: put_format(txn, self._now_us, identity))
            events = self._events()
            while batch := list(islice(events, EVENTS_AT_ONCE)):
                self._new.write(partial(self._put, batch=batch))
                self._position += len(batch)
            self._new.write(self._finish)
            return self._report(target)
        finally:
            self._old.close()
            self._new.close()

    def _matched(self) -> bytes:
        """Return the identity of the keys of the old log, empty if it is not encrypted."""
        identity = None
        try:
            with self._old.read() as txn:
                identity = load_keys_identity(txn)
        except CorruptLog:  # the first event that is whole says whether it was
            for position in range(1, (self._last or 0) + 1):
                with suppress(EventLogError):
                    taken, _ = self._old_event(position)
                    identity = b"" if taken.is_encrypted else None
                    break
        return b"" if identity is None else self._keys.attach(identity)

    def _report(self, target: Path) -> RepairReport:
        left_behind = []
        for sid, kept in self._streams.items():
            known = self._old_record(sid)
            lost = max(kept.lost, 0 if known is None else known.version - kept.record.version)
            if lost:
                why = kept.broken or "its last events are missing"
                left_behind.append(LeftBehind(sid.hex(), kept.record.version, lost, why))
        missing = None
        if self._last is not None:
            found = self._position + sum(each.lost for each in left_behind)
            missing = max(0, self._last - found)
        streams = sum(kept.record.version > 0 for kept in self._streams.values())
        return RepairReport(
            str(target), self._position, streams, self._unreadable, left_behind, missing
        )

    # --- from the old log

    def _events(self) -> Iterator[tuple[Frame, bytes]]:
        """Yield each event that is whole and follows, with its payload; count the others."""
        for position in range(1, (self._last or 0) + 1):
            try:
                taken, data = self._old_event(position)
            except CorruptLog:
                self._unreadable += 1
                continue
            kept = self._kept(taken.stream_id)
            if kept.broken is None:
                try:
                    data = self._with_payload(position, taken, data, kept.record)
                except CorruptLog as error:
                    kept.broken = str(error)
            if kept.broken is None:
                kept.record = kept.record.after(taken)
                yield taken, data
            else:
                kept.lost += 1

    def _old_event(self, position: int) -> tuple[Frame, bytes]:
        with self._old.read() as txn:
            data = txn.get(U64.pack(position), b"", db=txn.tables["events"])
        return frame.unpack(position, data), data

    def _last_position(self) -> int | None:
        known = log_directory.read_anchor(self._scratch / f"damaged-{log_directory.ANCHOR}")
        try:
            with self._old.read() as txn:
                return max(known.position, Ledger(self._old).tail(txn).position)
        except EventLogError:
            return known.position if known.is_known else None

    def _kept(self, sid: bytes) -> _Kept:
        if sid not in self._streams:
            known = self._old_record(sid)
            name, epoch = ("", 0) if known is None else (known.name, known.epoch)
            record = StreamRecord(name, 0, epoch, 0, frame.chain_start(sid))
            self._streams[sid] = _Kept(record, "its record is lost" if known is None else None)
        return self._streams[sid]

    def _old_record(self, sid: bytes) -> StreamRecord | None:
        with suppress(CorruptLog), self._old.read() as txn:
            value = txn.get(sid, db=txn.tables["streams"])
            return None if value is None else unseal_record(value, StreamRecord, "a stream")
        return None

    def _with_payload(
        self, position: int, taken: Frame, data: bytes, before: StreamRecord
    ) -> bytes:
        if taken.version != before.version + 1:
            raise CorruptLog(f"version {before.version + 1} is missing")
        if not taken.follows(before.chain):
            raise CorruptLog(f"version {taken.version} does not follow from the one before it")
        if taken.place is None:
            return data
        segment = SegmentId(taken.stream_id, taken.place.number)
        try:
            with self._old.read() as txn:
                record = load_segment(txn, segment)
            if record.dropped_at_us is None:
                return refilled(self._archive, position, data, taken)
        except CorruptLog as error:
            raise CorruptLog(f"the payload of version {taken.version}: {error}") from error
        self._dropped[segment] += 1
        return data

    # --- into the new one

    def _put(self, txn: Transaction, batch: list[tuple[Frame, bytes]]) -> None:
        frames: list[bytes] = []
        rows: list[bytes] = []
        for position, (taken, data) in enumerate(batch, start=self._position + 1):
            frames.append(frame.moved(position, data))
            rows += self._key_rows(frame.read(position, frames[-1]))
            self._streams[taken.stream_id].positions[taken.version] = position
        put_events(txn, self._position, frames, [(row, key_check(row)) for row in rows])

    def _key_rows(self, taken: frame.Taken) -> Iterable[bytes]:
        sid, payload = taken[0], taken[-1]
        if isinstance(payload, bytes | frame.Encrypted):
            with suppress(KeyGone):
                return self._reading.key_rows(self._streams[sid].record.name, taken, payload)
        return ()

    def _finish(self, txn: Transaction) -> None:
        tables = txn.tables
        for sid, kept in self._streams.items():
            if not kept.record.version:
                continue
            nameless = kept.record.is_empty
            record = msgspec.structs.replace(kept.record, name="") if nameless else kept.record
            txn.put(sid, seal_record(record), db=tables["streams"])
            for key, request in self._requests(sid, kept):
                txn.put(key, seal_record(request), db=tables["requests"])
        for segment, events in self._dropped.items():
            with self._old.read() as old:
                record_of = load_segment(old, segment)
            gone = SegmentRecord(events, 0, 0, b"", record_of.sealed_at_us, record_of.dropped_at_us)
            put_segment(txn, segment, gone)

    def _requests(self, sid: bytes, kept: _Kept) -> Iterator[tuple[bytes, RequestRecord]]:
        """Yield the idempotency keys of events that were kept, as far as they can be read."""
        rows: list[tuple[bytes, bytes]] = []
        with suppress(CorruptLog), self._old.read() as txn:
            rows = list(scan(txn, "requests", sid))
        for key, value in rows:
            with suppress(CorruptLog):
                request = unseal_record(value, RequestRecord, "an idempotency key")
                position = kept.positions.get(request.last_version)
                if position is not None and request.last_version > kept.record.erased_version:
                    yield sid + key, msgspec.structs.replace(request, last_position=position)
