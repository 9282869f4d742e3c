"""The writer: one task that sends what waits as one call, and tells everybody what became of it.

It takes an append, adds whatever else waits, without lingering, and plans the batch (plan.py). If
the database refuses a stream, because this node assumed another end, its appends are looked up and
sent in the next call. While a batch is on its way, the next one is planned from where the streams
are to be after it; if it does not land whole, that plan is thrown away. No answer is given before
its own batch has landed. While the database is away, everybody waits for `PATIENCE_S`.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence

import anyio.to_thread

from eventlog.core import errors, frame
from eventlog.core.keys import Keys
from eventlog.core.logs import get_logger
from eventlog.core.records import Appended
from eventlog.core.requests import (
    BATCH_EVENTS_MAX,
    QUEUE_BYTES_MAX,
    QUEUE_EVENTS_MAX,
    AppendRequest,
)
from eventlog.core.rows import blind_id
from eventlog.core.rules import cipher_to_read, count
from eventlog.core.waiting import QueueRoom, settle
from eventlog.postgres.arrays import Bytes
from eventlog.postgres.calls import BatchConnection, LogTail, OverTotals
from eventlog.postgres.database import PATIENCE_S, RETRY_S, Connection, DatabasePlace, Row
from eventlog.postgres.plan import (
    Append,
    Batch,
    BatchPlan,
    Believed,
    Flush,
    KnownRequest,
    ProcedureCall,
    RequestKey,
    check_caps,
)

SHARE_EVENTS_MIN = 64  # of more that wait, half are planned while the other half is on its way
BELIEVED_MAX = 16_384  # streams whose ends are remembered, some 300 bytes each

STREAMS = """
    SELECT sid, version, epoch, stored_bytes, chain, recorded_at, erased_version
    FROM stream WHERE sid = ANY (%b)
"""
REQUESTS = """
    SELECT q.sid, q.key, q.digest, q.first_version, q.last_version, e.position
    FROM unnest(%b, %b) AS k (sid, key)
    JOIN request AS q ON q.sid = k.sid AND q.key = k.key
    JOIN stream AS s ON s.sid = q.sid AND q.last_version > s.erased_version
    JOIN event AS e ON e.sid = q.sid AND e.version = q.last_version
