"""An actor: one mailbox, one stream, one state, one writer.

Commands are taken in small batches. Each is decided on the tentative state that the ones before it
would leave; then all their events are appended at once. Only then is the new state published and
are the callers answered, refusals too, which may rest on an event that did not make it. Readers use
`state`, which is always confirmed. No task is parked for an idle actor.

What can go wrong:

- A command is refused (a `MemoryActorsError`): its caller gets the error.
- The append fails: every caller of the batch gets a typed error, and the state is read again.
- The append is fenced: another process has the stream. All who wait are told so, and it ends.
- A decision crashes (any other exception): its caller gets `CommandCrashedError`, the rest of the
  batch is decided again after a rebuild. An actor that crashes too often is quarantined: it takes
  no more commands and keeps its last confirmed state for readers.
- A caller is cancelled: before its command was taken, it is dropped; after, it is carried out.
- The actor's own task is cancelled: the state is read again before the next command.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from eventlog import (
    ClockOutOfRange,
    Decider,
    DiskFull,
    EventLogError,
    EventStore,
    Fenced,
    LogClosed,
    Prepared,
    Recorded,
    TotalExceeded,
)
from eventlog.core.logs import get_logger
from eventlog.core.waiting import Turns, settle
from memory_actors.actors.asking import (
    Behaviour,
    CommandBatch,
    QueuedRequest,
    Reply,
    Request,
    crashed,
    late,
    tentative,
    unavailable,
)
from memory_actors.base.errors import (
    MemoryActorsError,
    QuarantinedError,
    SystemClosedError,
)
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.settings import DEADLINE_S
from memory_actors.base.streams import user_of
from memory_actors.base.tracing import here, step

MAILBOX_MAX = 1024  # asks of one user: beyond that callers wait within their deadline
SLICE_WEIGHT_BYTES = 64 << 10  # encoded before the loop gets its turn: about 3 ms with compression
EVENT_WEIGHT_BYTES = 200  # what an event costs beside its bytes
RESTARTS_MAX = 3
RESTART_WINDOW_S = 60.0
BACKOFF_S = (0.05, 0.25, 1.0)

_logger = get_logger("memory_actors.actors.actor")

S = TypeVar("S")


class Actor(Generic[S]):
    """The owner of one stream. Make one with the state its stream has at `version`."""

    def __init__(
        self,
        stream: str,
        *,
        decider: Decider[Any, object, S],
        behaviour: Behaviour[S],
        log: EventStore,
        clock: Callable[[], int],
        rebuild: Callable[[], Awaitable[tuple[S, int]]],
        state: S,
        version: int,
        epoch: int,
    ):
        self.stream = stream
        self.state = state
        self._form: Callable[[S], S] | None = None
        self.version = version
        self.quarantined: str | None = None
        """The reason why it takes no more commands, if so."""
        self._decider = decider
        self._behaviour = behaviour
        self._log = log
        self._clock = clock
        self._rebuild = rebuild
        self.epoch = epoch
        self._mailbox: deque[QueuedRequest] = deque()
        self._room = Turns()
        self._task: asyncio.Task[None] | None = None
        self._restarts: deque[float] = deque()
        self._retired = False
        self._fenced: Exception | None = None
        self._is_cut_off = False
        """True: nobody waited for the end of the last append."""

    @property
    def busy(self) -> bool:
        """True if a command waits or is being carried out."""
        return self._task is not None or bool(self._mailbox)

    @property
    def waiting(self) -> int:
        """The number of commands in the mailbox."""
        return len(self._mailbox)

    async def post(self, request: Request, deadline_s: float = DEADLINE_S) -> asyncio.Future[Reply]:
        """Put a command into the mailbox; return the future of its reply.

        :raises DeadlineExceededError: no room, or no answer, in time; it may still be carried out.
        :raises QuarantinedError: this actor takes no commands any more.
        :raises UnavailableError: the append failed; what it left is read again.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + deadline_s
        try:
            while len(self._mailbox) >= MAILBOX_MAX:
                async with asyncio.timeout_at(until_s):
                    await self._room.wait()
        except TimeoutError as error:
            raise late(deadline_s) from error
        self._check_open()
        answer: asyncio.Future[Reply] = loop.create_future()
        alarm = loop.call_at(until_s, lambda: settle(answer, late(deadline_s)))
        self._mailbox.append(QueuedRequest(request, answer, alarm, here()))
        if self._task is None:
            self._begin()
        return answer

    async def dry_run(self, command: object) -> Sequence[object]:
        """Return the events that a command would lead to now, before those that wait.

        :raises MemoryActorsError: it would be refused.
        """
        state, version = self.state, self.version
        command = await self._behaviour.enrich(command, state)
        decided = self._decider.decide(command, state)
        events = [
            Recorded(self.stream, version + n, 0, 0, "", event, 0, 0, b"")
            for n, event in enumerate(decided, start=1)
        ]
        self._behaviour.check_totals(state, self._decider.fold(events, state))
        return decided

    def _check_open(self) -> None:
        if self._fenced is not None:
            raise self._fenced
        if self._retired:
            raise SystemClosedError("this user's memory has been put away: ask again")
        if self.quarantined is not None:
            raise QuarantinedError(
                f"this user's memory takes no writes: {self.quarantined}. Reads and export work; "
                "see the log, then open the system again"
            )

    async def drain(self) -> None:
        """Return when every command taken so far is answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def retire(self) -> None:
        """Drop references to this drained actor, so that its memory is free at once.

        Otherwise it would wait for the garbage collector, and the byte budget would not hold.
        """
        self._retired = True
        del self._behaviour, self._rebuild

    # --- one batch after another

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Go on after a cancellation, which may have come before the task began, if one waits."""
        if task.cancelled() and self._task in (task, None):
            self._task = None
            if not all(ask.answer.done() for ask in self._mailbox):
                self._begin()

    async def _run(self) -> None:
        try:
            if self._is_cut_off:
                self._is_cut_off = False
                with suppress(EventLogError):  # reading it tells the same
                    await self._log.flush()
                await self._reload()
            while self._mailbox:
                await self._step()
        finally:
            self._task = None

    async def _step(self) -> None:
        try:
            batch = CommandBatch(self.state, self.version, self._clock())
        except ClockOutOfRange as error:
            ask = self._mailbox[0]
            self._take()
            ask.settle(error)
            return
        crash = await self._decide_batch(batch)
        try:
            if batch.prepared:
                callers = [ask.caller for ask, _ in batch.outcomes]
                with step("append", callers, events=len(batch.prepared)):
                    await self._append(batch)
        except Exception as error:
            await self._fail(batch, error)
            return
        except asyncio.CancelledError:
            self._is_cut_off = True
            raise
        crash = self._publish(batch) or crash
        for ask, outcome in batch.outcomes:
            ask.settle(outcome)
        if crash is not None:
            await self._restart(crash)

    async def _decide_batch(self, batch: CommandBatch[S]) -> Exception | None:
        """Decide what waits, up to a batch; return the crash that ended it early, if one did."""
        while self._mailbox and not batch.is_full:
            ask = self._mailbox[0]
            # A key guards one append, so it goes alone too.
            alone = ask.request.alone or ask.request.idempotency_key is not None
            if alone and batch.outcomes:
                return None
            self._take()
            if ask.answer.done():  # its caller was cancelled, or waited for too long
                ask.alarm.cancel()
                continue
            try:
                batch.outcomes.append((ask, await self._decide(ask.request, batch)))
                if ask.request.accepted is not None:
                    ask.request.accepted()
            except MemoryActorsError as refusal:
                batch.outcomes.append((ask, refusal))
            except EventLogError as error:
                batch.outcomes.append((ask, unavailable(error)))
            except Exception as error:  # a bug in a decision must not reach anybody else
                batch.outcomes.append((ask, crashed(error)))
                return error
            if alone:
                return None
        return None

    def _take(self) -> None:
        self._mailbox.popleft()
        self._room.wake(1)

    async def _decide(self, request: Request, batch: CommandBatch[S]) -> Reply:
        if request.idempotency_key is not None:
            first = await self._first_reply(request)
            if first is not None:
                return first
        command = await self._behaviour.enrich(request.command, batch.state)
        decided = self._decider.decide(command, batch.state)
        prepared, events, state = await self._tried(decided, request, batch, batch.state)
        if self._decider.follow_up is not None and (
            more := self._decider.follow_up(batch.state, state)
        ):
            follow, followed, state = await self._tried(more, request, batch, state, len(events))
            prepared, events = prepared + follow, events + followed
        batch.changes.append(self._behaviour.admit(batch.state, state))
        before, batch.state = batch.state, state
        batch.version += len(events)
        batch.prepared += prepared
        batch.events += events
        batch.payload_bytes += sum(event.stored_bytes for event in prepared)
        return Reply(events=events, before=before, state=state)

    async def _tried(
        self,
        decided: Sequence[object],
        request: Request,
        batch: CommandBatch[S],
        state: S,
        ahead: int = 0,
    ) -> tuple[list[Prepared], list[Recorded[object]], S]:
        """Encode events and return the state they lead to; `ahead` of them go before.

        A command with many or large ones lets the loop breathe in between.
        """
        prepared: list[Prepared] = []
        weight, registry = 0, self._log.registry
        meta = registry.packed_meta(request.meta)
        for event in decided:
            prepared.append(registry.prepare(event, meta))
            weight += EVENT_WEIGHT_BYTES + len(prepared[-1].raw)
            if weight > SLICE_WEIGHT_BYTES:
                weight = 0
                await asyncio.sleep(0)
        events = [
            tentative(self.stream, version, event, batch.now_us)
            for version, event in enumerate(prepared, start=batch.version + ahead + 1)
        ]
        return prepared, events, self._decider.fold(events, state)

    async def _first_reply(self, request: Request) -> Reply | None:
        assert request.idempotency_key is not None
        first = await self._log.find_request(self.stream, request.idempotency_key, request.digest)
        if first is None:
            return None
        versions = range(first.first_version, first.last_version + 1)
        events = await self._log.read_versions(self.stream, versions, dropped="mark")
        return Reply(events=events, before=self.state, state=self.state, duplicate=True)

    async def _append(self, batch: CommandBatch[S]) -> None:
        requests = [ask.request for ask, _ in batch.outcomes]
        is_relaxed = all(request.durability == "relaxed" for request in requests)
        key = requests[0].idempotency_key
        try:
            await self._log.append(
                self.stream,
                batch.prepared,
                self.version,
                epoch=self.epoch,
                idempotency_key=key,
                request=requests[0].digest if key is not None else None,
                durability="relaxed" if is_relaxed else "commit",
                recorded_at_us=batch.now_us,
                use_reserve=all(request.frees for request in requests),
                counters=batch.total_changes(),
                counted=partial(self._release, batch),
            )
        finally:
            self._release(batch)

    def _release(self, batch: CommandBatch[S]) -> None:
        """Give back what a batch has claimed: when the totals tell of it, or it has failed."""
        while batch.changes:
            self._behaviour.release(batch.changes.pop())

    def _publish(self, batch: CommandBatch[S]) -> Exception | None:
        """Make a committed batch visible; return what updating the derived data raised."""
        if self._form is not None:
            batch.state, self._form = self._form(batch.state), None
        before, self.state, self.version = self.state, batch.state, batch.version
        try:
            self._behaviour.published(batch.events, before, self.state)
        except Exception as error:  # the write stands; what is derived is made again
            return error
        return None

    def hold_as(self, form: Callable[[S], S]) -> None:
        """Hold the state in another form that says the same, from the next moment on.

        While a batch is under way, that is when it is published: it rests on the old form.
        """
        if self._task is None:
            self.state = form(self.state)
        else:
            self._form = form

    # --- failure

    async def _fail(self, batch: CommandBatch[S], error: Exception) -> None:
        answer = unavailable(error) if isinstance(error, EventLogError) else crashed(error)
        for ask, _ in batch.outcomes:
            ask.settle(answer)
        if isinstance(error, Fenced):
            self._fenced = answer
            self._refuse_waiting(answer)
            self._behaviour.fenced()
        elif isinstance(error, LogClosed):
            self.quarantine(str(error))
        elif not isinstance(error, DiskFull | TotalExceeded):  # they kept nothing: the state holds
            await self._reload()

    async def _restart(self, error: Exception) -> None:
        """Rebuild from the log, after a pause that grows; give up when it happens too often."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._restarts.append(now)
        while self._restarts[0] < now - RESTART_WINDOW_S:
            self._restarts.popleft()
        user, count = hashed(user_of(self.stream)), len(self._restarts)
        _logger.error("actor restarts", user=user, restarts=count, error=reason(error))
        if len(self._restarts) > RESTARTS_MAX:
            self.quarantine(f"it failed {len(self._restarts)} times, last with {error!r}")
            return
        await asyncio.sleep(BACKOFF_S[len(self._restarts) - 1])
        await self._reload()

    async def _reload(self) -> None:
        try:
            self.state, self.version = await self._rebuild()
            self._form = None
        except EventLogError as error:
            self.quarantine(f"its stream cannot be read: {error}")
        else:
            self._behaviour.rebuilt(self.state)

    def quarantine(self, why: str) -> None:
        """Take no more commands; answer those that wait with the reason."""
        self.quarantined = why
        _logger.critical("actor quarantined", user=hashed(user_of(self.stream)))
        self._refuse_waiting(QuarantinedError(f"this user's memory takes no writes: {why}"))

    def _refuse_waiting(self, refusal: Exception) -> None:
        while self._mailbox:
            ask = self._mailbox.popleft()
            ask.settle(refusal)
            if not ask.answer.cancelled():
                ask.answer.exception()  # where the loop ends, nobody may wait for it any more
        self._room.wake(len(self._room))
