"""The rules of the log, inside one transaction: who may append what, and where it goes.

Every rule is checked before the first put of an append, so a refused one leaves no trace in the
transaction that it shares with others.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from eventlog import frame
from eventlog.anchor import Tail
from eventlog.checkpoints import put_checkpoint
from eventlog.codec import EventRegistry
from eventlog.environment import Environment, Transaction
from eventlog.errors import (
    CorruptLog,
    Fenced,
    IdempotencyConflict,
    UnknownEvent,
    WrongExpectedVersion,
)
from eventlog.records import ANY_VERSION, Appended, Recorded, StreamHead
from eventlog.requests import AppendRequest
from eventlog.tables import (
    U64,
    Record,
    key_check,
    key_id,
    neighbours,
    scan,
    seal_record,
    unseal_record,
)
from eventlog.totals import Counting, put_totals

STORE_FORMAT = 2  # 2: with a row of totals


class StreamRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stream's name and its end."""

    name: str
    version: int
    epoch: int
    stored_bytes: int
    chain: bytes

    def head(self) -> StreamHead:
        """Return it as callers see it."""
        return StreamHead(self.version, self.epoch, self.stored_bytes, self.chain)


class RequestRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an idempotency key stood for, and what came of it."""

    key: bytes
    digest: bytes
    first_version: int
    last_version: int
    last_position: int

    def result(self, stream: str) -> Appended:
        """Return the first result again."""
        return Appended(
            stream, self.first_version, self.last_version, self.last_position, duplicate=True
        )


class FormatRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which layout of tables this file has."""

    format: int
    created_at_us: int


