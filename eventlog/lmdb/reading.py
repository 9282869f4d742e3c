"""Reading events, inside one transaction: from rows to what callers get, checked on the way.

An event whose payload is in the archive reads as any other: its stub says where the payload is, and
the digest in the stub says whether what came back is what was taken there. If retention has dropped
it, the record of its segment says so, and the caller has chosen how to handle that.

The same is true of an erased event. Its stub says so; while the erasure is under way, and the
payload may still be there, the record of its stream does. Such an event does not carry its stream's
name, because the name may have been the reason to erase it.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

import msgspec

from eventlog.core import frame
from eventlog.core.codec import EventRegistry, EventType
from eventlog.core.errors import CorruptLog, KeyGone, MissingSegment, UnknownEvent
from eventlog.core.keys import Keys
from eventlog.core.plain_events import Row, packed_types, read_plain
from eventlog.core.records import Dropped, OnDropped, Recorded
from eventlog.core.rows import U64, blind_id, key_check, key_rows
from eventlog.core.rules import FrameReading, about, cipher_to_read, without_payload
from eventlog.lmdb.archive import Archive
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Cursor, Transaction
from eventlog.lmdb.ledger import Ledger
from eventlog.lmdb.segment import Entry, SegmentId
from eventlog.lmdb.tables import (
    StreamRecord,
    load_segment,
    neighbours,
    scan,
)


class LogReading(FrameReading):
    """Reads of events; each takes the transaction it happens in."""

    def __init__(
        self,
        env: Environment,
        ledger: Ledger,
        registry: EventRegistry,
        archive: Archive,
        keys: Keys | None = None,
    ):
        super().__init__(registry, keys)
        self._env = env
        self._ledger = ledger
        self._archive = archive

    def event(
        self, txn: Transaction, position: int, dropped: OnDropped = "raise"
    ) -> Recorded[object] | None:
        """Return the event at a position of the log."""
        data = txn.get(U64.pack(position), db=txn.tables["events"])
        if data is None and position <= self._ledger.tail(txn).position:
            raise CorruptLog(f"event {position} is missing: restore a backup")
        if data is None:
            return None
        taken = frame.read(position, data)
        record = self._ledger.stream_record(txn, taken[0])
        return self._recorded(txn, position, taken, record, dropped)

    def events(
        self, txn: Transaction, after: int, limit: int, dropped: OnDropped = "raise"
    ) -> list[Recorded[object]]:
        """Return up to `limit` events of the log behind position `after`.

        In an encrypted log, events of a stream without a key count as dropped: others are
        still read.
        """
        streams: dict[bytes, StreamRecord] = {}
        found = []
        for position, data in self.frames(txn, after, limit):
            taken = frame.read(position, data)
            stream = streams.get(taken[0])
            if stream is None:
                stream = streams[taken[0]] = self._ledger.stream_record(txn, taken[0])
            try:
                found.append(self._recorded(txn, position, taken, stream, dropped))
            except KeyGone:
                if dropped != "mark":
                    raise
                gone = Dropped(taken[2], key_gone=True)
                found.append(without_payload(position, taken, stream.name, gone, dropped))
        return found

    def frames(self, txn: Transaction, after: int, limit: int) -> Iterator[tuple[int, bytes]]:
        """Yield up to `limit` frames behind a position as they are stored, in order of position.

        :raises CorruptLog: one is missing.
        """
        with txn.cursor(txn.tables["events"]) as cursor:
            if not cursor.set_range(U64.pack(after + 1)):
                return
            for expected, (key, data) in enumerate(cursor, start=after + 1):
                if expected > after + limit:
                    return
                if key != U64.pack(expected):
                    raise CorruptLog(f"event {expected} is missing: restore a backup")
                yield expected, data

    def stream_events(
        self, txn: Transaction, name: str, after: int, limit: int, dropped: OnDropped = "raise"
    ) -> list[Recorded[object]]:
        """Return up to `limit` events of a stream behind version `after`."""
        sid, stream = frame.stream_id(name), self._ledger.stream(txn, name)
        until = min(stream.version, after + limit)
        if until <= after:
            return []
        with txn.cursor(txn.tables["versions"]) as cursor:
            rows = (
                cursor.iternext(keys=False) if cursor.set_range(sid + U64.pack(after + 1)) else ()
            )
            places = list(islice(rows, until - after))
        if len(places) < until - after:
            raise CorruptLog(f"events of stream {name!r} are missing: restore a backup")
        return self._events_at(txn, places, range(after + 1, until + 1), stream, sid, dropped)

    def stream_versions(
        self, txn: Transaction, name: str, versions: Sequence[int], dropped: OnDropped = "raise"
    ) -> list[Recorded[object]]:
        """Return these events of a stream that has them, in the order asked for.

        :raises CorruptLog: one is missing, damaged or another one.
        """
        sid, stream = frame.stream_id(name), self._ledger.stream(txn, name)
        places = self._packed_positions(txn, name, sid, versions)
        return self._events_at(txn, places, versions, stream, sid, dropped)

    def _packed_positions(
        self, txn: Transaction, name: str, sid: bytes, versions: Sequence[int]
    ) -> list[bytes]:
        get, table, pack = txn.get, txn.tables["versions"], U64.pack
        places = []
        for version in versions:
            if not 0 < version < 1 << 64:
                raise CorruptLog(f"stream {name!r} has no event {version}")
            packed = get(sid + pack(version), db=table)
            if packed is None:
                raise _missing(name, version)
            if len(packed) != U64.size:
                message = f"the index has no position for event {version} of stream {name!r}"
                raise CorruptLog(message)
            places.append(packed)
        return places

    def row(self, txn: Transaction, name: str, sid: bytes, version: int) -> tuple[int, bytes]:
        """Return the position of an event of a stream and its frame as stored.

        :raises CorruptLog: it is missing.
        """
        (packed,) = self._packed_positions(txn, name, sid, (version,))
        data = txn.get(packed, db=txn.tables["events"])
        if data is None:
            raise _missing(name, version)
        return U64.unpack(packed)[0], data

    def _events_at(
        self,
        txn: Transaction,
        places: Sequence[bytes],
        versions: Sequence[int],
        stream: StreamRecord,
        sid: bytes,
        dropped: OnDropped,
    ) -> list[Recorded[object]]:
        """Return the events in the rows at packed positions, which must be these versions."""
        with txn.cursor(txn.tables["events"]) as cursor:
            rows = _rows_at(cursor, places)
        if len(rows) < len(places):
            there = {place for place, _ in rows}
            lost = zip(places, versions, strict=True)
            raise _missing(stream.name, next(v for place, v in lost if place not in there))
        found: list[Recorded[object]] = []
        packed, types = self._types
        name, erased = stream.name, stream.erased_version
        plain = read_plain(packed, len(types), rows, sid, versions)
        for version, row, read in zip(versions, rows, plain, strict=False):
            position, at_us, raw, stored, kind, meta_at, data_at = read
            if kind < 0 or version <= erased:
                found.append(self._version(txn, row, version, stream, sid, dropped))
                continue
            data, of = row[1], types[kind]
            meta = data[meta_at:data_at]
            try:
                event = of.decode(data[data_at:])
            except (msgspec.DecodeError, UnicodeDecodeError):
                event = self._version(txn, row, version, stream, sid, dropped).data  # it raises
            found.append(Recorded(name, version, position, at_us, of.tag, event, raw, stored, meta))
        return found

    @cached_property
    def _types(self) -> tuple[bytes, list[EventType]]:
        types = self.plain_types()
        return packed_types(types), list(types.values())

    def plain_types(self) -> dict[tuple[bytes, int], EventType]:
        """Return the types of plain events, by tag and schema: none if this log is encrypted."""
        return self._registry.types() if self._keys is None else {}

    def _version(
        self,
        txn: Transaction,
        row: Row,
        version: int,
        stream: StreamRecord,
        sid: bytes,
        dropped: OnDropped,
    ) -> Recorded[object]:
        position = U64.unpack(row[0])[0]
        taken = frame.read(position, row[1])
        if taken[1] != version or taken[0] != sid:
            message = f"event {position} is not version {version} of stream {stream.name!r}"
            raise CorruptLog(message)
        return self._recorded(txn, position, taken, stream, dropped)

    def versions_about(self, txn: Transaction, name: str, key: str) -> list[int]:
        """Return the versions of a stream's events about a key, in order.

        :raises CorruptLog: a row there, or beside them, is not as it was written.
        """
        stream = self._ledger.stream(txn, name)
        if stream.is_empty:
            return []
        prefix = frame.stream_id(name) + blind_id(key, cipher_to_read(self._keys, name))
        found = [(prefix + rest, check) for rest, check in scan(txn, "keys", prefix)]
        last = found[-1][0] + b"\0" if found else prefix
        beside = [*neighbours(txn, "keys", prefix)]
        beside += neighbours(txn, "keys", last)
        damaged = any(check != key_check(row) for row, check in (*found, *beside))
        missed = any(row.startswith(prefix) for row, _ in set(beside) - set(found))
        if damaged or missed:
            raise CorruptLog(f"the index of keys is damaged near stream {name!r}: verify the log")
        versions = (U64.unpack(row[len(prefix) :])[0] for row, _ in found)
        return [version for version in versions if version > stream.erased_version]

    def rows_of(
        self, txn: Transaction, taken: frame.Taken, payload: bytes | frame.Encrypted
    ) -> list[bytes]:
        """Return `key_rows` of an event, after looking up its stream's name."""
        name = "" if self._keys is None else self._ledger.stream_record(txn, taken[0]).name
        return self.key_rows(name, taken, payload)

    def key_rows(
        self, name: str, taken: frame.Taken, payload: bytes | frame.Encrypted
    ) -> list[bytes]:
        """Return the rows in the index of keys that an event of a stream has.

        `payload` is what the frame or the archive has of it.

        :raises KeyGone: it is encrypted, and the key is not here.
        """
        sid, version, _, _, _, schema, tag, _ = taken
        cipher = cipher_to_read(self._keys, name)
        if cipher is not None or isinstance(payload, frame.Encrypted):
            payload = self.decrypted(taken, name, payload)
        keys = self._registry.keys_in(tag, schema, payload)
        return key_rows(sid, keys, U64.pack(version), cipher)

    def _recorded(
        self,
        txn: Transaction,
        position: int,
        taken: frame.Taken,
        stream: StreamRecord,
        dropped: OnDropped,
    ) -> Recorded[object]:
        _, version, _, _, _, _, _, payload = taken
        if version <= stream.erased_version:
            at = payload if isinstance(payload, frame.ErasedMark) else stream
            gone = Dropped(at.erased_at_us, erased=True)
            return without_payload(position, taken, stream.name, gone, dropped)
        if isinstance(payload, frame.Pointer | frame.ErasedMark):
            try:
                found = self._fetched(txn, taken, payload)
            except (CorruptLog, UnknownEvent) as error:
                raise about(error, position, stream.name) from error
            if isinstance(found, Dropped):
                return without_payload(position, taken, stream.name, found, dropped)
            payload = found
        return self.recorded(position, taken, stream.name, payload)

    # --- the archive

    def payload(self, txn: Transaction, taken: frame.Taken) -> frame.Payload | Dropped:
        """Return the payload of an event from where it is, or since when it is gone."""
        payload = taken[7]
        return self._fetched(txn, taken, payload) if isinstance(payload, frame.Pointer) else payload

    def _fetched(
        self, txn: Transaction, taken: frame.Taken, pointer: frame.Pointer | frame.ErasedMark
    ) -> bytes | frame.Encrypted | Dropped:
        if isinstance(pointer, frame.ErasedMark):
            raise CorruptLog("it is erased and its stream is not: restore a backup")
        sid, version = taken[:2]
        segment = SegmentId(sid, pointer.place.number)
        gone = self._dropped(txn, segment)
        if gone is not None:
            return gone
        try:
            entry = self._archive.entry(sid, pointer.place)
        except MissingSegment:
            gone = self.dropped_now(segment)
            if gone is None:
                raise
            return gone
        check_entry(entry, version, pointer.place, pointer.digest)
        return frame.Encrypted(entry.raw) if pointer.is_encrypted else entry.raw

    def dropped_now(self, segment: SegmentId) -> Dropped | None:
        """Return since when a segment is gone, by what has been committed up to now.

        Retention may drop one while a transaction is open that still sees it.
        """
        with self._env.read() as now:
            return self._dropped(now, segment)

    def _dropped(self, txn: Transaction, segment: SegmentId) -> Dropped | None:
        since_us = load_segment(txn, segment).dropped_at_us
        return None if since_us is None else Dropped(since_us)


