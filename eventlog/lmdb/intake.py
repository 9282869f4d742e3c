"""The intake: what stands between callers on the event loop and the writer's thread.

It bounds what is queued, by events and by bytes, and settles each caller's future when the writer
has answered. It answers relaxed appends at once if it knows where the stream will stand: either
nothing of the stream is in flight, or all of it is relaxed appends that were checked here.
Otherwise it waits until that has landed, or answers as `commit`: if the stream has no key in an
encrypted log, has lost a relaxed append, if a pending append could make a total refuse it, or while
commits are stalled.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from eventlog.core.errors import LogClosed, WrongLoop
from eventlog.core.logs import get_logger
from eventlog.core.records import TOTALS_MAX, Appended, StreamHead
from eventlog.core.requests import I64_MAX, QUEUE_BYTES_MAX, AppendRequest
from eventlog.core.rules import check_end
from eventlog.core.waiting import LogEnd, QueueRoom, settle
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import Landed
from eventlog.lmdb.opening import Files
from eventlog.lmdb.writer import AppendJob, Outcome, Work, WriteJob, Writer

_logger = get_logger("eventlog")
T = TypeVar("T")


@dataclass(slots=True)
class _InFlight:
    appends: int = 0
    head: StreamHead | None = None
    """The stream's end after them; or None if one of them may still be refused."""


class Intake:
    """Takes work for the writer. Belongs to the event loop it was made on."""

    def __init__(self, files: Files, events_max: int):
        self._keys = files.keys
        self._loop = asyncio.get_running_loop()
        self.end = LogEnd(files.position)
        """The last durable event."""
        self.room = QueueRoom(events_max, QUEUE_BYTES_MAX)
        self.counts: Counter[str] = Counter()
        self.is_stalled = False
        """While the file is replaced: what is answered before it is on disk would be late there."""
        self.tally = TotalsTally(files.totals)
        self._env = files.env
        self._ledger = files.ledger
        self._in_flight: dict[str, _InFlight] = {}
        self._distrusted: set[str] = set()  # streams that lost a relaxed append and none since
        self._closed = False
        self._writer = Writer(
            files.env,
            files.ledger,
            anchor=files.anchor,
            deliver=self._deliver,
            keys=files.keys,
        )

    def close(self) -> None:
        """Take nothing more in."""
        self._closed = True
        self.end.close()
        self.room.close()

    def stop(self) -> None:
        """Finish what was taken in. Blocks: call it off the loop, or when that has ended."""
        self._closed = True
        self._writer.stop()
        with suppress(RuntimeError):  # the loop has gone, and with it everyone to wake
            self._loop.call_soon_threadsafe(self.close)

    # --- what callers ask

    def append(self, request: AppendRequest) -> Awaitable[Appended]:
        """Queue an append; await its result, which comes once it is durable."""
        if self.room.is_full:
            return self._append_later(request)
        answer: asyncio.Future[Appended] = self._loop.create_future()
        self._put_append(request, None, answer)
        return answer

    async def _append_later(self, request: AppendRequest) -> Appended:
        await self.room.wait()
        return await self.append(request)

    async def append_relaxed(self, request: AppendRequest) -> Appended:
        """Queue an append and return its result at once, from what has been accepted so far."""
        if request.stream in self._distrusted:
            durable = await self.append(request)
            self._distrusted.discard(request.stream)
            return durable
        if self._keys is not None and not self._keys.has(request.stream):
            return msgspec.structs.replace(await self.append(request), last_position=0)
        if self.room.is_full:
            await self.room.wait()
        head = await self._accepted(request.stream)
        if self.is_stalled:
            return await self.append(request)
        check_end(request, head.version, head.epoch)
        if request.counters and not self.tally.is_certain(request.counters):
            return await self.append(request)
        after = StreamHead(head.version + len(request.events), max(head.epoch, request.epoch))
        self._put_append(request, after)
        return Appended(request.stream, head.version + 1, after.version, 0)

    async def submit(
        self,
        run: Callable[[Transaction], T],
        *,
        payload_bytes: int = 0,
        use_reserve: bool = False,
        counters: Mapping[str, int] | None = None,
    ) -> T:
        """Queue other work for the writer and return what it returns, once it is durable.

        `counters` says by how much it may change totals, up or down.
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        swing = {} if counters is None else counters

        def done(outcome: Outcome) -> None:
            self.tally.note(swing, -1, relaxed=False)
            settle(result, outcome)

        def run_alone(txn: Transaction) -> T:
            self._ledger.put_accepted(txn)
            self._ledger.forget_ends()
            return run(txn)

        self._put(WriteJob(run_alone, 0, payload_bytes, done, use_reserve))
        self.tally.note(swing, 1, relaxed=False)
        return await result

    async def flush(self) -> None:
        """Return when everything accepted so far is durable."""
        await self.submit(lambda _txn: None)

    async def wait_beyond(self, position: int) -> int:
        """Wait for a durable event behind `position`; return the last one's, 0 at the close."""
        self.check_loop()
        return await self.end.wait_beyond(position)

    # --- streams in flight

    def _put_append(
        self,
        request: AppendRequest,
        head: StreamHead | None,
        answer: "asyncio.Future[Appended] | None" = None,
    ) -> None:
        """Queue an append. `head` is where its stream is after it, None if that is not sure.

        One that is sure has been answered: it is relaxed.
        """
        size = len(request.events), request.payload_bytes
        self._put(AppendJob(request, answer, *size, request.use_reserve))
        in_flight = self._in_flight.get(request.stream)
        if in_flight is None:
            self._in_flight[request.stream] = _InFlight(1, head)
        else:
            in_flight.appends += 1
            in_flight.head = head
        if request.counters:
            self.tally.note(request.counters, 1, relaxed=answer is None)
        if answer is None:
            request.counted()

    def _landed(
        self, request: AppendRequest, answer: "asyncio.Future[Appended] | None", outcome: Outcome
    ) -> None:
        in_flight = self._in_flight[request.stream]
        in_flight.appends -= 1
        if isinstance(outcome, Exception):
            in_flight.head = None
        if in_flight.appends == 0:
            del self._in_flight[request.stream]
        if request.counters:
            self.tally.note(request.counters, -1, relaxed=answer is None)
        if answer is not None:
            if isinstance(outcome, Appended) and not outcome.duplicate:
                request.counted()
            settle(answer, outcome)
        elif isinstance(outcome, Exception):
            self._distrusted.add(request.stream)
            self.counts["relaxed_lost"] += len(request.events)
            _logger.error(
                "relaxed append lost", events=len(request.events), error=type(outcome).__name__
            )

    async def _accepted(self, stream: str) -> StreamHead:
        while (in_flight := self._in_flight.get(stream)) is not None:
            if in_flight.head is not None:
                return in_flight.head
            await self.flush()
        with self._env.read() as txn:
            return self._ledger.stream(txn, stream).head()

    # --- the writer

    def check_loop(self) -> None:
        """Refuse use on another loop: nobody there would be told what became of it."""
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop

    def _put(self, job: Work) -> None:
        self._env.check_process()
        self.check_loop()
        if self._closed:
            raise LogClosed("the log is closed: open it again")
        self.room.take(job.events, job.payload_bytes)
        self._writer.put(job)

    def _deliver(self, batch: list[Work], outcomes: list[Outcome], landed: Landed | None) -> None:
        events, size = sum(job.events for job in batch), sum(job.payload_bytes for job in batch)
        self.room.give_back(events, size)
        self.counts["batches"] += 1
        if landed is not None and landed.totals is not None:
            self.tally.committed = landed.totals  # before any caller is told that it has counted
        for job, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Appended) and not outcome.duplicate:
                self.counts["events"] += job.events
            if isinstance(job, AppendJob):
                self._landed(job.request, job.answer, outcome)
            else:
                job.done(outcome)
        if landed is not None:
            self.end.advance(landed.tail.position)


