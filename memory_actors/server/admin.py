"""The routes of whoever runs the server, under `/admin`: root keys only."""

from typing import Annotated, Any

from litestar import Request, Response, Router, get, post
from litestar.params import Body, PathParameter, QueryParameter

from memory_actors.base.reports import CompactionProgress, CompactionReport
from memory_actors.base.validation import check_optional_name
from memory_actors.compaction.selection import age
from memory_actors.server.access import root_only
from memory_actors.server.bodies import Compress, CompressionStats
from memory_actors.server.examples import NAMED, answers, example, example_of
from memory_actors.server.jobs import CompactionJobs, Job

JobId = Annotated[str, PathParameter(description="Its id.", examples=example(NAMED["job_id"]))]
OfUser = Annotated[
    str | None,
    QueryParameter(description="Of this user only.", examples=example(NAMED["user_id"])),
]

COMPRESS = {"user_id": NAMED["user_id"], "dry_run": True, "older_than": NAMED["older_than"]}
DONE = {
    "state": "done",
    "progress": example_of(CompactionProgress),
    "report": {**example_of(CompactionReport), "bytes_saved": 1, "compression_ratio": 0.83},
}


@post(
    "/compress/run",
    status_code=202,
    summary="Compress old memories",
    responses=answers(202, Job, 400, 401, 403, 413),
)
async def run(
    request: Request[Any, Any, Any],
    data: Annotated[Compress | None, Body(examples=example(COMPRESS))] = None,
) -> Response[Job]:
    """Queue a run and answer at once; `Location` is where its state can be read."""
    asked = data or Compress()
    if asked.older_than is not None:
        age(asked.older_than)  # what is none is refused now, not by the job
    jobs: CompactionJobs = request.app.state.jobs
    job = jobs.ask_for(
        check_optional_name(asked.user_id, "user_id"),
        dry_run=asked.dry_run,
        older_than=asked.older_than,
        episodes=asked.episodes,
    )
    return Response(job, headers={"Location": f"/admin/compress/jobs/{job.job_id}"})


@get(
    "/compress/jobs/{job_id:str}",
    summary="State of a run",
    responses=answers(200, Job, 400, 401, 403, 404, **DONE),
)
async def job(request: Request[Any, Any, Any], job_id: JobId) -> Job:
    """Return how far a run is, or what came of it."""
    jobs: CompactionJobs = request.app.state.jobs
    return jobs.get(job_id)


@get(
    "/compress/stats",
    summary="What compression has saved",
    responses=answers(200, CompressionStats, 400, 401, 403, 404),
)
async def stats(request: Request[Any, Any, Any], user_id: OfUser = None) -> CompressionStats:
    """Return how many memories are compressed, from how many originals, and the bytes saved."""
    told = await request.app.state.memory.compaction_stats(user_id)
    return CompressionStats(
        **{name: getattr(told, name) for name in CompressionStats.__struct_fields__}
    )


def router() -> Router:
    """Return the routes, all behind the check for a root key."""
    return Router(
        "/admin", route_handlers=[run, job, stats], guards=[root_only], tags=["administration"]
    )
