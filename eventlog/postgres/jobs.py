"""The jobs that callers give the writer, and the batches that it makes of them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from eventlog.core.records import Appended
from eventlog.core.requests import BATCH_BYTES_MAX, AppendRequest
from eventlog.postgres.database import Row
from eventlog.postgres.plan import BatchPlan


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
class OtherWork:
    """Other work, which is carried out by itself and may be carried out twice."""

    work: Callable[[], Coroutine[Any, Any, list[Row]]]
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
