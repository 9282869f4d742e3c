"""The events of the log, checked in order of position.

Of each event: that it is where it should be, its CRC, its digest and chain, its version, and that a
search in the indexes leads to it. It is the hot path of a verification, so steps are taken for
`ROWS_AT_ONCE` at once: rows of indexes are searched for, and events that are plain and without
fault are taken by C, where it is compiled (eventlog/core/plain_events.c). A row is plain if its
frame has the payload as it was encoded: not compressed, encrypted, archived or erased. The first
that is not ends the run. Python checks it, as it checks all of them elsewhere, and reports damage.
If a call of C accepts fewer than 16 events, Python checks the next 16 as well.
"""

import ctypes
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from eventlog.core import frame
from eventlog.core.codec import EventType
from eventlog.core.compiled import HAS_SHA256, LOG_LIBRARY, LONG, POINTER
from eventlog.core.errors import EventLogError, KeyGone
from eventlog.core.frame import CHAIN, CHAIN_BYTES, STREAM, STREAM_AND_VERSION, STREAM_ID_BYTES
from eventlog.core.plain_events import Row, address, packed_types, rows_of_keys, starts_of
from eventlog.core.rows import U64, key_check
from eventlog.keys.heads import Found
from eventlog.lmdb.file import Cursor, Transaction
from eventlog.lmdb.reading import LogReading
from eventlog.lmdb.segment import SegmentId
from eventlog.lmdb.tables import event_at

ROWS_AT_ONCE = 256  # more at once take longer: they leave the processor's cache
FEW = 16  # a call of C that takes fewer costs more than it saves: then Python checks the next 16
BYTES_AT_ONCE = 4 << 20  # but one row may have more
INDEXES = "versions", "keys"
SID = STREAM_ID_BYTES

PlainEvent = tuple[bytes, bytes, int, int]
"""Its row in the index of versions, the number of its type, where its data starts."""
_U64 = ctypes.c_uint64
END = struct.Struct(f"=QQQQ{CHAIN_BYTES}s")
"""The end of a stream: version, stored bytes, number of events, and the last version that is just
being erased; the chain value of the last event."""
_PLAIN_EVENT = struct.Struct(f"={STREAM_ID_BYTES + 8}s8sqq")
_TAKE = POINTER, LONG, POINTER, POINTER, POINTER, POINTER, LONG, LONG, _U64, POINTER


class WalkedEnd(msgspec.Struct, array_like=True, gc=False):
    """The end of a stream after the events walked so far."""

    version: int
    chain: bytes
    stored_bytes: int = 0
    erased: int = 0
    """The last version whose payload is erased."""


def _batches(cursor: Cursor) -> Iterator[list[Row]]:
    rows: list[Row] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += len(row[1])
        if len(rows) == ROWS_AT_ONCE or size > BYTES_AT_ONCE:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


# --- plain events: only rows without a fault are taken here


class PackedEnds(dict[bytes, bytearray]):
    """The ends of streams, packed as C has them; of a stream that is not among them, its start."""

    def __init__(self, erasing: Mapping[bytes, int]):
        """`erasing` says until which version streams are just being erased."""
        self._erasing = erasing

    def __missing__(self, sid: bytes) -> bytearray:
        erasing = max(self._erasing.get(sid, 0), 0)  # a record may have been forged
        start = END.pack(0, 0, 0, erasing, frame.chain_start(sid))
        end = self[sid] = bytearray(start)
        return end


class _Addresses(dict[bytes, int]):
    """Memory addresses of the packed ends of streams. Their size never changes, so they stay."""

    def __init__(self, ends: PackedEnds):
        self._ends = ends

    def __missing__(self, sid: bytes) -> int:
        place = self[sid] = ctypes.addressof(address(self._ends[sid]))
        return place


