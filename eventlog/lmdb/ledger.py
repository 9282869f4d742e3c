"""An append inside one transaction: by the rules (core/rules.py), into the tables and the totals.

Every rule is checked before the first put of an append, so a refused one leaves no trace in the
transaction that it shares with others.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from eventlog.core import frame, rules
from eventlog.core.errors import BeingErased, CorruptLog, Fenced
from eventlog.core.keys import Cipher, Keys
from eventlog.core.plain_events import Run, packed
from eventlog.core.records import Appended, StreamHead
from eventlog.core.requests import AppendRequest
from eventlog.core.rows import U64, Record, blind_digest, blind_id, seal_record, unseal_record
from eventlog.files.log_directory import Tail
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.tables import (
    ErasureRecord,
    RequestRecord,
    StreamRecord,
    neighbours,
    put_checkpoint,
    put_events,
    put_rows,
)

# --- totals: named numbers over all streams that change with an append, in its own transaction
#
# All totals lie in one row, which is there from the file's first transaction on: damage or loss
# raises an error and never gives a lower number. `Ledger` has what the writer's transaction makes
# of the row, which is written once a transaction. `TotalsTally` (intake.py) is what the event loop
# knows without reading: committed totals and pending changes.

ROW = b"totals"


class TotalsRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All totals by name; one at zero is not listed."""

    totals: dict[str, int]


def put_totals(txn: Transaction, totals: dict[str, int]) -> None:
    """Store all totals."""
    txn.put(ROW, seal_record(TotalsRecord(totals), ROW), db=txn.tables["meta"])


def load_totals(txn: Transaction) -> dict[str, int]:
    """Return all totals as stored.

    :raises CorruptLog: the row is damaged or missing.
    """
    value = txn.get(ROW, db=txn.tables["meta"])
    if value is None:
        raise CorruptLog("the totals are missing: restore a backup, or run a verification")
    return unseal_totals(ROW, value)


def unseal_totals(row: bytes, value: bytes) -> dict[str, int]:
    """Return the totals in a row.

    :raises CorruptLog: it is damaged, or no row of totals.
    """
    return unseal_record(value, TotalsRecord, "the row of totals", row).totals


# --- the ledger

ENDS_MAX = 8192  # of streams, kept in memory: some 4 MB
EVENTS_AT_ONCE = 512  # of an import or a repair, put in one transaction


class Landed(NamedTuple):
    """The end and the totals of the log after a transaction."""

    tail: Tail
    totals: dict[str, int] | None
    """None: as they were."""


@dataclass(slots=True, eq=False)
class Accepted:
    """The appends that a transaction has accepted and not put yet."""

    before: int
    """The position that the first event follows."""
    position: int
    """Of the last event."""
    runs: list[Run] = field(default_factory=list)
    streams: dict[bytes, StreamRecord] = field(default_factory=dict)
    """Their ends, by stream id, with the chain values from before."""


