"""Verification of the archive: each segment's file, and each payload in it against its stub."""

from collections import Counter

from eventlog.archive.archive import Archive
from eventlog.archive.block import Block
from eventlog.archive.segment import MissingSegment, SegmentId
from eventlog.core import frame
from eventlog.core.errors import EventLogError, KeyGone
from eventlog.core.frame import Place
from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.heads import Found
from eventlog.lmdb.reading import Reading, check_entry
from eventlog.lmdb.segment_table import SegmentRecord
from eventlog.lmdb.tables import key_check


class ArchiveCheck:
    """Checks segments in one transaction. `found(position, stream id, message)` takes findings."""

    def __init__(self, env: Environment, reading: Reading, archive: Archive, found: Found):
        self._env = env
        self._reading = reading
        self._archive = archive
        self._found = found
        self.keys: int | None = 0
        """Rows that the index of keys should have for archived events; None: unknown."""
        self.unread = Counter[bytes]()
        """Events whose key is not here, by stream id."""

    def check(self, txn: Transaction, segment: SegmentId, record: SegmentRecord) -> bool:
        """Check a segment that should be there; say whether retention has dropped it meanwhile."""
        events = 0
        try:
            for offset, block in self._archive.walk(segment):
                events += len(block.versions)
                self._check_block(txn, segment, offset, block)
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

    def _check_block(self, txn: Transaction, segment: SegmentId, offset: int, block: Block) -> None:
        for slot, version in enumerate(block.versions):
            place = Place(segment.number, offset, slot)
            try:
                self._check_entry(txn, segment.sid, version, place, block)
            except EventLogError as error:
                self._lost(segment, f"version {version} in {segment.name}: {error}")

    def _check_entry(
        self, txn: Transaction, sid: bytes, version: int, place: Place, block: Block
    ) -> None:
        position, data = self._reading.row(txn, sid.hex(), sid, version)
        taken = frame.unpack(position, data)
        entry = block.entry(place.slot)
        if taken.place != place:
            self._found(position, sid, f"its payload is said to be at {taken.place}, not {place}")
        check_entry(entry, taken.version, frame.Elsewhere(place, taken.digest))
        self._check_keys(txn, position, taken, entry.raw)

    def _check_keys(self, txn: Transaction, position: int, taken: frame.Frame, raw: bytes) -> None:
        try:
            name = self._reading.name_of(txn, taken.stream_id)
            rows = self._reading.key_rows(name, taken, raw)
        except KeyGone:
            self.keys = None
            self.unread[taken.stream_id] += 1
            return
        if self.keys is not None:
            self.keys += len(rows)
        for at, key in rows.items():
            if txn.get(at, db=self._env.tables["keys"]) != key_check(at):
                self._found(position, taken.stream_id, f"not found under its key {key!r}")

    def _lost(self, segment: SegmentId, message: str) -> None:
        self.keys = None
        self._found(0, segment.sid, message)
