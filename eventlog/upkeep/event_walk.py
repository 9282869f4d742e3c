"""The events of the log, checked in order of position.

Of each event: that it is where it should be, its CRC, its digest and chain, its version, and that a
search in the indexes leads to it. It is the hot path of a verification, so a step that costs each
event a call is taken for many at once where that is the same: rows of indexes are searched for
`ROWS_AT_ONCE` at a time.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from eventlog.archive.segment import SegmentId
from eventlog.core import frame
from eventlog.core.errors import EventLogError, KeyGone
from eventlog.core.frame import CHAIN, STREAM_AND_VERSION
from eventlog.core.rows import unseal_record
from eventlog.lmdb.environment import Cursor, Environment, Transaction
from eventlog.lmdb.erase import TABLE as ERASURES
from eventlog.lmdb.reading import LogReading
from eventlog.lmdb.tables import U64, ErasureRecord, key_check, scan

ROWS_AT_ONCE = 2048  # events between two searches, and two words of progress
INDEXES = "versions", "keys"
SID = frame.STREAM_ID_BYTES

Found = Callable[[int, bytes, str], None]
"""(position, stream id, message): takes a finding."""


class StreamEnd(msgspec.Struct, array_like=True, gc=False):
    """The end of a stream after the events walked so far."""

    version: int
    chain: bytes
    stored_bytes: int = 0
    erased: int = 0
    """The last version whose payload is erased."""


def erasures(env: Environment, txn: Transaction) -> dict[bytes, int]:
    """Return up to which version streams are just being erased; damage shows with the table."""
    found = {}
    for sid, value in scan(env, txn, ERASURES, b""):
        with suppress(EventLogError):
            found[sid] = unseal_record(value, ErasureRecord, "an erasure", sid).until
    return found


class IndexSearch:
    """Rows that events should have in the indexes, searched for."""

    def __init__(self, env: Environment, reading: LogReading, txn: Transaction, found: Found):
        self._env = env
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
        self._keys: list[bytes] = []

    def add_keys(self, position: int, taken: frame.Taken, payload: bytes | frame.Encrypted) -> None:
        """See to it that an event is looked for under each of its keys."""
        sid = taken[0]
        try:
            rows = self._reading.rows_of(self._txn, taken, payload)
        except KeyGone:
            self.count = None
            self.unread[sid] += 1
            return
        except EventLogError as error:
            self._found(position, sid, str(error))
            self.count = None
            return
        if self.count is not None:
            self.count += len(rows)
        self._keys += rows

    def search(self) -> None:
        """See that the rows are found by a search."""
        self._search("versions", self.versions)
        self._search("keys", [(row, key_check(row)) for row in self._keys])
        self.versions.clear()
        self._keys.clear()

    def _search(self, table: str, expected: list[tuple[bytes, bytes]]) -> None:
        with self._txn.cursor(self._env.tables[table]) as cursor:
            found = cursor.getmulti([key for key, _ in expected])
        if found == expected:
            return
        for key, _ in sorted(set(expected).difference(found)):
            self.missed.add(table)
            version = U64.unpack(key[-U64.size :])[0]
            message = f"a search in table {table} does not lead to version {version}"
            self._found(self._position(key), key[:SID], message)

    def _position(self, row: bytes) -> int:
        """Return the position of the event that a row of an index is about; 0 if it is lost."""
        at = self._txn.get(row[:SID] + row[-U64.size :], db=self._env.tables["versions"])
        return 0 if at is None or len(at) != U64.size else U64.unpack(at)[0]


class EventWalk:
    """A walk along the events of a log, in one transaction.

    `erasing` says until which version streams are just being erased.
    """

    def __init__(
        self,
        env: Environment,
        reading: LogReading,
        txn: Transaction,
        erasing: Mapping[bytes, int],
        found: Found,
    ):
        self._env = env
        self._txn = txn
        self._erasing = erasing
        self._found = found
        self.index = IndexSearch(env, reading, txn, found)
        self.events = 0
        self.rows = 0
        """Of the table, those among them whose key is no position."""
        self.ends: dict[bytes, StreamEnd] = {}
        self.stubs: Counter[SegmentId] = Counter()
        self.erased = 0

    def run(self, progress: Callable[[int], object]) -> None:
        """Check all events; `progress` is told how many."""
        with self._txn.cursor(self._env.tables["events"]) as cursor:
            self._walk(cursor, progress)
        self.index.search()

    def _walk(self, cursor: Cursor, progress: Callable[[int], object]) -> None:
        expected, unpack = 1, U64.unpack
        for key, data in cursor:
            self.rows += 1
            if len(key) != U64.size:
                self._found(0, b"", f"an event has the key {key.hex()}")
                continue
            position = unpack(key)[0]
            if position != expected:
                self._found(position, b"", f"events {expected} to {position - 1} are missing")
            expected = position + 1
            self.events += 1
            self._check(position, key, data)
            if self.events % ROWS_AT_ONCE == 0:
                self.index.search()
                progress(self.events)

    def _check(self, position: int, packed: bytes, data: bytes) -> None:
        try:
            taken = frame.read(position, data)
        except EventLogError as error:
            self._found(position, b"", str(error))
            return
        sid, version, _, _, stored_bytes, _, tag, payload = taken
        end = self.ends.get(sid)
        if end is None:
            end = self.ends[sid] = StreamEnd(0, frame.chain_start(sid))
        if version != end.version + 1:
            self._found(position, sid, f"version {version} follows {end.version}")
        elif not frame.follows(data, tag, payload, end.chain):
            message = "digest or chain does not follow from the event before it"
            self._found(position, sid, message)
        end.version, end.chain = version, data[CHAIN]
        end.stored_bytes += stored_bytes
        self.index.versions.append((data[STREAM_AND_VERSION], packed))
        if isinstance(payload, frame.ErasedMark) or version <= self._erasing.get(sid, 0):
            end.erased = version
            self.erased += 1
        elif isinstance(payload, frame.Pointer):  # its keys are known when the archive is read
            self.stubs[SegmentId(sid, payload.place.number)] += 1
        else:
            self.index.add_keys(position, taken, payload)