class Ledger:
    """Reads and writes of the tables; each takes the transaction it happens in.

    The events of many appends are put together: `put_accepted` comes before anything else is done
    in their transaction, and before it ends. The ends of the log and of its streams are kept from
    one transaction of appends to the next, which need not read them back. They are known to stand
    as long as the transaction that put them is the last one that was committed: not if it was given
    up, nor if anybody else has written since.
    """

    def __init__(self, env: Environment, keys: Keys | None = None):
        self._env = env
        self._keys = keys
        self._accepted: Accepted | None = None
        self.totals: dict[str, int] | None = None
        """As this transaction has changed them; None: not."""
        self._ends: dict[bytes, StreamRecord] = {}
        self._position = 0
        """Of the last event; 0: not known."""
        self._put_by = 0
        """The number of the transaction that put the ends."""

    # --- a transaction of appends

    def begin(self) -> None:
        """Start a transaction: forget what one that failed has left."""
        self._accepted = self.totals = None
        if self._env.committed != self._put_by:
            self.forget_ends()

    def finish(self, txn: Transaction) -> Landed:
        """Write the accepted appends and the totals; return the new end of the log."""
        tail = self.put_accepted(txn)
        if self.totals is not None:
            put_totals(txn, self.totals)
        return Landed(tail or self.tail(txn), self.totals)

    def put_accepted(self, txn: Transaction) -> Tail | None:
        """Put the events of the appends that were accepted, and the records of their streams.

        Return the new end of the log; None: nothing was put.
        """
        accepted, self._accepted = self._accepted, None
        if accepted is None or not accepted.streams:
            return None
        chains = {sid: record.chain for sid, record in accepted.streams.items()}
        frames, key_rows = packed(accepted.runs, accepted.before, chains)
        put_events(txn, accepted.before, frames, key_rows)
        ends = {sid: end.with_chain(chains[sid]) for sid, end in accepted.streams.items()}
        put_rows(txn, txn.tables["streams"], [(sid, seal_record(end)) for sid, end in ends.items()])
        self._put_by, self._position = txn.number, accepted.position
        if len(self._ends) + len(ends) > ENDS_MAX:
            self._ends.clear()
        self._ends |= ends
        return Tail(txn.id(), accepted.position, frame.chain_of(frames[-1]))

    def forget_ends(self) -> None:
        """Read the ends again: something else than an append may change them."""
        self._ends.clear()
        self._position = 0

    def count(self, txn: Transaction, counters: Mapping[str, int]) -> None:
        """Apply deltas to the totals, all or none; `finish` stores them.

        :raises InvalidAppend: see `rules.count`.
        """
        self.totals = rules.count(self._totals_in(txn), counters)

    def take_out(self, txn: Transaction, counted: Mapping[str, int]) -> None:
        """Subtract a stream's counts from the totals; none falls below 0."""
        self.totals = rules.without(self._totals_in(txn), counted)

    def _totals_in(self, txn: Transaction) -> dict[str, int]:
        return load_totals(txn) if self.totals is None else self.totals

    # --- the end of things

    def tail(self, txn: Transaction) -> Tail:
        """Return where the log ends in this transaction.

        :raises CorruptLog: the last row of the table has a key that is no position.
        """
        with txn.cursor(txn.tables["events"]) as cursor:
            if not cursor.last():
                return Tail(txn.id())
            key, data = cursor.item()
        if len(key) != U64.size:
            raise CorruptLog(f"the last event has the key {key.hex()}: restore a backup, or repair")
        return Tail(txn.id(), U64.unpack(key)[0], frame.chain_of(data))

    def stream(self, txn: Transaction, name: str) -> StreamRecord:
        """Return a stream's record, version 0 if it never was."""
        sid = frame.stream_id(name)
        record = self._record(txn, "streams", sid, StreamRecord, f"stream {name!r}")
        if record is None and txn.get(sid + U64.pack(1), db=txn.tables["versions"]):
            raise CorruptLog(f"stream {name!r} has events and no record: restore a backup")
        if record is None:
            return StreamRecord(name, 0, 0, 0, frame.chain_start(sid))
        if not record.name and record.is_empty:
            return msgspec.structs.replace(record, name=name)
        if record.name != name:
            raise CorruptLog(f"stream {name!r} has the key of {record.name!r}")
        return record

    def streams_to_read(self, txn: Transaction) -> list[str]:
        """Return the name of every stream that has events which are not erased.

        One whose record is damaged is left out: no read of it leads anywhere.
        """
        names = []
        with txn.cursor(txn.tables["streams"]) as cursor:
            for value in cursor.iternext(keys=False, values=True):
                with suppress(CorruptLog):
                    record = unseal_record(value, StreamRecord, "a stream's record")
                    if not record.is_empty:
                        names.append(record.name)
        return names

    # --- encryption

    def cipher_to_write(self, txn: Transaction, stream: StreamRecord) -> Cipher | None:
        """Return the cipher for a write; the key of a stream that has nothing to read may be made.

        :raises KeyGone: its key is not here.
        :raises BeingErased: its key is still to be deleted.
        :raises InvalidAppend: as much as one key may encrypt has been written under it.
        """
        if self._keys is not None:
            sid = frame.stream_id(stream.name)
            erasure = self._record(txn, "erasures", sid, ErasureRecord, "an erasure", sid)
            if erasure is not None and not erasure.key_gone:
                raise BeingErased(
                    f"stream {stream.name!r} is being erased: repeat that, then append"
                )
        return rules.cipher_to_write(self._keys, stream.name, stream)

    # --- append

    def append(self, txn: Transaction, request: AppendRequest) -> Appended:
        """Append a request's events, or return what its idempotency key got before.

        :raises WrongExpectedVersion, Fenced, IdempotencyConflict, InvalidAppend: and nothing is
            written. The last is for a total that would leave its range.
        """
        sid, accepted = frame.stream_id(request.stream), self._accepted
        if accepted is None:
            before = self._position or self.tail(txn).position
            accepted = self._accepted = Accepted(before, before)
        stream = accepted.streams.get(sid) or self._ends.get(sid)
        stream = stream or self.stream(txn, request.stream)
        if request.idempotency_key is not None:
            first = self.first_result(txn, stream, request.idempotency_key, request.digest)
            if first is not None:
                return first
        rules.check_end(request, stream.version, stream.epoch)
        cipher = None if self._keys is None else self.cipher_to_write(txn, stream)
        if request.counters:
            self.count(txn, request.counters)
        run = Run(request.events, sid, stream.version, request.recorded_at_us, cipher)
        accepted.runs.append(run)
        accepted.position += len(request.events)
        accepted.streams[sid] = after = StreamRecord(
            stream.name, *stream.behind(request), stream.chain, stream.erased_version,
            stream.erased_at_us,
        )  # fmt: skip
        result = Appended(request.stream, stream.version + 1, after.version, accepted.position)
        if request.idempotency_key is not None:
            key = sid + blind_id(request.idempotency_key, cipher)
            digest = blind_digest(request.digest, cipher)
            places = result.first_version, result.last_version, result.last_position
            record = seal_record(RequestRecord(key, digest, *places))
            txn.put(key, record, db=txn.tables["requests"])
        if request.checkpoint is not None:
            put_checkpoint(txn, request.checkpoint)
        return result

    def first_result(
        self, txn: Transaction, stream: StreamRecord, idempotency_key: str, digest: bytes
    ) -> Appended | None:
        """Return the first result of a request's idempotency key, None if it is new.

        :raises IdempotencyConflict: the key stood for another request.
        """
        if stream.is_empty:
            return None
        name, cipher = stream.name, rules.cipher_to_read(self._keys, stream.name)
        key = frame.stream_id(name) + blind_id(idempotency_key, cipher)
        for row, value in neighbours(txn, "requests", key):
            record = unseal_record(value, RequestRecord, "an idempotency key")
            if record.key != row:
                raise CorruptLog(f"an idempotency key is damaged near stream {name!r}: verify")
            if row == key and record.last_version > stream.erased_version:
                _, *first = msgspec.structs.astuple(record)
                blind = blind_digest(digest, cipher)
                return rules.FirstAppend(*first).repeated(name, idempotency_key, blind)
        return None

    def put_stream(self, txn: Transaction, sid: bytes, record: StreamRecord) -> None:
        """Store the record of a stream."""
        txn.put(sid, seal_record(record), db=txn.tables["streams"])

    def acquire(self, txn: Transaction, name: str, epoch: int) -> StreamHead:
        """Make `epoch` the stream's: every lower one is fenced from now on."""
        stream = self.stream(txn, name)
        if epoch < stream.epoch:
            raise Fenced(name, epoch, stream.epoch)
        held = msgspec.structs.replace(stream, epoch=epoch)
        self.put_stream(txn, frame.stream_id(name), held)
        return held.head()

    def stream_record(self, txn: Transaction, sid: bytes) -> StreamRecord:
        """Return the record of a stream that has events.

        :raises CorruptLog: it is missing or damaged.
        """
        record = self._record(txn, "streams", sid, StreamRecord, "a stream's record")
        if record is None:
            raise CorruptLog("an event's stream has no record: restore a backup")
        return record

    def _record(
        self,
        txn: Transaction,
        table: str,
        key: bytes,
        cls: type[Record],
        what: str,
        row_key: bytes = b"",
    ) -> Record | None:
        value = txn.get(key, db=txn.tables[table])
        return None if value is None else unseal_record(value, cls, what, row_key)
