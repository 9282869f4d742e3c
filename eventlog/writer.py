"""The writer: one thread that commits what is queued, in order, with one fsync a batch.

It takes a job, adds whatever else waits (no lingering: an idle log commits at once, a busy one
fills its batches by itself), runs them in one transaction and hands all outcomes to the event loop
in a single wake-up; waking the loop once per caller would halve the throughput.

A job that is refused by a rule (wrong version, fenced, conflict) has written nothing and fails
alone. A transaction that fails as a whole for want of room is tried again job by job, so that one
that is too large does not take the others with it.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from eventlog.environment import Environment, Transaction
from eventlog.errors import DiskFull, EventLogError

BATCH_EVENTS_MAX = 1024
BATCH_BYTES_MAX = 4 << 20
# Index entries, tree pages and page rounding around a payload: measured 2.1 times for 300 bytes.
PAGES_PER_PAYLOAD = 3

Outcome: TypeAlias = Any | Exception


@dataclass(slots=True, eq=False)
class Job:
    """Work for one transaction, and whom to tell."""

    run: Callable[[Transaction], Any]
    events: int
    payload_bytes: int
    done: Callable[[Outcome], None]
    """Called on the loop with what `run` returned or raised."""
    frees: bool = False
    """Whether it adds nothing: such a job is let in when the log is full."""


class Writer:
    """Runs jobs in a thread of its own.

    `committed(txn)` runs at the end of each transaction; `after_commit(value)` in the writer's
    thread once it is durable; `deliver(batch, outcomes)` on the loop.
    """

    def __init__(
        self,
        env: Environment,
        *,
        committed: Callable[[Transaction], Any],
        after_commit: Callable[[Any], None],
        deliver: Callable[[list[Job], list[Outcome], Any], None],
    ):
        self._env = env
        self._committed = committed
        self._after_commit = after_commit
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="eventlog-writer", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job."""
        self._queue.put(job)

    def stop(self) -> None:
        """Finish what is queued, then end the thread. Blocks: call it off the loop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        held: Job | None = None
        while (first := held or self._queue.get()) is not None:
            batch, held, stopping = self._take(first)
            outcomes, state = self._commit(batch)
            self._loop.call_soon_threadsafe(self._deliver, batch, outcomes, state)
            if stopping:
                return

    def _take(self, first: Job) -> tuple[list[Job], Job | None, bool]:
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

    def _commit(self, batch: list[Job]) -> tuple[list[Outcome], Any]:
        try:
            outcomes, state = self._env.write(lambda txn: self._apply(txn, batch))
        except DiskFull as error:
            return self._commit_apart(batch, error)
        except Exception as error:  # whatever it is, it is the callers' to see
            return [error] * len(batch), None
        self._after_commit(state)
        return outcomes, state

    def _commit_apart(self, batch: list[Job], error: DiskFull) -> tuple[list[Outcome], Any]:
        if len(batch) == 1:
            return [error], None
        parts = [self._commit([job]) for job in batch]
        states = [state for _, state in parts if state is not None]
        return [outcome for outcomes, _ in parts for outcome in outcomes], max(states, default=None)

    def _apply(self, txn: Transaction, batch: list[Job]) -> tuple[list[Outcome], Any]:
        growth = sum(job.payload_bytes for job in batch if not job.frees)
        if growth:
            self._env.check_room(txn, growth * PAGES_PER_PAYLOAD)
        outcomes: list[Outcome] = []
        for job in batch:
            try:
                outcomes.append(job.run(txn))
            except EventLogError as error:
                outcomes.append(error)
        return outcomes, self._committed(txn)
