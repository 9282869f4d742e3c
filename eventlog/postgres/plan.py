"""A batch of appends as the node expects it to go: decided here, by the rules of the log.

The database decides nothing. It is told where each stream was believed to be, and refuses a stream
that is elsewhere, or of which an idempotency key is taken, with all that the batch has of it. Of a
stream that was believed rightly, every outcome holds that was decided here, a refusal as well.

So a batch is one call, and whoever owns its streams needs only that one.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import msgspec

from eventlog.core import frame
from eventlog.core.errors import (
    EventLogError,
    Fenced,
    IdempotencyConflict,
    InvalidAppend,
    WrongExpectedVersion,
)
from eventlog.core.keys import Cipher, Keys
from eventlog.core.records import ANY_VERSION, Appended, StreamHead
from eventlog.core.requests import I64_MAX, AppendRequest
from eventlog.core.rows import blind_id, key_id
from eventlog.keys.aes_gcm import ENCRYPTIONS_MAX
from eventlog.postgres.database import Bytes, Ints

U64 = struct.Struct(">Q")
TIME_MIN = -(2**63)


class Believed(NamedTuple):
    """The place of a stream, as far as this node knows."""

    version: int
    epoch: int
    stored_bytes: int
    chain: bytes
    recorded_at_us: int = TIME_MIN
    erased_version: int = 0

    @classmethod
    def nowhere(cls, sid: bytes) -> "Believed":
        """Return the place of a stream that never was."""
        return cls(0, 0, 0, frame.chain_start(sid))

    def head(self) -> StreamHead:
        """Return it as callers see it."""
        return StreamHead(
            self.version, self.epoch, self.stored_bytes, self.chain, self.erased_version
        )


class FirstResult(NamedTuple):
    """The result that an idempotency key stands for."""

    digest: bytes
    first_version: int
    last_version: int
    position: int
    """Of its last event; 0 while it is an append of this very batch."""
    event: int = 0
    """The number of that event in the batch."""


ShardOf: TypeAlias = Callable[[str], int]
"""The shard of a stream, by its name."""
NO_SHARD = -1


def alone(_stream: str) -> int:
    """Return the shard of a stream in a store that is no one of several."""
    return NO_SHARD


RequestKey = tuple[bytes, bytes]
"""Stream id, and id of the idempotency key."""


@dataclass(slots=True)
class _PlannedStream:
    number: int
    before: Believed
    now: Believed
    name: bytes
    shard: int


class Rows(NamedTuple):
    """The arrays of `append_batch`, in its order."""

    s_sid: Bytes
    s_version: Ints
    s_epoch: Ints
    s_erased: Ints
    s_chain: Bytes
    s_shard: Ints
    t_name: Bytes
    t_version: Ints
    t_epoch: Ints
    t_bytes: Ints
    t_chain: Bytes
    t_recorded_at: Ints
    e_stream: Ints
    e_sid: Bytes
    e_version: Ints
    e_frame: Bytes
    e_payload: Bytes
    k_stream: Ints
    k_sid: Bytes
    k_key: Bytes
    k_version: Ints
    r_stream: Ints
    r_sid: Bytes
    r_key: Bytes
    r_digest: Bytes
    r_first: Ints
    r_last: Ints
    c_stream: Ints
    c_name: Bytes
    c_position: Bytes
    w_stream: Ints
    w_name: Bytes
    w_key: Bytes
    w_value: Bytes
    n_stream: Ints
    n_name: Bytes
    n_delta: Ints
    n_cap: Ints


def _no_rows() -> Rows:
    return Rows(*(kind() for kind in Rows.__annotations__.values()))


@dataclass(slots=True)
class _DecidedAppend:
    request: AppendRequest
    stream: _PlannedStream
    outcome: Appended | Exception
    event: int = 0
    """The number of its last event in the batch; 0: it has none there."""


@dataclass(slots=True)
class BatchPlan:
    """A batch that grows. `believed` and `requests` are what is known of the database."""

    keys: Keys | None
    believed: Mapping[bytes, Believed]
    requests: dict[RequestKey, FirstResult]
    caps: Mapping[str, int]
    """The most that a total may be, by name."""
    shard_of: ShardOf = alone
    rows: Rows = field(default_factory=_no_rows)
    _streams: dict[bytes, _PlannedStream] = field(default_factory=dict)
    _decided: list[_DecidedAppend] = field(default_factory=list)

    def add(self, request: AppendRequest) -> None:
        """Decide what becomes of an append behind those before it."""
        sid = frame.stream_id(request.stream)
        stream = self._streams.get(sid)
        if stream is None:
            before = self.believed[sid]
            name = request.stream.encode()
            stream = _PlannedStream(
                len(self._streams) + 1, before, before, name, self.shard_of(request.stream)
            )
            self._streams[sid] = stream
        decided = _DecidedAppend(request, stream, InvalidAppend("undecided"))
        try:
            self._decide(decided, sid, stream, request)
        except EventLogError as refusal:
            decided.outcome = refusal
        self._decided.append(decided)

    def finished(self) -> Rows:
        """Return the arrays, those of the streams included."""
        rows = self.rows
        for column in rows[:12]:
            column.clear()
        for sid, stream in self._streams.items():
            before, now = stream.before, stream.now
            rows.s_sid.append(sid)
            rows.s_version.append(before.version)
            rows.s_epoch.append(before.epoch)
            rows.s_erased.append(before.erased_version)
            rows.s_chain.append(before.chain)
            rows.s_shard.append(stream.shard)
            rows.t_name.append(stream.name)
            rows.t_version.append(now.version)
            rows.t_epoch.append(now.epoch)
            rows.t_bytes.append(now.stored_bytes)
            rows.t_chain.append(now.chain)
            rows.t_recorded_at.append(now.recorded_at_us)
        return rows

    def outcomes(self, position: int, refused: Sequence[int]) -> list[Appended | Exception | None]:
        """Return the outcome of each append of a batch that began behind a position.

        None for those of streams that were refused: nothing is known of them.
        """
        gone = set(refused)
        landed = [position, *(stream not in gone for stream in self.rows.e_stream)]
        positions = list(accumulate(landed))
        return [
            None if decided.stream.number in gone else _placed(decided, positions)
            for decided in self._decided
        ]

    def end(self, position: int, refused: Sequence[int]) -> int:
        """Return the position of the last event of a batch that began behind a position."""
        if not refused:
            return position + len(self.rows.e_stream)
        return position + sum(stream not in refused for stream in self.rows.e_stream)

    def streams_after(self, refused: Sequence[int]) -> Iterable[tuple[bytes, Believed | None]]:
        """Yield where each stream is after the batch; None for those that were refused."""
        gone = set(refused)
        for sid, stream in self._streams.items():
            yield sid, None if stream.number in gone else stream.now

    def _decide(
        self, decided: _DecidedAppend, sid: bytes, stream: _PlannedStream, request: AppendRequest
    ) -> None:
        now, key = stream.now, request.idempotency_key
        is_empty = now.version == now.erased_version
        cipher = None if self.keys is None or is_empty else self.keys.cipher(request.stream)
        if key is not None and (self.keys is None or not is_empty):
            first = self.requests.get((sid, blind_id(key, cipher)))
            if first is not None:
                decided.event = first.event
                decided.outcome = first_result(request, first, cipher)
                return
            self._look_up(stream, sid, blind_id(key, cipher))
        if request.epoch < now.epoch:
            raise Fenced(request.stream, request.epoch, now.epoch)
        if request.expected_version not in (ANY_VERSION, now.version):
            raise WrongExpectedVersion(request.stream, request.expected_version, now.version)
        if self.keys is not None and now.version - now.erased_version >= ENCRYPTIONS_MAX:
            raise InvalidAppend(f"stream {request.stream!r} is full: its key encrypts no more")
        if self.keys is not None and is_empty:
            cipher = self.keys.make(request.stream)
            if key is not None:
                self._look_up(stream, sid, blind_id(key, cipher))
        self._put(decided, sid, stream, cipher)

    def _look_up(self, stream: _PlannedStream, sid: bytes, key: bytes) -> None:
        """Have the stream refused if a key is taken that is not known to be."""
        rows = self.rows
        rows.r_stream.append(stream.number)
        rows.r_sid.append(sid)
        rows.r_key.append(key)
        rows.r_digest.append(b"")
        rows.r_first.append(0)
        rows.r_last.append(0)

    def _put(
        self, decided: _DecidedAppend, sid: bytes, stream: _PlannedStream, cipher: Cipher | None
    ) -> None:
        request, now, rows = decided.request, stream.now, self.rows
        version, chain, stored = now.version, now.chain, now.stored_bytes
        at_us = request.recorded_at_us
        if not request.is_timed:
            at_us = max(at_us, now.recorded_at_us)
        for prepared in request.events:
            version += 1
            data, chain = frame.pack(
                prepared, position=version, sid=sid, version=version, recorded_at_us=at_us,
                prev=chain, cipher=cipher,
            )  # fmt: skip
            header, payload = frame.split(data)
            stored += len(prepared.body)
            rows.e_stream.append(stream.number)
            rows.e_sid.append(sid)
            rows.e_version.append(version)
            rows.e_frame.append(header)
            rows.e_payload.append(payload)
            for key in prepared.keys:
                rows.k_stream.append(stream.number)
                rows.k_sid.append(sid)
                rows.k_key.append(blind_id(key, cipher))
                rows.k_version.append(version)
        decided.event = len(rows.e_stream)
        decided.outcome = Appended(request.stream, now.version + 1, version, 0)
        epoch = max(now.epoch, request.epoch)
        stream.now = now._replace(
            version=version, epoch=epoch, stored_bytes=stored, chain=chain, recorded_at_us=at_us
        )
        self._put_beside(decided, sid, stream, cipher)

    def _put_beside(
        self, decided: _DecidedAppend, sid: bytes, stream: _PlannedStream, cipher: Cipher | None
    ) -> None:
        """Put what goes with the events: idempotency key, checkpoint, counters."""
        request, rows, outcome = decided.request, self.rows, decided.outcome
        assert isinstance(outcome, Appended)
        if request.idempotency_key is not None:
            key, digest = blind_id(request.idempotency_key, cipher), blind(request.digest, cipher)
            versions = outcome.first_version, outcome.last_version
            self.requests[sid, key] = FirstResult(digest, *versions, 0, decided.event)
            rows.r_digest[-1], rows.r_first[-1], rows.r_last[-1] = digest, *versions
        if request.checkpoint is not None:
            name = key_id(request.checkpoint.name)
            rows.c_stream.append(stream.number)
            rows.c_name.append(name)
            rows.c_position.append(U64.pack(request.checkpoint.position))
            for key, value in request.checkpoint.writes.items():
                rows.w_stream.append(stream.number)
                rows.w_name.append(name)
                rows.w_key.append(key)
                rows.w_value.append(value)
        for total, delta in request.counters.items():
            rows.n_stream.append(stream.number)
            rows.n_name.append(total.encode())
            rows.n_delta.append(delta)
            rows.n_cap.append(self.caps.get(total, I64_MAX))


def first_result(request: AppendRequest, first: FirstResult, cipher: Cipher | None) -> Appended:
    """Return the result of an earlier append under the same idempotency key.

    :raises IdempotencyConflict: it was another request.
    """
    key = request.idempotency_key or ""
    return same_request(request.stream, key, blind(request.digest, cipher), first)


def same_request(stream: str, key: str, digest: bytes, first: FirstResult) -> Appended:
    """Return the first result of a key, if it stood for this request.

    :raises IdempotencyConflict: it stood for another one.
    """
    if digest != first.digest:
        raise IdempotencyConflict(
            f"idempotency key {key!r} of stream {stream!r} was used for another request: "
            "use a new key"
        )
    return Appended(stream, first.first_version, first.last_version, first.position, duplicate=True)


def blind(digest: bytes, cipher: Cipher | None) -> bytes:
    """Return the digest of a request as it is stored: nobody may test a guess at what it was."""
    return digest if cipher is None else cipher.blind(digest)


def _placed(decided: _DecidedAppend, positions: Sequence[int]) -> Appended | Exception:
    """Return an outcome with the position that it got."""
    outcome = decided.outcome
    if isinstance(outcome, Exception) or not decided.event:
        return outcome
    if decided.request.durability == "relaxed":
        return outcome
    return msgspec.structs.replace(outcome, last_position=positions[decided.event])