class Ledger:
    """Reads and writes of the tables; each takes the transaction it happens in."""

    def __init__(self, env: Environment, registry: EventRegistry):
        self._env = env
        self._registry = registry
        self.counting = Counting(env)

    # --- the end of things

    def last_position(self, txn: Transaction) -> int:
        """Return the position of the newest event, 0 if there is none."""
        with txn.cursor(self._env.tables["events"]) as cursor:
            return U64.unpack(cursor.key())[0] if cursor.last() else 0

    def tail(self, txn: Transaction) -> Tail:
        """Return where the log ends in this transaction."""
        with txn.cursor(self._env.tables["events"]) as cursor:
            if not cursor.last():
                return Tail(txn.id())
            return Tail(txn.id(), U64.unpack(cursor.key())[0], frame.chain_of(cursor.value()))

    def chain_at(self, txn: Transaction, position: int) -> bytes:
        """Return the chain value of the event at a position, empty if there is none."""
        return frame.chain_of(txn.get(U64.pack(position), b"", db=self._env.tables["events"]))

    def stream(self, txn: Transaction, name: str) -> StreamRecord:
        """Return a stream's record, version 0 if it never was."""
        sid = frame.stream_id(name)
        record = self._record(txn, "streams", sid, StreamRecord, f"stream {name!r}")
        if record is None and txn.get(sid + U64.pack(1), db=self._env.tables["versions"]):
            raise CorruptLog(f"stream {name!r} has events and no record: restore a backup")
        if record is None:
            return StreamRecord(name, 0, 0, 0, frame.chain_start(sid))
        if record.name != name:
            raise CorruptLog(f"stream {name!r} has the key of {record.name!r}")
        return record

    def stream_names(self, txn: Transaction) -> list[str]:
        """Return the name of every stream, in no useful order."""
        with txn.cursor(self._env.tables["streams"]) as cursor:
            return [
                unseal_record(value, StreamRecord, "a stream's record").name
                for value in cursor.iternext(keys=False, values=True)
            ]

    # --- append

    def append(self, txn: Transaction, request: AppendRequest) -> Appended:
        """Append a request's events, or return what its idempotency key got before.

        :raises WrongExpectedVersion, Fenced, IdempotencyConflict, InvalidAppend: and nothing is
            written. The last is for a total that would leave its range.
        """
        sid = frame.stream_id(request.stream)
        stream = self.stream(txn, request.stream)
        if request.idempotency_key is not None:
            first = self.first_result(txn, request.stream, request.idempotency_key, request.digest)
            if first is not None:
                return first
        _check_append(stream, request)
        if request.counters:
            self.counting.add(txn, request.counters)
        position = self._put_events(txn, sid, stream, request)
        result = Appended(
            request.stream, stream.version + 1, stream.version + len(request.events), position
        )
        self._put_request(txn, sid, request, result)
        if request.checkpoint is not None:
            put_checkpoint(self._env, txn, request.checkpoint)
        return result

    def first_result(
        self, txn: Transaction, name: str, idempotency_key: str, digest: bytes
    ) -> Appended | None:
        """Return the first result of a request's idempotency key, None if it is new.

        :raises IdempotencyConflict: the key stood for another request.
        """
        key = frame.stream_id(name) + key_id(idempotency_key)
        for row, value in neighbours(self._env, txn, "requests", key):
            record = unseal_record(value, RequestRecord, "an idempotency key")
            if record.key != row:
                raise CorruptLog(f"an idempotency key is damaged near stream {name!r}: verify")
            if row == key:
                return self._first_result_in(record, name, idempotency_key, digest)
        return None

    def _first_result_in(
        self, record: RequestRecord, name: str, idempotency_key: str, digest: bytes
    ) -> Appended:
        if record.digest != digest:
            raise IdempotencyConflict(
                f"idempotency key {idempotency_key!r} of stream {name!r} was used for another "
                "request: use a new key"
            )
        return record.result(name)

    def _put_events(
        self, txn: Transaction, sid: bytes, stream: StreamRecord, request: AppendRequest
    ) -> int:
        position, version, chain = self.last_position(txn), stream.version, stream.chain
        tables, stored = self._env.tables, stream.stored_bytes
        for prepared in request.events:
            position, version = position + 1, version + 1
            data, chain = frame.pack(
                prepared, position=position, sid=sid, version=version,
                recorded_at_us=request.recorded_at_us, prev=chain,
            )  # fmt: skip
            at, packed_version = U64.pack(position), U64.pack(version)
            if not txn.put(at, data, db=tables["events"], append=True):
                raise AssertionError(f"position {position} is not the end of the log")
            txn.put(sid + packed_version, at, db=tables["versions"])
            for key in prepared.keys:
                row = sid + key_id(key) + packed_version
                txn.put(row, key_check(row), db=tables["keys"])
            stored += len(prepared.body)
        epoch = max(stream.epoch, request.epoch)
        self._put_stream(txn, sid, StreamRecord(stream.name, version, epoch, stored, chain))
        return position

    def _put_stream(self, txn: Transaction, sid: bytes, record: StreamRecord) -> None:
        txn.put(sid, seal_record(record), db=self._env.tables["streams"])

    def _put_request(
        self, txn: Transaction, sid: bytes, request: AppendRequest, result: Appended
    ) -> None:
        if request.idempotency_key is None:
            return
        key = sid + key_id(request.idempotency_key)
        record = RequestRecord(
            key, request.digest, result.first_version, result.last_version, result.last_position
        )
        txn.put(key, seal_record(record), db=self._env.tables["requests"])

    def acquire(self, txn: Transaction, name: str, epoch: int) -> StreamHead:
        """Make `epoch` the stream's: every lower one is fenced from now on."""
        stream = self.stream(txn, name)
        _check_epoch(stream, epoch)
        held = msgspec.structs.replace(stream, epoch=epoch)
        self._put_stream(txn, frame.stream_id(name), held)
        return held.head()

    # --- read

    def event(self, txn: Transaction, position: int) -> Recorded[Any] | None:
        """Return the event at a position of the log."""
        data = txn.get(U64.pack(position), db=self._env.tables["events"])
        if data is None and position <= self.last_position(txn):
            raise CorruptLog(f"event {position} is missing: restore a backup")
        if data is None:
            return None
        taken = frame.read(position, data)
        return self._recorded(position, taken, self.stream_record(txn, taken[0]).name)

    def events(self, txn: Transaction, after: int, limit: int) -> list[Recorded[Any]]:
        """Return up to `limit` events of the log behind position `after`."""
        names: dict[bytes, str] = {}
        found = []
        for position, data in self._rows_behind(txn, after, limit):
            taken = frame.read(position, data)
            name = names.get(taken[0])
            if name is None:
                name = names[taken[0]] = self.stream_record(txn, taken[0]).name
            found.append(self._recorded(position, taken, name))
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
        self, txn: Transaction, name: str, after: int, limit: int
    ) -> list[Recorded[Any]]:
        """Return up to `limit` events of a stream behind version `after`."""
        sid = frame.stream_id(name)
        until = min(self.stream(txn, name).version, after + limit)
        if until <= after:
            return []
        found: list[Recorded[Any]] = []
        with txn.cursor(self._env.tables["versions"]) as cursor:
            places = (
                cursor.iternext(keys=False) if cursor.set_range(sid + U64.pack(after + 1)) else ()
            )
            for version, packed in zip(range(after + 1, until + 1), places, strict=False):
                found.append(self._event_at(txn, packed, name, sid, version))
        if len(found) < until - after:
            raise CorruptLog(f"events of stream {name!r} are missing: restore a backup")
        return found

    def stream_event(self, txn: Transaction, name: str, sid: bytes, version: int) -> Recorded[Any]:
        """Return one event of a stream that has it.

        :raises CorruptLog: it is missing, damaged or another one.
        """
        if not 0 < version < 1 << 64:
            raise CorruptLog(f"stream {name!r} has no event {version}")
        packed = txn.get(sid + U64.pack(version), db=self._env.tables["versions"])
        if packed is None:
            raise CorruptLog(f"event {version} of stream {name!r} is missing: restore a backup")
        return self._event_at(txn, packed, name, sid, version)

    def _event_at(
        self, txn: Transaction, packed: bytes, name: str, sid: bytes, version: int
    ) -> Recorded[Any]:
        """Return the event at a packed position, which must be this version of this stream."""
        data = txn.get(packed, db=self._env.tables["events"])
        if data is None:
            raise CorruptLog(f"event {version} of stream {name!r} is missing: restore a backup")
        position = U64.unpack(packed)[0]
        taken = frame.read(position, data)
        if taken[1] != version or taken[0] != sid:
            raise CorruptLog(f"event {position} is not version {version} of stream {name!r}")
        return self._recorded(position, taken, name)

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

    def stream_record(self, txn: Transaction, sid: bytes) -> StreamRecord:
        """Return the record of a stream that has events.

        :raises CorruptLog: it is missing or damaged.
        """
        record = self._record(txn, "streams", sid, StreamRecord, "a stream's record")
        if record is None:
            raise CorruptLog("an event's stream has no record: restore a backup")
        return record

    def keys_of(self, taken: frame.Frame) -> tuple[str, ...]:
        """Return the keys that the event in a frame is found under."""
        data, _ = self._registry.decode(taken.tag, taken.schema, frame.payload(taken))
        return self._registry.keys(data)

    def _recorded(self, position: int, taken: frame.Taken, name: str) -> Recorded[Any]:
        _, version, recorded_at_us, raw_bytes, stored_bytes, schema, tag_bytes, raw = taken
        try:
            tag, data, meta = self._registry.decode_tagged(tag_bytes, schema, raw)
        except (CorruptLog, UnknownEvent) as error:
            raise type(error)(f"event {position} of stream {name!r}: {error}") from error
        return Recorded(
            name, version, position, recorded_at_us, tag, data, raw_bytes, stored_bytes, meta
        )

    # --- the file's own format

    def check_format(self, txn: Transaction, now_us: int) -> None:
        """Write the format into a new file; refuse one of another format, untouched.

        :raises UnknownEvent: the file was made by another version.
        :raises CorruptLog: the file is not new and does not say its format.
        """
        record = self._record(txn, "meta", b"format", FormatRecord, "the store's format")
        if record is None:
            self._create(txn, now_us)
        elif record.format != STORE_FORMAT:
            raise UnknownEvent(
                f"the store has format {record.format}, not {STORE_FORMAT}: "
                "open it with the version that made it"
            )

    def _create(self, txn: Transaction, now_us: int) -> None:
        if txn.stat(self._env.tables["meta"])["entries"] or self.last_position(txn):
            raise CorruptLog("the store has lost its format: restore a backup")
        created = seal_record(FormatRecord(STORE_FORMAT, now_us))
        txn.put(b"format", created, db=self._env.tables["meta"])
        put_totals(self._env, txn, {})

    def _record(
        self, txn: Transaction, table: str, key: bytes, cls: type[Record], what: str
    ) -> Record | None:
        value = txn.get(key, db=self._env.tables[table])
        return None if value is None else unseal_record(value, cls, what)


def _check_append(stream: StreamRecord, request: AppendRequest) -> None:
    _check_epoch(stream, request.epoch)
    if request.expected_version not in (ANY_VERSION, stream.version):
        raise WrongExpectedVersion(request.stream, request.expected_version, stream.version)


def _check_epoch(stream: StreamRecord, epoch: int) -> None:
    if epoch < stream.epoch:
        raise Fenced(stream.name, epoch, stream.epoch)