"""

_logger = get_logger("eventlog")


class PgWriter:
    """Belongs to the event loop it was made on."""

    def __init__(
        self,
        place: DatabasePlace,
        node: bytes,
        tail: LogTail,
        keys: Keys | None,
    ):
        self._tail = tail
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self.room = QueueRoom(QUEUE_EVENTS_MAX, QUEUE_BYTES_MAX)
        self.counts: Counter[str] = Counter()
        self.caps: Mapping[str, int] = {}
        """See `CappingStore`."""
        self._queue: deque[Append | ProcedureCall | Flush] = deque()
        self._ahead = Batch()
        self._on_its_way: BatchPlan | None = None
        self._began_s = float("-inf")
        """The time at which the last batch or other work was begun: the database was there."""
        self._arrived = asyncio.Event()
        self._is_closed = False
        self._task = asyncio.create_task(self._run())
        self._believed: OrderedDict[bytes, Believed] = OrderedDict()
        self._calls = BatchConnection(place, node, tail, self._believed.clear)

    async def open(self, connection: Connection) -> None:
        """Join the nodes of the store, on a connection that is this writer's from now on.

        :raises LogUnavailable: it was lost.
        """
        await self._calls.open(connection)

    async def close(self) -> None:
        """Finish what is queued."""
        self._is_closed = True
        self.room.close()
        self._arrived.set()
        await self._task
        await self._calls.close()

    # --- what callers ask

    async def append(self, request: AppendRequest) -> Appended:
        """Queue an append and return its result once it is committed."""
        self.check_open()
        asked_s = self._loop.time()
        if self.room.is_full:
            await self.room.wait()
            self.check_open()
        self.room.take(len(request.events), request.payload_bytes)
        result: asyncio.Future[Appended] = self._loop.create_future()
        self._put(Append(request, result, asked_s))
        self._plan_ahead()
        return await result

    async def call(self, query: str, values: Sequence[object] = ()) -> list[Row]:
        """Have a procedure called behind all that is queued; it may be called twice."""
        self.check_open()
        result: asyncio.Future[list[Row]] = self._loop.create_future()
        self._put(ProcedureCall(query, values, result, self._loop.time()))
        return await result

    async def flush(self) -> None:
        """Return when everything accepted so far has been answered."""
        self.check_open()
        result: asyncio.Future[None] = self._loop.create_future()
        self._put(Flush(result))
        await result

    def check_open(self) -> None:
        """Refuse use on another loop, where nobody would be told what came of it, or at the end.

        :raises WrongLoop: this is another loop than the one that it was opened on.
        :raises LogClosed: it is closed.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise errors.WrongLoop
        if self._is_closed:
            raise errors.LogClosed("the log is closed: open it again")

    def forget(self, sid: bytes) -> None:
        """Believe nothing of a stream any more."""
        self._believed.pop(sid, None)

    def _put(self, job: Append | ProcedureCall | Flush) -> None:
        self._queue.append(job)
        self._arrived.set()

    # --- the task

    async def _run(self) -> None:
        while True:
            while await self._reached():
                taken = self._take()
                if isinstance(taken, ProcedureCall):
                    await self._carry_out(taken)
                else:
                    await self._commit(taken)
            if self._is_closed:
                return
            self._arrived.clear()
            await self._arrived.wait()

    async def _reached(self) -> bool:
        """Return True once the database is there for those who wait; False if nobody waits.

        It is there if something was planned ahead, for the batch before that has just landed.
        """
        while not self._ahead.jobs:
            if not self._queue:
                return False
            if isinstance(first := self._queue[0], Flush):
                self._queue.popleft()
                settle(first.result, None)
            elif error := await self._calls.why_away():
                self._fail_late(error)
                await asyncio.sleep(RETRY_S)
            else:
                break
        self._began_s = self._loop.time()
        return True

    def _take(self) -> Batch | ProcedureCall:
        batch, self._ahead = self._ahead, Batch()
        while not batch.plan and (job := self._waiting_for(batch)):
            batch.put(job)
            self._queue.popleft()
        if batch.jobs:
            return batch
        work = self._queue.popleft()
        assert isinstance(work, ProcedureCall)
        return work

    def _waiting_for(self, batch: Batch) -> Append | None:
        if not self._queue or not isinstance(job := self._queue[0], Append):
            return None
        events_max = min(max(self.room.events // 2, SHARE_EVENTS_MIN), BATCH_EVENTS_MAX)
        return job if batch.has_room(job, events_max) else None

    def _plan_ahead(self) -> None:
        """Plan what waits, from where the streams are to be after the batch that is on its way.

        It stops at what needs to be looked up first.
        """
        while self._on_its_way and (job := self._waiting_for(self._ahead)):
            sid = frame.stream_id(job.request.stream)
            believed = self._on_its_way.after(sid) or self._believed.get(sid)
            if believed is None or job.was_refused:
                return
            plan = self._ahead.plan = self._ahead.plan or self._empty_plan({})
            plan.believed.setdefault(sid, believed)
            try:
                plan.add(job.request)
            except Exception:
                # It is planned again when its turn comes, and all of its batch fail with it.
                self._on_its_way = None
                self._throw_plan_away()
                return
            self._ahead.put(job)
            self._queue.popleft()

    def _throw_plan_away(self) -> None:
        self._queue.extendleft(reversed(self._ahead.jobs))
        self._ahead = Batch()

    async def _carry_out(self, job: ProcedureCall) -> None:
        try:
            settle(job.result, await self._calls.run(job.query, job.values))
        except Exception as error:
            settle(job.result, error)
            self._fail_late(error)

    async def _commit(self, batch: Batch) -> None:
        try:
            await self._land(batch)
        except Exception as error:
            self._throw_plan_away()
            self._fall([job for job in batch.jobs if not job.is_settled], error)

    def _fall(self, batch: list[Append], error: Exception) -> None:
        if isinstance(error, OverTotals) and len(batch) > 1:
            for job in batch:  # so that nobody falls with another
                job.is_alone = True
            self._queue.extendleft(reversed(batch))
        elif isinstance(error, OverTotals):
            try:
                check_caps(error.totals, batch[0].request.counters, self.caps)
                count(error.totals, batch[0].request.counters)
            except (errors.InvalidAppend, errors.TotalExceeded) as refusal:
                self._fail(batch, refusal)
            else:  # what was over has gone in between
                self._queue.extendleft(batch)
        elif isinstance(error, errors.EventLogError):
            self._fail(batch, error)
            self._fail_late(error)
        else:
            _logger.exception("a batch failed")
            self._believed.clear()
            self._fail(batch, errors.StorageFailed(f"the outcome is unknown: {error!r}"))

    def _fail(self, batch: Sequence[Append], error: Exception) -> None:
        self._settle([(job, error) for job in batch if not job.is_settled])

    def _fail_late(self, error: Exception) -> None:
        """Fail appends that have waited for `PATIENCE_S`, if the database was away for as long.

        They were never sent. To try them one batch after another would take as long again for each
        batch.
        """
        until_s = self._loop.time() - PATIENCE_S
        if self._began_s > until_s:
            return
        if not isinstance(error, errors.LogUnavailable):
            error = errors.LogUnavailable("the database did not answer in time: nothing was kept")
        waiting, self._queue = self._queue, deque()
        late = list[tuple[Append, Appended | Exception]]()
        for job in waiting:
            if isinstance(job, Flush) or job.asked_s > until_s:
                self._queue.append(job)
            elif isinstance(job, Append):
                late.append((job, error))
            else:
                settle(job.result, error)
        self._settle(late)

    def _settle(self, settled: Sequence[tuple[Append, Appended | Exception]]) -> None:
        """Answer appends, and give their room back at once: who is let in must find some."""
        events = payload_bytes = 0
        for job, outcome in settled:
            job.is_settled = True
            events += len(job.request.events)
            payload_bytes += job.request.payload_bytes
            if isinstance(outcome, Appended) and not outcome.duplicate:
                self.counts["events"] += len(job.request.events)
                job.request.counted()
            settle(job.result, outcome)
        self.room.give_back(events, payload_bytes)

    async def _land(self, batch: Batch) -> None:
        """Send a batch, and plan the next one meanwhile. Refused appends are sent again."""
        plan = batch.plan or await self._plan(batch.jobs)
        if self._keys is not None:
            await anyio.to_thread.run_sync(self._keys.sync)
        self._on_its_way = plan
        self._loop.call_soon(self._plan_ahead)
        try:
            with self._tail.counting():
                landed = await self._calls.append(plan.finished())
        finally:
            self._on_its_way = None
        position, refused = landed.position, frozenset(landed.refused)
        self.counts["batches"] += 1
        for sid, stream in plan.streams.items():
            self._believed.pop(sid, None)
            if stream.number not in refused:
                self._believed[sid] = stream.now
        while len(self._believed) > BELIEVED_MAX:
            self._believed.popitem(last=False)
        again, settled = list[Append](), list[tuple[Append, Appended | Exception]]()
        outcomes, end = plan.outcomes(position, refused)
        for job, outcome in zip(batch.jobs, outcomes, strict=True):
            if outcome is None:
                job.was_refused = True
                again.append(job)
            else:
                settled.append((job, outcome))
        self._settle(settled)
        self._tail.appended(end)
        if again:
            self._throw_plan_away()
            self._queue.extendleft(reversed(again))

    async def _plan(self, batch: Sequence[Append]) -> BatchPlan:
        plan = self._empty_plan(await self._find_requests(job for job in batch if job.was_refused))
        sids = {frame.stream_id(job.request.stream) for job in batch}
        while unknown := sids - self._believed.keys():
            for sid in unknown:
                self._believed[sid] = Believed.nowhere(sid)
            for sid, *place in await self._calls.run(STREAMS, [Bytes(unknown)]):
                self._believed[sid] = Believed(*place)
        plan.believed.update((sid, self._believed[sid]) for sid in sids)
        for job in batch:
            plan.add(job.request)
        return plan

    def _empty_plan(self, requests: dict[RequestKey, KnownRequest]) -> BatchPlan:
        return BatchPlan(self._keys, {}, requests, self.caps)

    async def _find_requests(self, batch: Iterable[Append]) -> dict[RequestKey, KnownRequest]:
        sought: list[RequestKey] = []
        for request in (job.request for job in batch):
            stream, key = request.stream, request.idempotency_key
            if key is not None and (self._keys is None or self._keys.has(stream)):
                cipher = cipher_to_read(self._keys, stream)
                sought.append((frame.stream_id(stream), blind_id(key, cipher)))
        if not sought:
            return {}
        sids, ids = Bytes(sid for sid, _ in sought), Bytes(key for _, key in sought)
        rows = await self._calls.run(REQUESTS, [sids, ids])
        return {(sid, key): KnownRequest(*result) for sid, key, *result in rows}
