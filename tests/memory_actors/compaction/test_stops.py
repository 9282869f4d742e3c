"""A run that is cancelled, stopped, closed upon or killed; and who is at work meanwhile."""

import asyncio
from typing import Any

import pytest
from support.compacting import (
    LOGIN,
    LUNCH,
    SHORT,
    contents,
    gated,
    short,
    summaries,
    with_a_past,
)
from support.indexes import on_disk

from memory_actors import (
    CallableSummarizer,
    Cluster,
    CompactionProgress,
    UserMemory,
    text_digest,
)
from memory_actors.compaction import job, replacing
from memory_actors.compaction.run import Pace

pytestmark = pytest.mark.anyio


# --- cancelled, killed


async def test_cancelling_ends_the_run_after_the_cluster_in_hand(open_memory: Any) -> None:
    begun = asyncio.Event()

    async def slow(cluster: Cluster) -> str:
        begun.set()
        await asyncio.sleep(0.05)
        return short(cluster)

    async with open_memory(summarizer=CallableSummarizer(slow)) as memory:
        user = await with_a_past(memory)
        run = asyncio.create_task(memory.compact())
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert len(await summaries(user)) == 1, "the cluster in hand is whole"
        assert (await memory.compact()).compressed == 1
        assert len(await summaries(user)) == 2


async def test_a_run_that_is_stopped_says_so(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        await with_a_past(memory)
        stop = asyncio.Event()

        def after_the_first(at: CompactionProgress) -> None:
            if at.clusters_done == 1:
                stop.set()

        report = await memory.compact(progress=after_the_first, stop=stop)
        assert (report.cancelled, report.compressed) == (True, 1)


async def test_closing_waits_for_the_cluster_in_hand(open_memory: Any) -> None:
    begun = asyncio.Event()

    async def slow(cluster: Cluster) -> str:
        begun.set()
        await asyncio.sleep(0.05)
        return short(cluster)

    async with open_memory(summarizer=CallableSummarizer(slow)) as memory:
        await with_a_past(memory)
        run = asyncio.create_task(memory.compact())
        await begun.wait()
    assert (await run).cancelled
    async with open_memory(summarizer=SHORT) as memory:
        assert len(await summaries(memory.user("ada"))) == 1
        assert await memory.check_replay() == []


async def test_what_a_crash_left_to_archive_the_next_run_archives(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crash(_scope: Any) -> int:
        raise RuntimeError

    async with open_memory(summarizer=SHORT) as memory:
        await with_a_past(memory)
        monkeypatch.setattr(job, "archive_originals", crash)
        with pytest.raises(RuntimeError):
            await memory.compact("ada")
        monkeypatch.undo()
        assert (await memory._log.archive_statistics()).events == 0
    async with open_memory(summarizer=SHORT) as memory:
        user = memory.user("ada")
        assert (await memory.compact()).compressed == 0
        assert (await memory._log.archive_statistics()).events == 19
        lunch, _ = await summaries(user)
        assert len(await user.expand(lunch.memory_id)) == 7
        assert (await memory.verify()).ok
        await memory.compact()
        assert (await memory._log.archive_statistics()).segments == 1, "nothing twice"


async def test_adds_and_searches_go_on_meanwhile(open_memory: Any) -> None:
    async def slow(cluster: Cluster) -> str:
        await asyncio.sleep(0.02)
        return short(cluster)

    async with open_memory(summarizer=CallableSummarizer(slow)) as memory:
        user = await with_a_past(memory)
        run, added = asyncio.create_task(memory.compact()), []
        while not run.done():
            added.append((await user.add(f"{LOGIN} again {len(added)}")).memory_id)
            assert await user.retrieve("login bug")
        assert (await run).compressed == 2
        assert added
        found = dict(await contents(user))
        assert set(added) <= found.keys()
        assert len(found) == 4 + len(added)


async def test_progress_is_told_cluster_by_cluster(open_memory: Any) -> None:
    told: list[CompactionProgress] = []
    async with open_memory(summarizer=SHORT) as memory:
        for name in ("ada", "bob"):
            await with_a_past(memory, name)
        await memory.compact(progress=told.append)
    at = [(p.user_id, p.users_done, p.clusters_done) for p in told]
    assert at == [(name, n, done) for n, name in enumerate(("ada", "bob")) for done in range(3)]
    assert {(p.users_total, p.clusters_total) for p in told} == {(2, 2)}


# --- a user who is erased meanwhile


async def test_a_user_erased_meanwhile_is_left_alone(
    open_memory: Any,
) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async with open_memory(summarizer=gated(begun, gate)) as memory:
        for user_id in ("ada", "bob"):
            await with_a_past(memory, user_id)
        run = asyncio.create_task(memory.compact())
        await begun.wait()
        erasing = asyncio.create_task(memory.erase("ada"))
        await asyncio.sleep(0.02)
        assert not erasing.done(), "the cluster in hand is finished first"
        gate.set()

        assert (await erasing).events > 0
        report = await run
        assert {cluster.user_id for cluster in report.clusters} == {"bob"}
        assert report.compressed >= 2
        assert await memory.users() == ["bob"]
        assert (await memory.verify()).findings == []
        assert await memory.check_replay() == []


async def test_an_erasure_does_not_wait_for_a_hanging_summariser(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller who erases a user does not wait for a summariser that hangs."""
    monkeypatch.setattr(replacing, "GRACE_S", 0.05)
    asked = asyncio.Event()

    async with open_memory(summarizer=gated(asked, asyncio.Event())) as memory:
        await with_a_past(memory, "ada")
        run = asyncio.ensure_future(memory.compact())
        await asked.wait()
        async with asyncio.timeout(5):
            assert (await memory.erase("ada")).events
            assert not (await run).clusters


async def test_a_summary_that_came_too_late_leaves_no_trace(open_memory: Any) -> None:
    """A later erasure of the user finds what to delete by the events in the log."""
    users: list[UserMemory] = []

    async def late(cluster: Cluster) -> str:
        await users[0].update("fixed1", content="another text by now")
        await users[0].update("lunch1", content="and another one")
        return short(cluster)

    async with open_memory(summarizer=CallableSummarizer(late)) as memory:
        users.append(await with_a_past(memory, "ada"))
        report = await memory.compact()
        assert [cluster.outcome for cluster in report.clusters] == ["changed", "changed"]
        embeddings = memory._services.embeddings
        embeddings.disk.flush()
        assert on_disk(embeddings, [text_digest(LOGIN), text_digest(LUNCH)]) == {}


async def test_a_run_does_not_give_way_to_itself(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    async def rest(_self: Pace, seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(Pace, "_rest", rest)
    async with open_memory(summarizer=SHORT) as memory:
        for user_id in ("ada", "bob"):
            await with_a_past(memory, user_id)
        assert (await memory.compact()).compressed == 4
    assert len(rests) >= 6
    assert set(rests) == {0}