class PlainEvents:
    """Takes rows of the table of events, and moves the ends of their streams."""

    def __init__(self, ends: PackedEnds, types: Mapping[tuple[bytes, int], EventType]):
        self._addresses = _Addresses(ends)
        self._types = packed_types(types)
        self.types = list(types.values())
        self._take = LOG_LIBRARY.function("take_plain", *_TAKE, result=LONG)
        self.frames: Sequence[bytes] = ()
        """Frames of the current rows."""
        self._keys = self._joined = self._starts = self._ends = b""

    def look_at(self, keys: Sequence[bytes], frames: Sequence[bytes]) -> None:
        """Let these be the rows that `take` takes of. Each key has the size of a position."""
        self.frames = frames
        self._keys, self._joined = b"".join(keys), b"".join(frames)
        self._starts = starts_of(frames)
        addresses = self._addresses
        self._ends = array("Q", [addresses[data[STREAM]] for data in frames]).tobytes()

    def take(self, first: int, position: int) -> list[PlainEvent]:
        """Take rows from the `first` on, if they are at `position` and behind it."""
        rows = len(self.frames)
        room = bytearray((rows - first) * _PLAIN_EVENT.size)
        count = self._take(
            self._types, len(self.types), self._keys, self._joined, self._starts,
            self._ends, first, rows, position, ctypes.byref(address(room)),
        )  # fmt: skip
        return list(_PLAIN_EVENT.iter_unpack(memoryview(room)[: count * _PLAIN_EVENT.size]))

    def rows_of_keys(self, keys: Iterable[str], of: Sequence[int]) -> list[Row]:
        """Return the rows in the index of keys of events that were taken.

        `of` has the number of the event of each key, among those looked at.
        """
        encoded = [key.encode() for key in keys]
        return rows_of_keys(encoded, array("q", of), self._joined, self._starts)


# --- the walk


class IndexSearch:
    """Rows that events should have in the indexes, searched for."""

    def __init__(self, reading: LogReading, txn: Transaction, found: Found):
        self._reading = reading
        self._txn = txn
        self._found = found
        self.count: int | None = 0
        """Rows that the index of keys should have; None: unknown."""
        self.missed: set[str] = set()
        """Indexes in which a search did not find all."""
        self.unread = Counter[bytes]()
        """Events whose key is not here, by stream."""
        self.versions: list[tuple[bytes, bytes]] = []
        """Rows that are to be found: stream id and version, and position."""
        self._keys: list[tuple[bytes, bytes]] = []

    def add_keys(self, position: int, taken: frame.Taken, payload: bytes | frame.Encrypted) -> None:
        """See to it that an event is looked for under each of its keys."""
        sid = taken[0]
        try:
            rows = self._reading.rows_of(self._txn, taken, payload)
        except EventLogError as error:
            self.count = None
            if isinstance(error, KeyGone):
                self.unread[sid] += 1
            else:
                self._found(position, sid, str(error))
            return
        if self.count is not None:
            self.count += len(rows)
        self._keys += [(row, key_check(row)) for row in rows]

    def add_plain(
        self, plain: PlainEvents, taken: list[PlainEvent], first: int, position: int
    ) -> None:
        """See to it that events which were taken, from a number and a position on, are looked for.

        One that does not decode is read again, to have it said what is wrong.
        """
        keys: list[str] = []
        of: list[int] = []
        for number, (version, packed, kind, data_at) in enumerate(taken, first):
            self.versions.append((version, packed))
            try:
                found = plain.types[kind].keys_in(plain.frames[number][data_at:])
            except Exception:
                read = frame.read(position + number - first, plain.frames[number])
                assert isinstance(read[-1], bytes)
                self.add_keys(position + number - first, read, read[-1])
            else:
                keys += found
                of += [number] * len(found)
        if self.count is not None:
            self.count += len(keys)
        self._keys += plain.rows_of_keys(keys, of)

    def search(self) -> None:
        """See that the rows are found by a search."""
        self._search("versions", self.versions)
        self._search("keys", self._keys)
        self.versions.clear()
        self._keys.clear()

    def _search(self, table: str, expected: list[tuple[bytes, bytes]]) -> None:
        with self._txn.cursor(self._txn.tables[table]) as cursor:
            found = cursor.getmulti([key for key, _ in expected])
        if found == expected:
            return
        for key, _ in sorted(set(expected).difference(found)):
            self.missed.add(table)
            version = U64.unpack(key[-U64.size :])[0]
            message = f"a search in table {table} does not lead to version {version}"
            at, _ = event_at(self._txn, key[:SID], version)
            self._found(U64.unpack(at)[0] if len(at) == U64.size else 0, key[:SID], message)


