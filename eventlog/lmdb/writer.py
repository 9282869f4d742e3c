"""The writer: one thread that commits what is queued, in order, with one fsync a batch.

It takes a job, adds whatever else waits (no lingering: an idle log commits at once, a busy one
fills its batches by itself), runs them in one transaction and hands all outcomes to the event loop
in a single wake-up; waking the loop once per caller would halve the throughput.

A job that is refused by a rule (wrong version, fenced, conflict) has written nothing and fails
alone. A transaction that fails for want of room, or through a job that breaks off half-way, is
tried again job by job, so that nobody falls with another. Only a failing disk fails everybody.
After a disk failure the writer reads the log again, so that the loop never assumes less than the
log contains.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias

from eventlog.core.errors import (
    BeingErased,
    EventLogError,
    Fenced,
    IdempotencyConflict,
    InvalidAppend,
    KeyGone,
    LogClosed,
    LogUnavailable,
    StorageFailed,
    WrongExpectedVersion,
)
from eventlog.core.keys import Keys
from eventlog.core.records import Appended
from eventlog.core.requests import BATCH_BYTES_MAX, BATCH_EVENTS_MAX, AppendRequest
from eventlog.files.log_directory import Anchor
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import Landed, Ledger, load_totals

# Errors that the rules of the log raise before anything is put.
REFUSALS = (
    WrongExpectedVersion, Fenced, IdempotencyConflict, InvalidAppend, BeingErased, KeyGone,
)  # fmt: skip

Outcome: TypeAlias = object
"""A result, or the exception instead."""


@dataclass(slots=True, eq=False)
class AppendJob:
    """An append: one object, for the collector looks at each."""

    request: AppendRequest
    answer: asyncio.Future[Appended] | None
    """The future that the caller awaits. None: a relaxed append, which nobody awaits."""
    events: int
    payload_bytes: int
    use_reserve: bool
    """True if it may have the last room of a full log."""


@dataclass(slots=True, eq=False)
class WriteJob:
    """Other work for one transaction: `done` gets the result or the exception, on the loop."""

    run: Callable[[Transaction], object]
    events: int
    payload_bytes: int
    done: Callable[[Outcome], None]
    use_reserve: bool = False


Work: TypeAlias = AppendJob | WriteJob


class Writer:
    """Runs jobs in a thread of its own.

    `anchor` gets the end of the log once a transaction is durable, and
    `deliver(batch, outcomes, landed)` is called on the loop; `landed` is None when nothing was
    committed. `ledger` collects what jobs put together. `keys` that jobs have made are durable
    before what was written under them is.
    """

    def __init__(
        self,
        env: Environment,
        ledger: Ledger,
        *,
        anchor: Anchor,
        deliver: Callable[[list[Work], list[Outcome], Landed | None], None],
        keys: Keys | None = None,
    ):
        self._env = env
        self._ledger = ledger
        self._anchor = anchor
        self._deliver = deliver
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="eventlog-writer", daemon=True)
        self._thread.start()

    def put(self, job: Work) -> None:
        """Queue a job."""
        self._queue.put(job)

    def stop(self) -> None:
        """Finish what is queued, then end the thread. Blocks: call it off the loop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        held: Work | None = None
        while (first := held or self._queue.get()) is not None:
            batch, held, stopping = self._take(first)
            outcomes, landed = self._commit(batch)
            with suppress(RuntimeError):  # the loop has gone, and with it everyone to tell
                self._loop.call_soon_threadsafe(self._deliver, batch, outcomes, landed)
            if stopping:
                return
            del first, batch, outcomes, landed  # not to be held until the next job comes

    def _take(self, first: Work) -> tuple[list[Work], Work | None, bool]:
        """Return a batch, the job that did not fit into it, and whether to stop after it."""
        batch, events, size = [first], first.events, first.payload_bytes
        while True:
            try:
                job = self._queue.get_nowait()
            except Empty:
                return batch, None, False
            if job is None:
                return batch, None, True
            events, size = events + job.events, size + job.payload_bytes
            if events > BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX:
                return batch, job, False
            batch.append(job)

    def _commit(self, batch: list[Work]) -> tuple[list[Outcome], Landed | None]:
        try:
            outcomes, landed = self._env.write(lambda txn: self._apply(txn, batch))
        except (StorageFailed, LogClosed, LogUnavailable) as error:  # of the store: everyone's
            left = None
            with suppress(EventLogError), self._env.read() as txn:  # the outcome is unknown: look
                left = Landed(self._ledger.tail(txn), load_totals(txn))
            return [error] * len(batch), left
        except Exception as error:  # of one job, or of their sum: nothing was kept
            return self._commit_apart(batch, error)
        # A transaction that changed nothing has no number.
        self._anchor.write(landed.tail._replace(transaction=self._env.committed))
        return outcomes, landed

    def _commit_apart(
        self, batch: list[Work], error: Exception
    ) -> tuple[list[Outcome], Landed | None]:
        if len(batch) == 1:
            return [error], None
        outcomes: list[Outcome] = []
        last, totals = None, None
        for job in batch:
            outcome, landed = self._commit([job])
            outcomes += outcome
            if landed is not None:
                totals = totals if landed.totals is None else landed.totals
                last = Landed(landed.tail, totals)
        return outcomes, last

    def _apply(self, txn: Transaction, batch: list[Work]) -> tuple[list[Outcome], Landed]:
        incoming_bytes = sum(job.payload_bytes for job in batch)
        used_bytes = self._env.bytes_near_limit(txn, incoming_bytes)
        self._ledger.begin()
        outcomes: list[Outcome] = []
        for job in batch:
            try:
                if isinstance(job, AppendJob):
                    outcomes.append(self._ledger.append(txn, job.request))
                else:
                    outcomes.append(job.run(txn))
            except REFUSALS as refusal:
                outcomes.append(refusal)
        landed = self._ledger.finish(txn)
        self._env.check_room(txn, used_bytes, reserve=all(job.use_reserve for job in batch))
        if self._keys is not None:
            self._keys.sync()
        return outcomes, landed
