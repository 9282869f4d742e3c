"""The routes of whoever runs the server, under `/admin`, for root keys only; and their jobs.

A compaction is asked for, answered at once, and carried out in the background, one at a time. Jobs
live in this process: after a restart none is known, and nothing needs to be, for compaction leaves
each cluster whole or replaced and a second run does nothing twice.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from secrets import token_hex
from typing import Annotated, Any, Final, Literal, TypeAlias

import anyio
import msgspec
from litestar import Response, Router, delete, get, post
from litestar.params import Body, PathParameter, QueryParameter

from eventlog.core.logs import get_logger
from memory_actors.base.errors import NotFoundError, UnavailableError
from memory_actors.base.privacy import reason
from memory_actors.base.records import JsonObject
from memory_actors.base.reports import CompactionProgress, CompactionReport, EraseReceipt
from memory_actors.base.validation import check_optional_name
from memory_actors.compaction.selection import age
from memory_actors.server.access import AnyRequest, root_only
from memory_actors.server.bodies import (
    NAMED,
    PAGE_MAX,
    CompressionStats,
    UserId,
    Users,
    answers,
    arguments,
    body_of,
    example,
    example_of,
)
from memory_actors.server.events import told
from memory_actors.server.problems import problem_of
from memory_actors.sharing.declaration import Problem
from memory_actors.sharing.system import MemorySystem

FINISHED_MAX: Final = 20  # the oldest are forgotten: a report takes 4 MB at most
WAITING_MAX: Final = 100  # each would wait for hours behind that many

State: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled"]
_ENDED: Final = ("done", "failed", "cancelled")

_logger = get_logger("memory_actors.server")


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
    progress: JsonObject | None = None
    """The numbers of users and clusters that are done, and of all."""
    report: JsonObject | None = None
    """The report of a run that has ended."""
    error: Problem | None = None


class CompactionJobs:
    """The jobs of one server. They run while `running` is held."""

    def __init__(self, memory: MemorySystem):
        self._memory = memory
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._waiting: asyncio.Queue[str] = asyncio.Queue(WAITING_MAX)
        self._running = False
        self._to_forget: set[str] = set()  # of a user who was erased, and still in hand

    def ask_for(self, user_id: str | None, *, episodes: bool | None = None, **asked: Any) -> Job:
        """Queue a run, with the arguments of `compact`.

        :raises UnavailableError: 100 runs are waiting already, or nobody carries them out.
        """
        if not self._running or self._waiting.full():
            raise UnavailableError("no more runs can wait now: try again later")
        asked |= {"user_id": user_id, "episodes": episodes}
        job = Job(job_id=f"job_{token_hex(8)}", state="queued", created_at=_now(), **asked)
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
                progress=lambda at: self._set(job_id, progress=as_told(at)),
            )
        except Exception as error:
            problem = problem_of(error)
            _logger.warning(
                "compaction failed", job=job_id, instance=problem.instance, error=reason(error)
            )
            self._end(job_id, "failed", error=problem)
        else:
            cancelled = getattr(report, "cancelled", False)
            told = as_told(report, "bytes_saved", "compression_ratio")
            self._end(job_id, "cancelled" if cancelled else "done", report=told)

    def _end(self, job_id: str, state: State, **more: object) -> None:
        self._set(job_id, state=state, finished_at=_now(), **more)
        if job_id in self._to_forget:
            self._to_forget.remove(job_id)
            del self._jobs[job_id]
        ended = [job.job_id for job in self._jobs.values() if job.state in _ENDED]
        for forgotten in ended[:-FINISHED_MAX]:
            del self._jobs[forgotten]

    def _set(self, job_id: str, **changes: object) -> Job:
        job = self._jobs[job_id] = msgspec.structs.replace(self._jobs[job_id], **changes)
        return job


def as_told(told: object, *properties: str) -> JsonObject:
    """Return a struct as JSON has it, with those of its properties that are named."""
    fields: JsonObject = msgspec.to_builtins(told)
    return fields | {name: getattr(told, name) for name in properties}


def _now() -> datetime:
    return datetime.now(UTC)


# --- routes


Limit = Annotated[int, QueryParameter(ge=1, le=PAGE_MAX, examples=example(100))]
Offset = Annotated[int, QueryParameter(ge=0, examples=example(0))]
JobId = Annotated[str, PathParameter(description="Its id.", examples=example(NAMED["job_id"]))]
OfUser = Annotated[
    str | None,
    QueryParameter(description="Of this user only.", examples=example(NAMED["user_id"])),
]

DespiteHold = Annotated[
    bool, QueryParameter(description="Also under a legal hold.", examples=example(False))
]

Compress: Any = body_of("system.compact")
COMPRESS = {"user_id": NAMED["user_id"], "dry_run": True, "older_than": NAMED["older_than"]}
DONE = {
    "state": "done",
    "progress": example_of(CompactionProgress),
    "report": {**example_of(CompactionReport), "bytes_saved": 1, "compression_ratio": 0.83},
}


@post(
    "/compress/run",
    status_code=202,
    operation_id="compress",
    summary="Compress old memories",
    responses=answers(202, Job, 400, 401, 403, 413),
)
async def run(
    request: AnyRequest,
    data: Annotated[Compress | None, Body(examples=example(COMPRESS))] = None,
) -> Response[Job]:
    """Queue a run and answer at once; `Location` is where its state can be read."""
    asked = data or Compress()
    if asked.older_than is not None:
        age(asked.older_than)  # what is none is refused now, not by the job
    jobs: CompactionJobs = request.app.state.jobs
    given = arguments(asked)
    job = jobs.ask_for(check_optional_name(given.pop("user_id"), "user_id"), **given)
    return Response(job, headers={"Location": f"/admin/compress/jobs/{job.job_id}"})


@get(
    "/compress/jobs/{job_id:str}",
    operation_id="get_compression_job",
    summary="State of a run",
    responses=answers(200, Job, 400, 401, 403, 404, **DONE),
)
async def job(request: AnyRequest, job_id: JobId) -> Job:
    """Return how far a run is, or what came of it."""
    jobs: CompactionJobs = request.app.state.jobs
    return jobs.get(job_id)


@get(
    "/users",
    operation_id="list_users",
    summary="List users",
    responses=answers(200, Users, 400, 401, 403),
)
async def users(request: AnyRequest, limit: Limit = PAGE_MAX, offset: Offset = 0) -> Users:
    """Return ids of users who have a memory, in order, and how many there are."""
    found = await request.app.state.memory.users()
    return Users(users=found[offset : offset + limit], total=len(found))


@delete(
    "/users/{user_id:str}",
    status_code=200,
    operation_id="erase_user",
    summary="Erase a user",
    responses=answers(200, EraseReceipt, 400, 401, 403, 409),
)
async def erase(
    request: AnyRequest, user_id: UserId, despite_hold: DespiteHold = False
) -> EraseReceipt:
    """Remove all that is kept of a user, to the last byte, keys included; it cannot be undone."""
    memory: MemorySystem = request.app.state.memory
    return await memory.erase(user_id, despite_hold=despite_hold)


@get(
    "/compress/stats",
    operation_id="compression_stats",
    summary="What compression has saved",
    responses=answers(200, CompressionStats, 400, 401, 403, 404),
)
async def stats(request: AnyRequest, user_id: OfUser = None) -> CompressionStats:
    """Return how many memories are compressed, from how many originals, and the bytes saved."""
    told = await request.app.state.memory.compaction_stats(user_id)
    return CompressionStats(
        **{name: getattr(told, name) for name in CompressionStats.__struct_fields__}
    )


def router() -> Router:
    """Return the routes, all behind the check for a root key."""
    return Router(
        "/admin",
        route_handlers=[run, job, stats, users, erase, told],
        guards=[root_only],
        tags=["administration"],
    )
