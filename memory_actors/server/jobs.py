"""Compaction in the background: asked for, answered at once, carried out one at a time.

Jobs live in this process: after a restart none is known, and nothing needs to be, for compaction
leaves each cluster whole or replaced and a second run does nothing twice.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Final, Literal, TypeAlias

import anyio
import msgspec

from eventlog.core.logs import get_logger
from memory_actors.base.errors import NotFoundError, UnavailableError
from memory_actors.base.privacy import reason
from memory_actors.server.problems import problem_of
from memory_actors.sharing.system import MemorySystem

FINISHED_MAX: Final = 20  # the oldest are forgotten: a report takes 4 MB at most
WAITING_MAX: Final = 100  # each would wait for hours behind that many

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
_ENDED: Final = ("done", "failed", "cancelled")

_logger = get_logger("memory_actors.server")


class JobError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job failed, in the words of problem details."""

    type: str
    title: str
    detail: str
    instance: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run of compaction, as it stands."""

    job_id: str
    state: State
    user_id: str | None
    """None: all users."""
    dry_run: bool
    older_than: str | None
    episodes: bool | None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    progress: dict[str, Any] | None = None
    """The numbers of users and clusters that are done, and of all."""
    report: dict[str, Any] | None = None
    """The report of a run that has ended."""
    error: JobError | None = None


class CompactionJobs:
    """The jobs of one server. They run while `running` is held."""

    def __init__(self, memory: MemorySystem):
        self._memory = memory
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._waiting: asyncio.Queue[str] = asyncio.Queue(WAITING_MAX)
        self._running = False
        self._to_forget: set[str] = set()  # of a user who was erased, and still in hand

    def ask_for(
        self,
        user_id: str | None,
        *,
        dry_run: bool,
        older_than: str | None,
        episodes: bool | None = None,
    ) -> Job:
        """Queue a run.

        :raises UnavailableError: 100 runs are waiting already, or nobody carries them out.
        """
        if not self._running or self._waiting.full():
            raise UnavailableError("no more runs can wait now: try again later")
        job = Job(
            job_id=f"job_{token_hex(8)}",
            state="queued",
            user_id=user_id,
            dry_run=dry_run,
            older_than=older_than,
            episodes=episodes,
            created_at=_now(),
        )
        self._jobs[job.job_id] = job
        self._waiting.put_nowait(job.job_id)
        return job

    def get(self, job_id: str) -> Job:
        """Return a job.

        :raises NotFoundError: it never was, or was long ago.
        """
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFoundError(
                f"there is no job {job_id!r:.80}: the last {FINISHED_MAX} are kept until a restart"
            )
        return job

    def forget(self, user_id: str) -> None:
        """Forget the jobs of a user who was erased, and what others tell about the user.

        The one in hand is forgotten when it ends.
        """
        for job in list(self._jobs.values()):
            if job.user_id == user_id and job.state == "running":
                self._to_forget.add(job.job_id)
            elif job.user_id == user_id:
                del self._jobs[job.job_id]
                continue
            if job.progress is not None and job.progress["user_id"] == user_id:
                self._set(job.job_id, progress=None)
            if job.report is not None:
                told = [each for each in job.report["clusters"] if each["user_id"] != user_id]
                self._set(job.job_id, report={**job.report, "clusters": told})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Carry jobs out meanwhile; at the end, cancel the one in hand and those that wait."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._carry_out_all)
            self._running = True
            try:
                yield
            finally:
                self._running = False
                tasks.cancel_scope.cancel()
        for job in [job for job in self._jobs.values() if job.state not in _ENDED]:
            self._end(job.job_id, "cancelled")

    async def _carry_out_all(self) -> None:
        while True:
            job_id = await self._waiting.get()
            if job_id in self._jobs:  # its user may have been erased meanwhile
                await self._carry_out(job_id)

    async def _carry_out(self, job_id: str) -> None:
        job = self._set(job_id, state="running", started_at=_now())
        try:
            report = await self._memory.compact(
                job.user_id,
                dry_run=job.dry_run,
                older_than=job.older_than,
                episodes=job.episodes,
                progress=lambda at: self._note(job_id, at),
            )
        except Exception as error:
            self._failed(job_id, error)
        else:
            cancelled = getattr(report, "cancelled", False)
            told = as_told(report, "bytes_saved", "compression_ratio")
            self._end(job_id, "cancelled" if cancelled else "done", report=told)

    def _note(self, job_id: str, progress: object) -> None:
        self._set(job_id, progress=as_told(progress))

    def _failed(self, job_id: str, error: Exception) -> None:
        problem = problem_of(error)
        _logger.warning(
            "compaction failed", job=job_id, instance=problem.instance, error=reason(error)
        )
        told = JobError(
            type=problem.type,
            title=problem.title,
            detail=problem.detail,
            instance=problem.instance,
        )
        self._end(job_id, "failed", error=told)

    def _end(self, job_id: str, state: State, **more: Any) -> None:
        self._set(job_id, state=state, finished_at=_now(), **more)
        if job_id in self._to_forget:
            self._to_forget.remove(job_id)
            del self._jobs[job_id]
        ended = [job.job_id for job in self._jobs.values() if job.state in _ENDED]
        for forgotten in ended[:-FINISHED_MAX]:
            del self._jobs[forgotten]

    def _set(self, job_id: str, **changes: Any) -> Job:
        job = self._jobs[job_id] = msgspec.structs.replace(self._jobs[job_id], **changes)
        return job


def as_told(told: object, *properties: str) -> dict[str, Any]:
    """Return a struct as JSON has it, with those of its properties that are named."""
    fields: dict[str, Any] = msgspec.to_builtins(told)
    return fields | {name: getattr(told, name) for name in properties}


def _now() -> datetime:
    return datetime.now(UTC)
