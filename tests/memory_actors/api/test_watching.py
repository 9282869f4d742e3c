"""Functions and events that a caller gives: heard in time, whoever has the store."""

import asyncio
from typing import Any

import pytest

from memory_actors import CompactionProgress, InvalidInputError, MemorySystem

pytestmark = pytest.mark.anyio

DAY_S = 86_400
TOPICS = (
    "Commit {n} fixed the login redirect bug in the auth service for good",
    "Morning run number {n} along the river was windy but fast and pleasant",
)


async def filled(memory: MemorySystem, clock: Any) -> None:
    """Have two clusters of old memories."""
    user = memory.user("ada")
    for n in range(12):
        for topic in TOPICS:
            await user.add(topic.format(n=n))
    clock.move(400 * DAY_S)


async def test_who_watches_can_stop_before_the_next_cluster(
    memory: MemorySystem, clock: Any
) -> None:
    await filled(memory, clock)
    stop = asyncio.Event()

    def progress(at: CompactionProgress) -> None:
        if at.clusters_done == 1:
            stop.set()

    report = await memory.compact(progress=progress, stop=stop)
    assert (report.compressed, report.cancelled) == (1, True)
    assert (await memory.compact()).compressed == 1


@pytest.mark.no_http
async def test_work_waits_for_who_watches_it(memory: MemorySystem) -> None:
    said: list[Any] = []

    async def progress(done: int, total: int) -> None:
        said.append(("begun", done))
        await asyncio.sleep(0.01)
        said.append(("ended", total))

    for name in ("ada", "bob"):
        await memory.user(name, source="web").add("likes tea")
    await memory.purge("web", progress=progress)
    assert said == [("begun", 1), ("ended", 2), ("begun", 2), ("ended", 2)]


class OutOfPaperError(Exception):
    """An error of the caller's own."""


async def test_what_a_watcher_raises_ends_the_work_or_is_left_out(
    memory: MemorySystem, clock: Any
) -> None:
    """A purge is ended by the error, and the caller gets it; compaction goes on unwatched."""

    def fail(*_: Any) -> None:
        raise OutOfPaperError("no more paper")

    await filled(memory, clock)
    assert (await memory.compact(progress=fail)).compressed == 2
    with pytest.raises(OutOfPaperError, match="no more paper"):
        await memory.purge("web", progress=fail)
    with pytest.raises(OutOfPaperError, match="no more paper"):
        await memory.verify(fail)


async def test_others_forget_a_user_before_the_erasure_is_reported(memory: MemorySystem) -> None:
    forgotten: list[str] = []
    memory.watch_erasures(forgotten.append)
    for name in ("ada", "bob"):
        await memory.user(name).add("likes tea")
        await memory.erase(name)
        assert forgotten[-1] == name


@pytest.mark.parametrize("odd", [None, "f", asyncio.sleep])
async def test_what_cannot_watch_erasures_is_refused(memory: MemorySystem, odd: Any) -> None:
    with pytest.raises(InvalidInputError, match="must be a plain function"):
        memory.watch_erasures(odd)
