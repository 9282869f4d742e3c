"""Verification: whether everything in the log is what was written.

Walks the whole log once, in order of position, and checks each frame's CRC, digest and chain, that
positions and versions have no gaps, that the indexes lead to the right events, and that each
stream's record agrees with its last event. Findings are collected, not raised: a report of all the
damage is worth more than the first of it.
"""

from collections.abc import Callable, Iterator

import msgspec

from eventlog import frame
from eventlog.environment import Environment, Transaction
from eventlog.errors import EventLogError
from eventlog.ledger import Ledger
from eventlog.tables import U64, key_id

PROGRESS_EVERY_EVENTS = 2048

Progress = Callable[[int, int], None]


class Finding(msgspec.Struct, frozen=True):
    """One thing that is not as it should be."""

    position: int
    """0 where it is not about one event."""
    stream: str
    message: str


class VerifyReport(msgspec.Struct, frozen=True):
    """What a verification read and what it found."""

    events: int
    streams: int
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class Verification:
    """One walk over a log, in one read transaction."""

    def __init__(self, env: Environment, ledger: Ledger, progress: Progress | None):
        self._env = env
        self._ledger = ledger
        self._progress = progress or (lambda _done, _total: None)
        self._findings: list[Finding] = []
        self._ends: dict[bytes, tuple[int, bytes]] = {}

    def run(self) -> VerifyReport:
        """Read everything and report."""
        with self._env.read() as txn:
            last = self._ledger.last_position(txn)
            count = 0
            for position, data in self._raw_frames(txn):
                count += 1
                self._check_frame(txn, position, data)
                if count % PROGRESS_EVERY_EVENTS == 0:
                    self._progress(count, last)
            self._check_streams(txn)
        self._progress(last, last)
        return VerifyReport(count, len(self._ends), self._findings)

    def _raw_frames(self, txn: Transaction) -> Iterator[tuple[int, bytes]]:
        expected = 1
        with txn.cursor(self._env.tables["events"]) as cursor:
            for key, data in cursor:
                position = U64.unpack(key)[0]
                if position != expected:
                    self._found(position, b"", f"events {expected} to {position - 1} are missing")
                expected = position + 1
                yield position, data

    def _check_frame(self, txn: Transaction, position: int, data: bytes) -> None:
        try:
            taken = frame.unpack(position, data)
        except EventLogError as error:
            self._found(position, b"", str(error))
            return
        sid = taken.stream_id
        version, chain = self._ends.get(sid, (0, frame.chain_start(sid)))
        if taken.version != version + 1:
            self._found(position, sid, f"version {taken.version} follows {version}")
        elif not frame.check_chain(taken, chain):
            self._found(position, sid, "digest or chain does not follow from the event before it")
        self._ends[sid] = taken.version, taken.chain
        self._check_indexes(txn, position, taken)

    def _check_indexes(self, txn: Transaction, position: int, taken: frame.Frame) -> None:
        at = taken.stream_id + U64.pack(taken.version)
        if txn.get(at, db=self._env.tables["versions"]) != U64.pack(position):
            self._found(position, taken.stream_id, "the index of versions leads elsewhere")
        try:
            keys = self._ledger.keys_of(taken)
        except EventLogError as error:
            self._found(position, taken.stream_id, str(error))
            return
        for key in keys:
            at = taken.stream_id + key_id(key) + U64.pack(taken.version)
            if txn.get(at, db=self._env.tables["keys"]) is None:
                self._found(position, taken.stream_id, f"not found under its key {key!r}")

    def _check_streams(self, txn: Transaction) -> None:
        for sid, (version, chain) in self._ends.items():
            try:
                record = self._ledger.stream_record(txn, sid)
            except EventLogError as error:
                self._found(0, sid, str(error))
                continue
            if (record.version, record.chain) != (version, chain):
                self._found(0, sid, f"its record says version {record.version}, not {version}")

    def _found(self, position: int, sid: bytes, message: str) -> None:
        self._findings.append(Finding(position, sid.hex(), message))
