"""A batch of appends as the node expects it to go: decided here, by the rules of the log.

The database decides nothing. It gets the assumed end of each stream. It refuses all appends of a
stream that has another end, or whose idempotency key exists. If the assumption is right, every
outcome decided here is valid, refusals included.

A batch therefore needs one call only, if the node owns its streams.
"""

import asyncio
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

from eventlog.core import frame, rules
from eventlog.core.errors import EventLogError, TotalExceeded
from eventlog.core.keys import Cipher, Keys
from eventlog.core.plain_events import Run, packed_one_by_one
from eventlog.core.records import Appended
from eventlog.core.requests import BATCH_BYTES_MAX, I64_MAX, AppendRequest
from eventlog.core.rows import blind_digest, blind_id, key_id
from eventlog.postgres.arrays import BatchRows
from eventlog.postgres.database import Row

U64 = struct.Struct(">Q")
TIME_MIN = -(2**63)


class Believed(rules.StreamEnd, msgspec.Struct, frozen=True, gc=False):
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


class KnownRequest(rules.FirstAppend, frozen=True, gc=False):
    """The append that an idempotency key stands for, as far as this node knows.

    Its position is 0 while it is an append of this very batch.
    """

    event: int = 0
    """The number of its last event in the batch."""


RequestKey = tuple[bytes, bytes]
"""Stream id, and id of the idempotency key."""


@dataclass(slots=True)
class _PlannedStream:
    number: int
    before: Believed
    now: Believed
    name: bytes


class _DecidedAppend(msgspec.Struct, frozen=True, gc=False):
    stream: int
    """The number of its stream in the batch."""
    outcome: Appended | EventLogError
    """Without the position, which is not known yet."""
    event: int = 0
    """The number of its last event in the batch; 0: it has none there."""

    def placed(self, position: int) -> Appended | EventLogError:
        found = self.outcome
        if not self.event or isinstance(found, EventLogError):
            return found
        return Appended(
            found.stream, found.first_version, found.last_version, position, found.duplicate
        )


@dataclass(slots=True)
class BatchPlan:
    """A batch that grows. `believed` and `requests` are what is known of the database."""

    keys: Keys | None
    believed: dict[bytes, Believed]
    requests: dict[RequestKey, KnownRequest]
    caps: Mapping[str, int]
    """The most that a total may be, by name."""
    rows: BatchRows = field(default_factory=BatchRows)
    streams: dict[bytes, _PlannedStream] = field(default_factory=dict)
    """By stream id."""
    _decided: list[_DecidedAppend] = field(default_factory=list)
    _events: list[int] = field(default_factory=list)
    """The number of the stream of each event."""

    def add(self, request: AppendRequest) -> None:
        """Decide what becomes of an append behind those before it."""
        sid = frame.stream_id(request.stream)
        stream = self.streams.get(sid)
        if stream is None:
            before, number = self.believed[sid], len(self.streams) + 1
            stream = _PlannedStream(number, before, before, request.stream.encode())
            self.streams[sid] = stream
        try:
            decided = self._decide(sid, stream, request)
        except EventLogError as refusal:
            decided = _DecidedAppend(stream.number, refusal)
        self._decided.append(decided)

    def after(self, sid: bytes) -> Believed | None:
        """Return where a stream is after this batch; or None if the batch has nothing of it."""
        stream = self.streams.get(sid)
        return None if stream is None else stream.now

    def finished(self) -> BatchRows:
        """Return the rows, those of the streams included."""
        for sid, stream in self.streams.items():
            now = stream.now
            self.rows.put_stream(sid, stream.name, stream.before, now, now.recorded_at_us)
        return self.rows

    def outcomes(
        self, position: int, refused: Collection[int]
    ) -> tuple[list[Appended | EventLogError | None], int]:
        """Return the outcome of each append of a batch that began behind a position, and its end.

        Appends of refused streams have None: nothing is known of them.
        """
        if not refused:
            outcomes = [decided.placed(position + decided.event) for decided in self._decided]
            return [*outcomes], position + len(self._events)
        landed = [position, *(stream not in refused for stream in self._events)]
        positions = list(accumulate(landed))
        return [
            None if decided.stream in refused else decided.placed(positions[decided.event])
            for decided in self._decided
        ], positions[-1]

    def _decide(self, sid: bytes, stream: _PlannedStream, request: AppendRequest) -> _DecidedAppend:
        now, name, key = stream.now, request.stream, request.idempotency_key
        if key is not None and (self.keys is None or not now.is_empty):
            cipher = rules.cipher_to_read(self.keys, name)
            key_of = blind_id(key, cipher)
            first = self.requests.get((sid, key_of))
            if first is not None:
                again = first.repeated(name, key, blind_digest(request.digest, cipher))
                return _DecidedAppend(stream.number, again, first.event)
            self._look_up(stream, sid, key_of)
        rules.check_end(request, now.version, now.epoch)
        cipher = rules.cipher_to_write(self.keys, name, now)
        if key is not None and cipher is not None and now.is_empty:
            self._look_up(stream, sid, blind_id(key, cipher))
        return self._put(sid, stream, request, cipher)

    def _look_up(self, stream: _PlannedStream, sid: bytes, key: bytes) -> None:
        """Have the stream refused if a key is taken that is not known to be."""
        self.rows.requests.append(self.rows.row(stream.number, sid, key, b"", 0, 0))

    def _put(
        self, sid: bytes, stream: _PlannedStream, request: AppendRequest, cipher: Cipher | None
    ) -> _DecidedAppend:
        now, rows, number = stream.now, self.rows, stream.number
        at_us = request.recorded_at_us
        if not request.is_timed and at_us < now.recorded_at_us:
            at_us = now.recorded_at_us
        run = Run(request.events, sid, now.version, at_us, cipher)
        for prepared, version, data in packed_one_by_one(run, now.version, now.chain):
            self._events.append(number)
            rows.put_event(number, sid, version, *frame.split(data))
            for key in prepared.keys:
                rows.put_key(number, sid, blind_id(key, cipher), version)
        chain = frame.chain_of(data)
        stream.now = Believed(*now.behind(request), chain, at_us, now.erased_version)
        first = now.version + 1
        if request.idempotency_key is not None:
            key_of = blind_id(request.idempotency_key, cipher)
            digest, last_event = blind_digest(request.digest, cipher), len(self._events)
            self.requests[sid, key_of] = KnownRequest(digest, first, version, 0, last_event)
            rows.requests[-1] = rows.row(number, sid, key_of, digest, first, version)
        if request.checkpoint is not None:
            name = key_id(request.checkpoint.name)
            rows.checkpoints.append(rows.row(number, name, U64.pack(request.checkpoint.position)))
            for entry, value in request.checkpoint.writes.items():
                rows.entries.append(rows.row(number, name, entry, value))
        for total, delta in request.counters.items():
            cap = self.caps.get(total, I64_MAX)
            rows.totals.append(rows.row(number, total.encode(), delta, cap))
        event = 0 if request.durability == "relaxed" else len(self._events)
        return _DecidedAppend(number, Appended(request.stream, first, version, 0), event)


