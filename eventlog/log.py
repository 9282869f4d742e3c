"""The event log on LMDB: the public face of this package's store.

One directory holds one log: `log.mdb` (the tables), `log.anchor` (where it ended, see anchor.py)
and `log.mdb.lock` (who has it open). An `EventLog` belongs to the event loop that opened it.

The way of an append: encode on the loop, wait for room in the queue, hand a job to the writer
thread, wake up when its batch is on disk. Reads go to LMDB's memory map directly: a few rows on the
loop (microseconds), many in a worker thread.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio.to_thread
import msgspec
import structlog

from eventlog import frame
from eventlog.anchor import Anchor
from eventlog.audit import Progress, Verification, VerifyReport
from eventlog.checkpoints import Checkpoint, load_checkpoint, load_entry, put_checkpoint
from eventlog.codec import EventRegistry
from eventlog.environment import MAP_BYTES, Environment, Transaction
from eventlog.errors import CorruptLog, LogClosed, WrongExpectedVersion
from eventlog.ledger import Ledger
from eventlog.records import (
    ANY_VERSION,
    Appended,
    Durability,
    Prepared,
    Recorded,
    Snapshot,
    StreamHead,
)
from eventlog.requests import (
    AppendRequest,
    check_append,
    check_checkpoint,
    check_stream_name,
    request_digest,
    system_clock_us,
)
from eventlog.snapshots import load_snapshot, put_snapshot
from eventlog.tables import TABLES
from eventlog.writer import Job, Outcome, Writer

QUEUE_EVENTS_MAX = 65_536  # 64 full batches: beyond that callers wait, and memory stays bounded
INLINE_ROWS_MAX = 32  # rows read on the loop: about 0.1 ms, what a hop to a thread would cost
SIZE_MAX_BYTES = MAP_BYTES // 2

_logger = structlog.get_logger("eventlog")
T = TypeVar("T")


class LogStatistics(msgspec.Struct, frozen=True):
    """What a log has done since it was opened, and where it stands."""

    last_position: int
    queued_events: int
    events_appended: int
    batches: int
    relaxed_lost: int
    """Events acknowledged as relaxed whose write failed afterwards."""
    used_bytes: int


class EventLog:
    """An append-only log of streams in one directory. Open it with `EventLog.open`."""

    def __init__(self, directory: Path, registry: EventRegistry, options: "_Options"):
        self.registry = registry
        self._clock = options.clock
        self._queue_events_max = options.queue_events_max
        self._env = Environment(
            directory / "log.mdb", TABLES, size_max_bytes=options.size_max_bytes
        )
        self._ledger = Ledger(self._env, registry)
        try:
            self._anchor = Anchor(directory / "log.anchor")
            self._env.write(lambda txn: self._ledger.check_format(txn, self._clock()))
            self._tail = self._check_anchor()
        except BaseException:
            self._env.close()
            raise
        self._writer: Writer | None = None
        self._queued_events = 0
        self._counts: Counter[str] = Counter()
        self._in_flight: dict[str, _InFlight] = {}
        self._room_waiters: deque[asyncio.Future[None]] = deque()
        self._tail_waiters: list[asyncio.Future[None]] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        directory: str | Path,
        registry: EventRegistry,
        *,
        clock: Callable[[], int] = system_clock_us,
        size_max_bytes: int = SIZE_MAX_BYTES,
        queue_events_max: int = QUEUE_EVENTS_MAX,
    ) -> AsyncIterator[Self]:
        """Open the log in `directory`, made if missing, and close it at the end of the block.

        `clock` gives microseconds since 1970; `size_max_bytes` limits the pages in use.

        :raises LogLocked: it is open elsewhere (at once, without waiting).
        :raises CorruptLog: the file is cut short, or its last events were rolled back.
        :raises LogUnavailable: the directory cannot be used.
        :raises UnknownEvent: it was made by a newer version; it is left untouched.
        """
        options = _Options(clock, size_max_bytes, queue_events_max)
        log = await anyio.to_thread.run_sync(lambda: cls(Path(directory), registry, options))
        log._start()  # noqa: SLF001 - its own class
        try:
            yield log
        finally:
            with anyio.CancelScope(shield=True):
                await log._close()  # noqa: SLF001 - its own class

    # --- append

    async def append(
        self,
        stream: str,
        events: Sequence[Any],
        expected_version: int,
        *,
        epoch: int = 0,
        idempotency_key: str | None = None,
        request: bytes | None = None,
        durability: Durability = "commit",
        meta: Mapping[str, str] | None = None,
        recorded_at_us: int | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Appended:
        """Append events to a stream, all or none. See `EventStore.append` for the contract."""
        prepared = [
            event if isinstance(event, Prepared) else self.registry.prepare(event, meta)
            for event in events
        ]
        check_append(stream, prepared, expected_version, durability, idempotency_key)
        ready = AppendRequest(
            stream=stream,
            events=prepared,
            expected_version=expected_version,
            recorded_at_us=self._clock() if recorded_at_us is None else recorded_at_us,
            epoch=epoch,
            idempotency_key=idempotency_key,
            digest=_digest(prepared, request) if idempotency_key is not None else b"",
            checkpoint=checkpoint,
        )
        await self._wait_for_room()
        if durability == "relaxed":
            return await self._append_relaxed(ready)
        appended: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._put_append(ready, partial(_settle, appended))
        return await appended

    async def _append_relaxed(self, request: AppendRequest) -> Appended:
        """Answer from what has been accepted so far, and let the writer follow."""
        actual = await self._accepted_version(request.stream)
        if request.expected_version != actual:
            raise WrongExpectedVersion(request.stream, request.expected_version, actual)
        self._put_append(request, lambda outcome: self._relaxed_done(request, outcome))
        return Appended(request.stream, actual + 1, actual + len(request.events), 0)

    def _relaxed_done(self, request: AppendRequest, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            self._counts["relaxed_lost"] += len(request.events)
            _logger.error("relaxed append lost", events=len(request.events), error=str(outcome))

    def _put_append(self, request: AppendRequest, done: Callable[[Outcome], None]) -> None:
        def landed(outcome: Outcome) -> None:
            self._leave(request.stream)
            done(outcome)

        payload_bytes = sum(len(prepared.body) for prepared in request.events)
        job = Job(
            lambda txn: self._ledger.append(txn, request),
            len(request.events),
            payload_bytes,
            landed,
        )
        self._put(job)
        self._enter(request)

    def _enter(self, request: AppendRequest) -> None:
        """Remember where the stream will stand when what is in flight has landed."""
        in_flight = self._in_flight.setdefault(request.stream, _InFlight())
        in_flight.appends += 1
        in_flight.version = (
            None
            if request.expected_version == ANY_VERSION
            else request.expected_version + len(request.events)
        )

    def _leave(self, stream: str) -> None:
        self._in_flight[stream].appends -= 1
        if self._in_flight[stream].appends == 0:
            del self._in_flight[stream]

    async def _accepted_version(self, stream: str) -> int:
        in_flight = self._in_flight.get(stream)
        if in_flight is not None and in_flight.version is None:
            await self.flush()
            return await self._accepted_version(stream)
        if in_flight is not None and in_flight.version is not None:
            return in_flight.version
        return (await self.head(stream)).version

    async def acquire(self, stream: str, epoch: int) -> StreamHead:
        """Raise the stream's epoch. See `EventStore.acquire`."""
        check_stream_name(stream)
        return await self._submit(
            lambda txn: self._ledger.acquire(txn, stream, epoch), events=1, payload_bytes=128
        )

    async def flush(self) -> None:
        """Return when everything accepted so far is durable."""
        await self._submit(lambda _txn: None, events=0, payload_bytes=0)

    # --- read

    async def head(self, stream: str) -> StreamHead:
        """Return the end of a stream; version 0 if it never was."""
        with self._env.read() as txn:
            return self._ledger.stream(txn, stream).head()

    async def streams(self) -> list[str]:
        """Return the name of every stream."""
        return await self._read_in_thread(self._ledger.stream_names)

    async def read_stream(
        self, stream: str, after: int = 0, limit: int = 512
    ) -> list[Recorded[Any]]:
        """Return up to `limit` events of a stream behind version `after`."""
        return await self._read(
            limit, lambda txn: self._ledger.stream_events(txn, stream, after, limit)
        )

    async def read_all(self, after: int = 0, limit: int = 512) -> list[Recorded[Any]]:
        """Return up to `limit` events of the log behind position `after`."""
        if after >= self._tail:
            return []
        return await self._read(limit, lambda txn: self._ledger.events(txn, after, limit))

    async def read_event(self, position: int) -> Recorded[Any] | None:
        """Return the event at a position, None if there is none."""
        with self._env.read() as txn:
            return self._ledger.event(txn, position)

    async def read_versions(self, stream: str, versions: Sequence[int]) -> list[Recorded[Any]]:
        """Return these events of a stream, in the order asked for."""
        sid = frame.stream_id(stream)
        return await self._read(
            len(versions),
            lambda txn: [self._ledger.stream_event(txn, stream, sid, v) for v in versions],
        )

    async def versions_about(self, stream: str, key: str) -> list[int]:
        """Return the versions of a stream's events about `key`."""
        with self._env.read() as txn:
            return self._ledger.versions_about(txn, stream, key)

    async def find_request(
        self, stream: str, idempotency_key: str, request: bytes
    ) -> Appended | None:
        """Return what this request's idempotency key got before, None if it is new."""
        with self._env.read() as txn:
            return self._ledger.first_result(txn, stream, idempotency_key, request)

    async def wait_beyond(self, position: int) -> bool:
        """Wait for an event behind `position`; False when the log closes."""
        while self._tail <= position:
            if self._writer is None:
                return False
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._tail_waiters.append(waiter)
            await waiter
        return True

    # --- snapshots and subscribers

    async def save_snapshot(self, stream: str, snapshot: Snapshot, fingerprint: str) -> None:
        """Keep a snapshot and the newest one before it."""
        await self._submit(
            lambda txn: put_snapshot(self._env, txn, stream, snapshot, fingerprint),
            events=1,
            payload_bytes=len(snapshot.data),
        )

    async def load_snapshot(self, stream: str, fingerprint: str) -> Snapshot | None:
        """Return the newest whole snapshot of this schema, if any."""
        return await self._read_in_thread(
            lambda txn: load_snapshot(
                self._env, txn, stream, fingerprint, self._ledger.stream(txn, stream).version
            )
        )

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a subscriber's position and entries in one transaction."""
        check_checkpoint(checkpoint)
        size = sum(len(key) + len(value or b"") for key, value in checkpoint.writes.items())
        await self._submit(
            lambda txn: put_checkpoint(self._env, txn, checkpoint), events=1, payload_bytes=size
        )

    async def load_checkpoint(self, name: str) -> int:
        """Return a subscriber's position, 0 if it has none."""
        with self._env.read() as txn:
            return load_checkpoint(self._env, txn, name)

    async def load_entry(self, name: str, key: bytes) -> bytes | None:
        """Return one entry that a subscriber stored."""
        with self._env.read() as txn:
            return load_entry(self._env, txn, name, key)

    # --- the log itself

    def statistics(self) -> LogStatistics:
        """Return counters and sizes."""
        with self._env.read() as txn:
            used = self._env.used_bytes(txn)
        return LogStatistics(
            last_position=self._tail,
            queued_events=self._queued_events,
            events_appended=self._counts["events"],
            batches=self._counts["batches"],
            relaxed_lost=self._counts["relaxed_lost"],
            used_bytes=used,
        )

    async def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every event, chain and index; `progress(done, total)` is called from a thread."""
        await self.flush()
        verification = Verification(self._env, self._ledger, progress)
        return await anyio.to_thread.run_sync(verification.run)

    def _check_anchor(self) -> int:
        position, chain = self._anchor.read()
        with self._env.read() as txn:
            found = self._ledger.chain_at(txn, position) if position else b""
            last, _ = self._ledger.tail(txn)
        if found != chain:
            raise CorruptLog(
                f"the log ends at position {last}, but {position} had been committed with another "
                "content: the file was damaged or replaced; restore a backup"
            )
        return last

    def _start(self) -> None:
        self._writer = Writer(
            self._env,
            committed=self._ledger.tail,
            after_commit=lambda tail: self._anchor.write(*tail),
            deliver=self._deliver,
        )

    async def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await anyio.to_thread.run_sync(writer.stop)
        self._wake_tail_waiters()
        self._wake_room_waiters()
        self._anchor.close()
        self._env.close()

    # --- plumbing between the loop and the writer

    async def _wait_for_room(self) -> None:
        while self._queued_events >= self._queue_events_max:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room_waiters.append(waiter)
            await waiter

    async def _submit(
        self, run: Callable[[Transaction], T], *, events: int, payload_bytes: int
    ) -> T:
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        done = partial(_settle, result)
        self._put(Job(run, events, payload_bytes, done, frees=payload_bytes == 0))
        return await result

    def _put(self, job: Job) -> None:
        if self._writer is None:
            raise LogClosed("the log is closed: open it again")
        self._queued_events += job.events
        self._writer.put(job)

    def _deliver(
        self, batch: list[Job], outcomes: list[Outcome], tail: tuple[int, bytes] | None
    ) -> None:
        self._queued_events -= sum(job.events for job in batch)
        self._counts["batches"] += 1
        for job, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Appended) and not outcome.duplicate:
                self._counts["events"] += job.events
            job.done(outcome)
        if tail is not None and tail[0] > self._tail:
            self._tail = tail[0]
            self._wake_tail_waiters()
        self._wake_room_waiters()

    def _wake_tail_waiters(self) -> None:
        waiters, self._tail_waiters = self._tail_waiters, []
        for waiter in waiters:
            _settle(waiter, None)

    def _wake_room_waiters(self) -> None:
        """Wake no more callers than there is room for; each looks again for itself."""
        free = max(0, self._queue_events_max - self._queued_events)
        for _ in range(min(free, len(self._room_waiters))):
            _settle(self._room_waiters.popleft(), None)

    async def _read(self, rows: int, read: Callable[[Transaction], T]) -> T:
        if rows > INLINE_ROWS_MAX:
            return await self._read_in_thread(read)
        with self._env.read() as txn:
            return read(txn)

    async def _read_in_thread(self, read: Callable[[Transaction], T]) -> T:
        def run() -> T:
            with self._env.read() as txn:
                return read(txn)

        return await anyio.to_thread.run_sync(run)


class _Options(msgspec.Struct, frozen=True):
    clock: Callable[[], int]
    size_max_bytes: int
    queue_events_max: int


@dataclass(slots=True)
class _InFlight:
    """Appends of one stream that the writer has not answered yet."""

    appends: int = 0
    version: int | None = None
    """The stream's version after them; None when an append without a version is among them."""


def _settle(future: "asyncio.Future[Any]", outcome: Outcome) -> None:
    """Hand an outcome to a caller, unless it was cancelled meanwhile."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _digest(events: Sequence[Prepared], request: bytes | None) -> bytes:
    return request_digest(events) if request is None else request
