"""Import of an export (exporting.py) into a log that has the same past.

First the whole file is read and compared with the log, and nothing is written: names must be those
of their ids, each event must follow from the one before it and fit the log's own stream, and
idempotency keys must be about events that are there. Then erasures are carried out, and events
appended in order, so many a transaction; the totals come with the last one. A crash in between
leaves a log that ends somewhere in the file, and the import is repeated.

Events of an encrypted log stay encrypted: this log must have the keys that they are under.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog, EncryptionMismatch, InvalidAppend, WrongExpectedVersion
from eventlog.core.frame import STREAM_ID_BYTES
from eventlog.core.requests import I64_MAX
from eventlog.core.rows import KEY_ID_BYTES, unseal_record
from eventlog.core.rules import count
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import EVENTS_AT_ONCE
from eventlog.lmdb.opening import Files
from eventlog.lmdb.tables import EventRows, RequestRecord, StreamRecord
from eventlog.upkeep import exporting

WHOLE_LOG = "the whole log"


class Importing:
    """One import."""

    def __init__(self, files: Files, path: Path):
        self._files = files
        self._path = path
        self._ends: dict[bytes, tuple[int, bytes]] = {}
        """Version and chain of each stream after the events read so far."""
        self.streams: dict[bytes, exporting.Stream] = {}
        self.keys: dict[int, list[exporting.Key]] = {}
        """By the position of the last event that each is about."""
        self.totals: dict[str, int] = {}
        self.last = 0
        self.position = 0
        """The last position of the log when it was checked."""

    def check(self) -> None:
        """Read the whole file and compare it with the log. Blocks.

        :raises EncryptionMismatch: one of the two logs is encrypted and the other one is not.
        :raises KeyGone: this log has not the key of a stream with something new.
        :raises WrongExpectedVersion: the log ends before the file begins, or behind its end.
        :raises CorruptLog: the file is damaged, or the log has another past.
        :raises UnknownEvent: it has events that the registry does not know.
        :raises LogUnavailable: the file cannot be read.
        """
        digest = hashlib.sha256()
        with self._files.env.read() as txn:
            self.position = self._files.ledger.tail(txn).position
            chains = (frame.chain_of(data) for _, data in self._files.reading.frames(txn))
            for message in exporting.read_export(self._path):
                if isinstance(message, exporting.Event):
                    digest.update(self._take_event(message, chains))
                elif isinstance(message, exporting.Stream):
                    self._take_stream(txn, message)
                elif isinstance(message, exporting.Key):
                    self._take_key(message)
                elif isinstance(message, exporting.End):
                    self._take_end(message, digest.digest())
                else:
                    self.last = message.since
                    if message.since < 0:
                        raise self._made_up("a beginning")
                    if message.since > self.position:
                        raise gap(self._path, message.since, self.position)
                    for chain in islice(chains, message.since):
                        digest.update(chain)

    def _take_stream(self, txn: Transaction, stream: exporting.Stream) -> None:
        is_nameless = stream.erased_version > 0 and len(stream.sid) == STREAM_ID_BYTES
        is_named = is_nameless if not stream.name else frame.stream_id(stream.name) == stream.sid
        numbers = (stream.epoch, stream.erased_version, abs(stream.erased_at_us))
        in_range = all(0 <= number <= I64_MAX for number in numbers)
        if not is_named or not in_range or stream.sid in self.streams:
            raise self._made_up(f"stream {stream.name!r:.80}")
        record = self._record(txn, stream)
        if record.erased_version < stream.erased_version < record.version:
            raise self._made_up("an erasure of what was written after it")
        self.streams[stream.sid] = stream
        self._ends[stream.sid] = record.version, record.chain

    def _take_event(self, event: exporting.Event, chains: Iterator[bytes]) -> bytes:
        """Take an event, and return the chain value that this log has or would have there.

        A new one follows from the one before it, and has its payload or is erased.
        """
        self.last += 1
        taken = exporting.unpacked(self._path, event)
        stream = self.streams.get(taken.stream_id)
        if event.position != self.last or stream is None:
            raise CorruptLog(f"{self._path} has event {event.position} out of place")
        if self.last <= self.position:
            return next(chains, b"")
        version, chain = self._ends[stream.sid]
        erased = taken.version <= stream.erased_version
        with exporting.found_in(self._path):
            follows = taken.version == version + 1 and taken.follows(chain)
        if not follows or taken.place is not None or (taken.gone is not None) != erased:
            raise self._made_up(f"event {event.position}")
        self._ends[stream.sid] = taken.version, taken.chain
        if not erased:
            keys = self._files.keys
            if taken.is_encrypted != (keys is not None):
                which = "" if taken.is_encrypted else "not "
                raise EncryptionMismatch(
                    f"{self._path} is of a log that is {which}encrypted: import it into such a one"
                )
            if keys is not None:
                keys.cipher(stream.name)
            with exporting.found_in(self._path):
                self._key_rows(event)
        return taken.chain

    def _take_key(self, key: exporting.Key) -> None:
        with exporting.found_in(self._path):
            record = unseal_record(key.data, RequestRecord, "an idempotency key")
        last, _ = self._ends.get(key.key[:STREAM_ID_BYTES], (0, b""))
        is_row = record.key == key.key and len(key.key) == STREAM_ID_BYTES + KEY_ID_BYTES
        if not (is_row and 0 < record.first_version <= record.last_version <= last):
            raise self._made_up("an idempotency key")
        self.keys.setdefault(record.last_position, []).append(key)

    def _made_up(self, what: str) -> CorruptLog:
        return CorruptLog(
            f"{self._path} has {what} as no log would export it: it is not as it was written, "
            "export it again"
        )

    def _take_end(self, end: exporting.End, digest: bytes) -> None:
        if self.position > end.position:
            raise WrongExpectedVersion(
                WHOLE_LOG, end.position, self.position,
                f"{self._path} ends at position {end.position}, and this store at "
                f"{self.position} already: import a later one, if there is one",
            )  # fmt: skip
        if end.position != self.last or end.digest != digest:
            raise CorruptLog(
                f"{self._path} continues another log: the two have parted; restore a backup of "
                "that one instead"
            )
        for sid, stream in self.streams.items():
            if stream.erased_version > self._ends[sid][0]:
                raise self._made_up("an erasure of what never was")
        try:
            self.totals = count({}, end.totals)
        except InvalidAppend as error:
            raise self._made_up("totals") from error

    # --- what is to be done

    def erased(self, txn: Transaction) -> Iterator[tuple[exporting.Stream, str]]:
        """Yield the streams of which this log has more than the other one, and their names here."""
        for stream in self.streams.values():
            record = self._record(txn, stream)
            if record.version and record.erased_version < min(
                stream.erased_version, record.version
            ):
                yield stream, record.name

    def batches(self) -> Iterator[list[exporting.Event]]:
        """Yield the events that are new, so many at a time. Reads the file again."""
        events = (
            message
            for message in exporting.read_export(self._path)
            if isinstance(message, exporting.Event) and message.position > self.position
        )
        while batch := list(islice(events, EVENTS_AT_ONCE)):
            yield batch

    def append(self, txn: Transaction, events: Sequence[exporting.Event]) -> None:
        """Append events that follow each other.

        :raises WrongExpectedVersion: somebody else has appended meanwhile.
        :raises CorruptLog: one does not follow from the one before it.
        """
        last = self._files.ledger.tail(txn).position
        if last != events[0].position - 1:
            raise WrongExpectedVersion(
                WHOLE_LOG, events[0].position - 1, last,
                f"somebody else has appended to this store, which ends at position {last} now: "
                "let nobody, and import again",
            )  # fmt: skip
        records: dict[bytes, StreamRecord] = {}
        rows = EventRows()
        for event in events:
            taken = exporting.unpacked(self._path, event)
            stream = self.streams[taken.stream_id]
            before = records.get(taken.stream_id) or self._record(txn, stream)
            if taken.version != before.version + 1 or not taken.follows(before.chain):
                raise CorruptLog(f"event {event.position} does not follow from the one before it")
            key_rows = () if taken.gone is not None else self._key_rows(event)
            rows.add(event.position, event.data, key_rows)
            for key_row in self.keys.get(event.position, ()):
                txn.put(key_row.key, key_row.data, db=txn.tables["requests"])
            name = stream.name if taken.gone is None else ""
            records[taken.stream_id] = msgspec.structs.replace(before.after(taken), name=name)
        rows.put(txn)
        for sid, record in records.items():
            self._files.ledger.put_stream(txn, sid, record)
        if events[-1].position == self.last:
            self.finish(txn)

    def finish(self, txn: Transaction) -> None:
        """Take over the totals, and names and epochs of streams."""
        self._files.ledger.totals = dict(self.totals)
        for sid, stream in self.streams.items():
            record = self._record(txn, stream)
            if record.version:
                named = msgspec.structs.replace(
                    record, name=stream.name, epoch=max(record.epoch, stream.epoch)
                )
                self._files.ledger.put_stream(txn, sid, named)

    def _record(self, txn: Transaction, stream: exporting.Stream) -> StreamRecord:
        value = txn.get(stream.sid, db=txn.tables["streams"])
        if value is not None:
            return unseal_record(value, StreamRecord, "a stream's record")
        return StreamRecord(stream.name, 0, 0, 0, frame.chain_start(stream.sid))

    def _key_rows(self, event: exporting.Event) -> Iterable[bytes]:
        taken = frame.read(event.position, event.data)
        assert isinstance(taken[-1], bytes | frame.Encrypted)
        return self._files.reading.key_rows(self.streams[taken[0]].name, taken, taken[-1])


def gap(path: Path, since: int, position: int) -> WrongExpectedVersion:
    """Return the error for a file that begins after the end of a log."""
    return WrongExpectedVersion(
        WHOLE_LOG, since, position,
        f"{path} begins behind position {since}, and this store ends at {position}: import what "
        "was exported in between first",
    )  # fmt: skip