def check_caps(
    totals: Mapping[str, int], counters: Mapping[str, int], caps: Mapping[str, int]
) -> None:
    """Refuse what passes the cap of a total.

    :raises TotalExceeded: a total grows, and would be above its cap.
    """
    for name, cap in caps.items():
        used, delta = totals.get(name, 0), counters.get(name, 0)
        if delta > 0 and used + delta > cap:
            raise TotalExceeded(name, used, delta, cap)


# --- what callers give the writer, and the batches that it makes of that


@dataclass(slots=True, eq=False)
class Append:
    """An append, and whom to tell."""

    request: AppendRequest
    result: asyncio.Future[Appended]
    asked_s: float
    """The time at which the caller asked, by the clock of the loop."""
    is_settled: bool = False
    """Not the same as a result that is done: the caller may have been cancelled."""
    was_refused: bool = False
    """True if the node believed its stream elsewhere, or did not know of its idempotency key."""
    is_alone: bool = False
    """True if it goes into a batch by itself."""


@dataclass(slots=True, eq=False)
class ProcedureCall:
    """A call of a procedure, which is carried out by itself and may be carried out twice."""

    query: str
    values: Sequence[object]
    result: asyncio.Future[list[Row]]
    asked_s: float
    """The time at which the caller asked, by the clock of the loop."""


@dataclass(slots=True, eq=False)
class Flush:
    """Somebody who waits until all that is before it has been answered, however long that takes."""

    result: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class Batch:
    """Appends that go to the database as one call."""

    jobs: list[Append] = field(default_factory=list)
    plan: BatchPlan | None = None
    """The plan, or None if it was not planned ahead."""
    events: int = 0
    payload_bytes: int = 0

    def has_room(self, job: Append, events_max: int) -> bool:
        """Say whether an append goes into it."""
        if not self.jobs:
            return True
        return (
            self.events + len(job.request.events) <= events_max
            and self.payload_bytes + job.request.payload_bytes <= BATCH_BYTES_MAX
            and not (job.is_alone or self.jobs[0].is_alone)
        )

    def put(self, job: Append) -> None:
        """Put an append in."""
        self.jobs.append(job)
        self.events += len(job.request.events)
        self.payload_bytes += job.request.payload_bytes