# --- totals: see ledger.py


class TotalsTally:
    """The totals as the event loop knows them, without reading: committed, and under way.

    A relaxed append counts from when it is accepted; every other one once it is committed.
    """

    def __init__(self, committed: dict[str, int]):
        self.committed = committed
        """With every commit that has been delivered. Replaced, never changed."""
        self._accepted: dict[str, int] = {}  # by relaxed appends under way
        self._swing: dict[str, int] = {}  # the others under way may change a total by this, or not

    def now(self) -> dict[str, int]:
        """Return the totals, with relaxed appends that are accepted."""
        now = dict(self.committed)
        for name, delta in self._accepted.items():
            _add(now, name, delta)
        return now

    def note(self, counters: Mapping[str, int], sign: int, *, relaxed: bool) -> None:
        """Take note of an append that is under way from now on (1), or has an outcome (-1)."""
        for name, delta in counters.items():
            if relaxed:
                _add(self._accepted, name, sign * delta)
            else:
                _add(self._swing, name, sign * abs(delta))

    def is_certain(self, counters: Mapping[str, int]) -> bool:
        """Say whether these deltas pass `count`, whatever comes of the appends under way."""
        names = {*self.committed, *self._accepted, *self._swing, *counters}
        for name, delta in counters.items():
            total = self.committed.get(name, 0) + self._accepted.get(name, 0) + delta
            swing = self._swing.get(name, 0)
            if not swing <= total <= I64_MAX - swing:
                return False
        return len(names) <= TOTALS_MAX


def _add(sums: dict[str, int], name: str, delta: int) -> None:
    """Add to one of the sums in place; what comes to zero goes, so that names do not pile up."""
    total = sums.get(name, 0) + delta
    if total:
        sums[name] = total
    else:
        sums.pop(name, None)