class EventWalk:
    """A walk along the events of a log, in one transaction.

    `erasing` says until which version streams are just being erased.
    """

    def __init__(
        self, reading: LogReading, txn: Transaction, erasing: Mapping[bytes, int], found: Found
    ):
        self._txn = txn
        self._found = found
        self._ends = PackedEnds(erasing)
        self._erased_until: dict[bytes, int] = {}
        types = reading.plain_types() if LOG_LIBRARY.instruction_set == HAS_SHA256 else None
        self._plain = PlainEvents(self._ends, types) if types else None
        self._expected = 1
        """The position of the next row."""
        self.index = IndexSearch(reading, txn, found)
        self.events = 0
        self.rows = 0
        """Rows of the table, those included whose key is no position."""
        self.ends: dict[bytes, WalkedEnd] = {}
        """Ends of the streams that have events; known when all are checked."""
        self.stubs: Counter[SegmentId] = Counter()
        self.erased = 0
        self.redacted = 0

    def run(self, progress: Callable[[int], object]) -> None:
        """Check all events; `progress` is told how many."""
        with self._txn.cursor(self._txn.tables["events"]) as cursor:
            for rows in _batches(cursor):
                self._walk(rows)
                self.rows += len(rows)
                self.index.search()
                progress(self.events)
        for sid, packed in self._ends.items():
            version, stored_bytes, events, _, chain = END.unpack(packed)
            if events:
                erased = self._erased_until.get(sid, 0)
                self.ends[sid] = WalkedEnd(version, chain, stored_bytes, erased)

    def _walk(self, rows: list[Row]) -> None:
        keys, frames = zip(*rows, strict=True)
        if self._plain is None or set(map(len, keys)) != {U64.size}:
            for key, data in rows:
                self._row(key, data)
            return
        at = 0
        self._plain.look_at(keys, frames)
        while at < len(rows):
            taken = self._plain.take(at, self._expected)
            self.index.add_plain(self._plain, taken, at, self._expected)
            self._expected += len(taken)
            self.events += len(taken)
            at += len(taken)
            for key, data in rows[at : at + (1 if len(taken) >= FEW else FEW)]:
                self._row(key, data)
                at += 1

    def _row(self, key: bytes, data: bytes) -> None:
        if len(key) != U64.size:
            self._found(0, b"", f"an event has the key {key.hex()}")
            return
        position = U64.unpack(key)[0]
        if position != self._expected:
            self._found(position, b"", f"events {self._expected} to {position - 1} are missing")
        self._expected = position + 1
        self.events += 1
        try:
            taken = frame.read(position, data)
        except EventLogError as error:
            self._found(position, b"", str(error))
            return
        sid, version, _, _, stored_bytes, _, tag, payload = taken
        end = self._ends[sid]
        before, bytes_before, events_before, erasing, chain = END.unpack(end)
        if version != before + 1:
            self._found(position, sid, f"version {version} follows {before}")
        elif not frame.follows(data, tag, payload, chain):
            message = "digest or chain does not follow from the event before it"
            self._found(position, sid, message)
        END.pack_into(
            end, 0, version, bytes_before + stored_bytes, events_before + 1, erasing, data[CHAIN]
        )
        self.index.versions.append((data[STREAM_AND_VERSION], key))
        self.redacted += frame.is_redacted(data)
        if isinstance(payload, frame.ErasedMark) or version <= erasing:
            self._erased_until[sid] = version
            self.erased += 1
        elif isinstance(payload, frame.Pointer):  # its keys are known when the archive is read
            self.stubs[SegmentId(sid, payload.place.number)] += 1
        else:
            self.index.add_keys(position, taken, payload)
