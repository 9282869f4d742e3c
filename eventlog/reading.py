"""Reading events, inside one transaction: from rows to what callers get, checked on the way.

An event whose payload is in the archive reads as any other: its stub says where the payload is, and
the digest in the stub says whether what came back is what was taken there. Where retention has
dropped it, the record of its segment says so, and the caller has said what to do about it.
"""

from collections.abc import Iterator
from typing import Any

from eventlog import frame
from eventlog.archive import Archive
from eventlog.block import Entry
from eventlog.codec import EventRegistry
from eventlog.environment import Environment, Transaction
from eventlog.errors import CorruptLog, PayloadDropped, UnknownEvent
from eventlog.ledger import Ledger
from eventlog.records import Dropped, OnDropped, Recorded
from eventlog.segment import MissingSegment, SegmentId
from eventlog.segment_table import load_segment
from eventlog.tables import U64, key_check, key_id, neighbours, scan


class Reading:
    """Reads of events; each takes the transaction it happens in."""

    def __init__(self, env: Environment, ledger: Ledger, registry: EventRegistry, archive: Archive):
        self._env = env
        self._ledger = ledger
        self._registry = registry
        self._archive = archive

    def event(
        self, txn: Transaction, position: int, dropped: OnDropped = "raise"
    ) -> Recorded[Any] | None:
        """Return the event at a position of the log."""
        data = txn.get(U64.pack(position), db=self._env.tables["events"])
        if data is None and position <= self._ledger.last_position(txn):
            raise CorruptLog(f"event {position} is missing: restore a backup")
        if data is None:
            return None
        taken = frame.read(position, data)
        name = self._ledger.stream_record(txn, taken[0]).name
        return self._recorded(txn, position, taken, name, dropped)

    def events(
        self, txn: Transaction, after: int, limit: int, dropped: OnDropped = "raise"
    ) -> list[Recorded[Any]]:
        """Return up to `limit` events of the log behind position `after`."""
        names: dict[bytes, str] = {}
        found = []
        for position, data in self._rows_behind(txn, after, limit):
            taken = frame.read(position, data)
            name = names.get(taken[0])
            if name is None:
                name = names[taken[0]] = self._ledger.stream_record(txn, taken[0]).name
            found.append(self._recorded(txn, position, taken, name, dropped))
        return found

    def _rows_behind(self, txn: Transaction, after: int, limit: int) -> Iterator[tuple[int, bytes]]:
        """Yield frames as stored, in order of position; a gap is damage.

        :raises CorruptLog: one is missing.
        """
        with txn.cursor(self._env.tables["events"]) as cursor:
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
    ) -> list[Recorded[Any]]:
        """Return up to `limit` events of a stream behind version `after`."""
        sid = frame.stream_id(name)
        until = min(self._ledger.stream(txn, name).version, after + limit)
        if until <= after:
            return []
        found: list[Recorded[Any]] = []
        events = self._env.tables["events"]
        with txn.cursor(self._env.tables["versions"]) as cursor:
            places = (
                cursor.iternext(keys=False) if cursor.set_range(sid + U64.pack(after + 1)) else ()
            )
            for version, packed in zip(range(after + 1, until + 1), places, strict=False):
                data = txn.get(packed, db=events)
                found.append(self._event_in(txn, packed, data, name, sid, version, dropped))
        if len(found) < until - after:
            raise CorruptLog(f"events of stream {name!r} are missing: restore a backup")
        return found

    def stream_event(
        self, txn: Transaction, name: str, sid: bytes, version: int, dropped: OnDropped = "raise"
    ) -> Recorded[Any]:
        """Return one event of a stream that has it.

        :raises CorruptLog: it is missing, damaged or another one.
        """
        packed = self._packed_position(txn, name, sid, version)
        data = txn.get(packed, db=self._env.tables["events"])
        return self._event_in(txn, packed, data, name, sid, version, dropped)

    def _packed_position(self, txn: Transaction, name: str, sid: bytes, version: int) -> bytes:
        """Return the key of the row of an event.

        :raises CorruptLog: the stream has no such event.
        """
        if not 0 < version < 1 << 64:
            raise CorruptLog(f"stream {name!r} has no event {version}")
        packed = txn.get(sid + U64.pack(version), db=self._env.tables["versions"])
        if packed is None:
            raise _missing(name, version)
        return packed

    def row(self, txn: Transaction, name: str, sid: bytes, version: int) -> tuple[int, bytes]:
        """Return the position of an event of a stream and its frame as stored.

        :raises CorruptLog: it is missing.
        """
        packed = self._packed_position(txn, name, sid, version)
        data = txn.get(packed, db=self._env.tables["events"])
        if data is None:
            raise _missing(name, version)
        return U64.unpack(packed)[0], data

    def _event_in(
        self,
        txn: Transaction,
        packed: bytes,
        data: bytes | None,
        name: str,
        sid: bytes,
        version: int,
        dropped: OnDropped,
    ) -> Recorded[Any]:
        """Return the event in the row at a packed position, which must be this version."""
        if data is None:
            raise _missing(name, version)
        position = U64.unpack(packed)[0]
        taken = frame.read(position, data)
        if taken[1] != version or taken[0] != sid:
            raise CorruptLog(f"event {position} is not version {version} of stream {name!r}")
        return self._recorded(txn, position, taken, name, dropped)

    def versions_about(self, txn: Transaction, name: str, key: str) -> list[int]:
        """Return the versions of a stream's events about a key, in order.

        :raises CorruptLog: a row there, or beside them, is not as it was written.
        """
        prefix = frame.stream_id(name) + key_id(key)
        found = [(prefix + rest, check) for rest, check in scan(self._env, txn, "keys", prefix)]
        last = found[-1][0] + b"\0" if found else prefix
        beside = [*neighbours(self._env, txn, "keys", prefix)]
        beside += neighbours(self._env, txn, "keys", last)
        damaged = any(check != key_check(row) for row, check in (*found, *beside))
        missed = any(row.startswith(prefix) for row, _ in set(beside) - set(found))
        if damaged or missed:
            raise CorruptLog(f"the index of keys is damaged near stream {name!r}: verify the log")
        return [U64.unpack(row[len(prefix) :])[0] for row, _ in found]

    def keys_of(self, tag: str, schema: int, payload: bytes) -> tuple[str, ...]:
        """Return the keys that an event is found under."""
        data, _ = self._registry.decode(tag, schema, payload)
        return self._registry.keys(data)

    def _recorded(
        self, txn: Transaction, position: int, taken: frame.Taken, name: str, dropped: OnDropped
    ) -> Recorded[Any]:
        _, version, recorded_at_us, raw_bytes, stored_bytes, schema, tag_bytes, raw = taken
        tag: str
        data: Any
        try:
            if isinstance(raw, frame.Elsewhere):
                found = self._archived(txn, taken[0], version, raw)
                if isinstance(found, Dropped):
                    return _without_payload(position, taken, name, found, dropped)
                raw = found
            tag, data, meta = self._registry.decode_tagged(tag_bytes, schema, raw)
        except (CorruptLog, UnknownEvent) as error:
            raise type(error)(f"event {position} of stream {name!r}: {error}") from error
        return Recorded(
            name, version, position, recorded_at_us, tag, data, raw_bytes, stored_bytes, meta
        )

    # --- the archive

    def _archived(
        self, txn: Transaction, sid: bytes, version: int, elsewhere: frame.Elsewhere
    ) -> bytes | Dropped:
        """Return a payload from the archive, or since when it is gone.

        :raises CorruptLog: it is missing, damaged or another one.
        """
        segment = SegmentId(sid, elsewhere.place.number)
        gone = self._dropped(txn, segment)
        if gone is not None:
            return gone
        try:
            entry = self._archive.entry(sid, elsewhere.place)
        except MissingSegment:
            gone = self.dropped_now(segment)
            if gone is None:
                raise
            return gone
        check_entry(entry, version, elsewhere)
        return entry.raw

    def dropped_now(self, segment: SegmentId) -> Dropped | None:
        """Return since when a segment is gone, by what has been committed up to now.

        Retention may drop one while a transaction is open that still sees it.
        """
        with self._env.read() as now:
            return self._dropped(now, segment)

    def _dropped(self, txn: Transaction, segment: SegmentId) -> Dropped | None:
        since_us = load_segment(self._env, txn, segment).dropped_at_us
        return None if since_us is None else Dropped(since_us)


def _missing(name: str, version: int) -> CorruptLog:
    return CorruptLog(f"event {version} of stream {name!r} is missing: restore a backup")


def check_entry(entry: Entry, version: int, elsewhere: frame.Elsewhere) -> None:
    """Compare what an archive has given with the stub that pointed to it.

    :raises CorruptLog: it is not what was taken there.
    """
    if entry.version != version or frame.digest_of(entry.salt, entry.raw) != elsewhere.digest:
        raise CorruptLog(
            f"what lies in segment {elsewhere.place.number} at {elsewhere.place.offset}, slot "
            f"{elsewhere.place.slot}, is not the payload of version {version}: restore a backup"
        )


def _without_payload(
    position: int, taken: frame.Taken, name: str, gone: Dropped, dropped: OnDropped
) -> Recorded[Any]:
    _, version, recorded_at_us, raw_bytes, stored_bytes, _, tag_bytes, _ = taken
    if dropped != "mark":
        raise PayloadDropped(name, version, gone.since_us)
    tag = tag_bytes.decode()
    return Recorded(
        name, version, position, recorded_at_us, tag, gone, raw_bytes, stored_bytes, b""
    )