def _rows_at(cursor: Cursor, places: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the rows at these packed positions, those that are there.

    If positions are consecutive, as in one stream written alone, a cursor walks along them:
    half of what it takes to search for each.
    """
    count = len(places)
    if count > 1 and U64.unpack(places[-1])[0] - U64.unpack(places[0])[0] == count - 1:
        rows = list(islice(cursor, count)) if cursor.set_range(places[0]) else []
        if [place for place, _ in rows] == places:
            return rows
    return cursor.getmulti(places)


def _missing(name: str, version: int) -> CorruptLog:
    return CorruptLog(f"event {version} of stream {name!r} is missing: restore a backup")


def check_entry(entry: Entry, version: int, place: frame.Place, digest: bytes) -> None:
    """Compare what an archive has at a place with the stub that points there.

    :raises CorruptLog: it is not what was taken there.
    """
    if entry.version != version or frame.digest_of(entry.salt, entry.raw) != digest:
        raise CorruptLog(
            f"what lies in segment {place.number} at {place.offset}, slot {place.slot}, is not the "
            f"payload of version {version}: restore a backup"
        )


def refilled(archive: Archive, position: int, data: bytes, taken: frame.Frame) -> bytes:
    """Return a frame with its payload in it, also if a stub is left of it. Blocks.

    :raises CorruptLog: the payload in the archive is missing, damaged or another one.
    """
    if taken.place is None:
        return data
    entry = archive.entry(taken.stream_id, taken.place)
    check_entry(entry, taken.version, taken.place, taken.digest)
    return frame.refilled(position, data, entry.salt, entry.raw)
