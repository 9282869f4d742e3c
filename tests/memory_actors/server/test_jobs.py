"""The memory that jobs have of a user who is erased."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from support.compacting import SHORT, gated, with_a_past

from memory_actors import NotFoundError
from memory_actors.server.admin import CompactionJobs, Job

pytestmark = pytest.mark.anyio


async def done(jobs: CompactionJobs, user_id: str | None) -> Job:
    job = jobs.ask_for(user_id, dry_run=False, older_than=None)
    async with asyncio.timeout(timedelta(seconds=30).total_seconds()):
        while (job := jobs.get(job.job_id)).state in ("queued", "running"):
            await asyncio.sleep(0.01)
    return job


async def test_finished_jobs_forget_a_user_who_was_erased(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        await with_a_past(memory, "bob")
        jobs = CompactionJobs(memory)
        memory.watch_erasures(jobs.forget)
        async with jobs.running():
            of_bob = await done(jobs, "bob")
            await with_a_past(memory, "ada")
            of_ada, of_all = await done(jobs, "ada"), await done(jobs, None)
            await with_a_past(memory, "eve")
            last = await done(jobs, None)
            assert {c["user_id"] for c in (last.report or {})["clusters"]} == {"eve"}

            await memory.erase("ada")
            await memory.erase("eve")

            with pytest.raises(NotFoundError):
                jobs.get(of_ada.job_id)
            kept = jobs.get(of_bob.job_id).report or {}
            assert list(kept["clusters"]) == list((of_bob.report or {})["clusters"]) != []
            assert jobs.get(of_all.job_id).state == "done"
            assert (jobs.get(last.job_id).report or {})["clusters"] == []
            assert jobs.get(last.job_id).progress is None, "the last user it told of"


async def test_queued_and_running_jobs_of_an_erased_user_are_forgotten(open_memory: Any) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async with open_memory(summarizer=gated(asked, go)) as memory:
        await with_a_past(memory, "ada")
        jobs = CompactionJobs(memory)
        memory.watch_erasures(jobs.forget)
        async with jobs.running(), asyncio.timeout(10):
            running, queued = (
                jobs.ask_for("ada", dry_run=False, older_than=None) for _ in range(2)
            )
            await asked.wait()
            erasing = asyncio.create_task(memory.erase("ada"))
            await asyncio.sleep(0.02)
            go.set()
            await erasing
            assert (await done(jobs, None)).state == "done"
            for job in (running, queued):
                with pytest.raises(NotFoundError):
                    jobs.get(job.job_id)
