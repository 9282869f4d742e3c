"""Compaction end to end: a real store, a fake model, summaries of a function of the test's own."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.compacting import (
    LOGIN,
    LONG_AGO,
    LUNCH,
    SHORT,
    contents,
    gated,
    outcomes,
    short,
    some,
    summaries,
    with_a_past,
)
from support.fakes import FakeEmbedder, FakeTokenEmbedder

from memory_actors import (
    CallableSummarizer,
    Cluster,
    InvalidInputError,
    Item,
    MemorySystem,
    NotFoundError,
    Tier,
    UserMemory,
)
from memory_actors.compaction import job, replacing
from memory_actors.kinds import long_term

pytestmark = pytest.mark.anyio


async def test_each_cluster_becomes_one_memory_that_knows_its_originals(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = await with_a_past(memory)
        report = await memory.compact()
        assert outcomes(report) == ["compressed", "compressed"]
        assert (report.compressed, report.originals, report.failed) == (2, 19, 0)
        assert report.memories_considered == 20
        assert report.bytes_saved == report.bytes_before - report.bytes_after > 0
        usage = (await user.usage()).kinds["long_term"]
        assert usage.count == 2 + 2
        lunch, login = await summaries(user)
        assert login.content == f"[Summary of 12 memories from 2023-07-25 to 2023-08-05]: {LOGIN}"
        assert login.data["compressed_from_ids"] == [f"fixed{n}" for n in range(12)]
        assert login.data["original_count"] == 12
        assert login.data["compression_method"] == "short"
        assert login.data["session_ids"] == ["s0", "s1", "s2"]
        assert login.data["time_range_start"].startswith("2023-07-25")
        assert login.occurred_at.isoformat() == login.data["time_range_end"]
        assert login.data["bytes_after"] == login.size_bytes < login.data["bytes_before"]
        assert lunch.data["compressed_from_ids"] == [f"lunch{n}" for n in range(7)]
        assert (await user.get(login.memory_id)) == login


async def test_expand_gives_the_originals_as_they_were(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = await with_a_past(memory)
        await user.update("lunch3", content=f"{LUNCH} #new", metadata={"k": 1})
        before = {m.memory_id: m for m in await user.list_memories(limit=100)}
        await memory.compact()
        lunch, login = await summaries(user)
        assert await user.expand(login.memory_id) == [before[f"fixed{n}"] for n in range(12)]
        assert await user.expand(lunch.memory_id) == [before[f"lunch{n}"] for n in range(7)]
        for memory_id in ("fixed1", "mX"):
            with pytest.raises(NotFoundError):
                await user.expand(memory_id)


async def test_what_is_young_pinned_or_alone_stays(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = memory.user("ada")
        await user.add_many(some(LOGIN, 6, pinned=True) + some(LUNCH, 4))
        await user.add_many([Item(content=f"new release is out #{n}") for n in range(9)])
        before = await contents(user)
        report = await memory.compact()
        assert (report.compressed, report.memories_considered) == (0, 4)
        assert await contents(user) == before


async def test_the_age_can_be_given_and_depends_on_the_tier(open_memory: Any) -> None:
    settings = {"compaction_after_days": {Tier.FREE: 200, Tier.LOCAL: 110}}
    async with open_memory(summarizer=SHORT, **settings) as memory:
        user = memory.user("ada")
        await user.add_many(some(LOGIN, 20))
        assert (await memory.compact(dry_run=True)).memories_considered == 10
        await user.set_tier(Tier.FREE)
        assert (await memory.compact(dry_run=True)).memories_considered == 0
        await user.set_tier(Tier.ENTERPRISE)
        assert (await memory.compact(dry_run=True)).memories_considered == 20
        for age, count in (("118d", 2), ("17w", 1), (timedelta(days=119), 1), ("2880h", 0)):
            report = await memory.compact(dry_run=True, older_than=age)
            assert report.memories_considered == count
        for wrong in ("soon", "90", "-1d", timedelta(days=-1)):
            with pytest.raises(InvalidInputError):
                await memory.compact(older_than=wrong)


async def test_what_is_just_as_old_as_the_age_stays(open_memory: Any) -> None:
    """Only memories that are strictly older are compacted."""
    async with open_memory(summarizer=SHORT) as memory:
        await memory.user("ada").add_many(
            [Item(content=f"{LOGIN} #{n}", occurred_at=LONG_AGO) for n in range(6)]
        )
        age, second = timedelta(days=150), timedelta(seconds=1)
        assert (await memory.compact(older_than=age, dry_run=True)).memories_considered == 0
        report = await memory.compact(older_than=age - second, dry_run=True)
        assert report.memories_considered == 6


async def test_a_dry_run_says_what_would_be_and_changes_nothing(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = await with_a_past(memory)
        before, events = await contents(user), memory.statistics().log.events_appended
        dry = await memory.compact(dry_run=True)
        assert outcomes(dry) == ["would_compress"] * 2
        assert memory.statistics().log.events_appended == events
        assert await contents(user) == before
        assert (await memory.compaction_stats()).runs == 0
        assert dry.clusters[0].sample == tuple(f"{LOGIN} #{n}" for n in range(3))
        real = await memory.compact()
        assert [c.summary for c in real.clusters] == [c.summary for c in dry.clusters]
        assert real.bytes_saved == dry.bytes_saved


async def test_running_twice_does_nothing_twice(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = await with_a_past(memory)
        await memory.compact()
        after, events = await contents(user), memory.statistics().log.events_appended
        again = await memory.compact()
        assert (again.compressed, again.failed) == (0, 0)
        assert await contents(user) == after
        assert memory.statistics().log.events_appended == events


async def test_a_later_pass_finds_clusters_spread_over_batches(open_memory: Any) -> None:
    """Two batches of ten: three are too few in each, and six are enough in what is left."""
    async with open_memory(summarizer=SHORT, compaction_batch=10) as memory:
        user = memory.user("ada")
        texts = [*[LOGIN] * 3, *[LUNCH] * 7] * 2
        past = datetime(2020, 1, 1, tzinfo=UTC)
        await user.add_many(
            [Item(content=f"{text} #{n}", occurred_at=past + timedelta(days=n))
             for n, text in enumerate(texts)]
        )  # fmt: skip
        dry, report = await memory.compact(dry_run=True), await memory.compact()
        assert [c.original_count for c in report.clusters] == [7, 7, 6]
        assert [c.summary for c in dry.clusters] == [c.summary for c in report.clusters]
        assert (await memory.compact()).compressed == 0


async def test_two_runs_at_once_take_turns(open_memory: Any) -> None:
    running = 0

    async def alone(cluster: Cluster) -> str:
        nonlocal running
        running += 1
        await asyncio.sleep(0.01)
        assert running == 1
        running -= 1
        return short(cluster)

    async with open_memory(summarizer=CallableSummarizer(alone)) as memory:
        await with_a_past(memory)
        reports = await asyncio.gather(memory.compact(), memory.compact())
        assert sorted(report.compressed for report in reports) == [0, 2]


async def test_compaction_is_for_one_known_user_or_all(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        for name in ("ada", "bob"):
            await with_a_past(memory, name)
        report = await memory.compact("bob")
        assert {cluster.user_id for cluster in report.clusters} == {"bob"}
        assert (await memory.compaction_stats("ada")).summaries == 0
        assert (await memory.compaction_stats("bob")).summaries == 2
        with pytest.raises(NotFoundError):
            await memory.compact("cid")
        with pytest.raises(NotFoundError):
            await memory.compaction_stats("cid")
        assert (await memory.compact()).users == 2
        assert await memory.users() == ["ada", "bob"]


async def test_the_numbers_are_exact_and_outlive_the_process(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = await with_a_past(memory)
        report = await memory.compact()
        stats = await memory.compaction_stats()
        assert (stats.summaries, stats.originals, stats.runs) == (2, 19, 1)
        assert (stats.bytes_before, stats.bytes_after) == (report.bytes_before, report.bytes_after)
        assert stats.compression_ratio == report.bytes_after / report.bytes_before < 1
        assert report.compression_ratio == stats.compression_ratio
        assert stats.last_run_at is not None
    async with open_memory(summarizer=SHORT) as memory:
        again, mine = await memory.compaction_stats(), await memory.compaction_stats("ada")
        assert (again.summaries, again.originals, again.bytes_before) == (2, 19, stats.bytes_before)
        assert (again.runs, again.last_run_at) == (0, None)
        assert mine == again
        user = memory.user("ada")
        await user.delete((await summaries(user))[0].memory_id)
        assert (await memory.compaction_stats()).originals == 12


# --- what fails


def failing(what: str) -> CallableSummarizer:
    def fail(cluster: Cluster) -> Any:
        if not cluster.texts[0].startswith("lunch"):
            return short(cluster)
        if what == "raises":
            raise ValueError("lunch with Bob")
        bodies = {"empty": " ", "no text": 7, "not Unicode": "\ud800"}
        return bodies[what]

    return CallableSummarizer(fail)


@pytest.mark.parametrize("what", ["raises", "empty", "no text", "not Unicode"])
async def test_a_cluster_that_fails_stays_and_is_tried_again(open_memory: Any, what: str) -> None:
    async with open_memory(summarizer=failing(what)) as memory:
        user = await with_a_past(memory)
        report = await memory.compact()
        assert sorted(outcomes(report)) == ["compressed", "failed"]
        (failed,) = [cluster for cluster in report.clusters if cluster.outcome == "failed"]
        assert failed.memory_id is None
        assert failed.summary is None
        assert failed.reason
        assert {f"lunch{n}" for n in range(7)} <= {
            memory_id for memory_id, _ in await contents(user)
        }
        assert (await memory.compaction_stats()).failed_clusters == 1
    async with open_memory(summarizer=SHORT) as memory:
        assert outcomes(await memory.compact()) == ["compressed"]
        assert (await memory.compaction_stats()).summaries == 2


async def test_a_cluster_stays_whose_summary_would_save_less_than_half(open_memory: Any) -> None:
    def long(cluster: Cluster) -> str:
        return "x" * (int(0.51 * len("".join(cluster.texts))) - len(cluster.heading))

    async with open_memory(summarizer=CallableSummarizer(long)) as memory:
        user = await with_a_past(memory)
        before = await contents(user)
        report = await memory.compact()
        assert outcomes(report) == ["kept", "kept"]
        assert all("they stay" in str(cluster.reason) for cluster in report.clusters)
        assert report.failed == report.compressed == report.bytes_saved == 0
        assert await contents(user) == before


async def test_a_cluster_without_an_embedded_summary_stays(
    open_memory: Any, embedder: FakeEmbedder
) -> None:
    """A cluster whose summary cannot be embedded stays, and is tried again.

    And the summariser, which may cost money, is asked only for the first one meanwhile.
    """
    asked: list[Cluster] = []
    counting = CallableSummarizer(lambda cluster: asked.append(cluster) or short(cluster))
    async with open_memory(summarizer=counting) as memory:
        user = await with_a_past(memory)
        before = await contents(user)
        embedder.failure = RuntimeError("no model")
        report = await memory.compact()
        assert len(asked) == 1
        assert outcomes(report) == ["failed", "failed"]
        assert "no model" in str(report.clusters[0].reason)
        assert await contents(user) == before

        embedder.failure = None
        assert outcomes(await memory.compact()) == ["compressed", "compressed"]


async def test_memories_are_found_until_their_summary_is_embedded(
    open_memory: Any, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search waits for nobody meanwhile, and one right after it finds the summary."""
    embed, asked, go = embedder.embed, threading.Event(), threading.Event()

    def gated(texts: Sequence[str]) -> Any:
        if LOGIN in texts:  # the originals have a number each
            asked.set()
            assert go.wait(10)
        return embed(texts)

    monkeypatch.setattr(embedder, "parallel", True, raising=False)
    async with open_memory(summarizer=SHORT) as memory:
        user = await with_a_past(memory)
        monkeypatch.setattr(embedder, "embed", gated)
        run = asyncio.create_task(memory.compact())
        async with asyncio.timeout(5):
            await asyncio.to_thread(asked.wait, 5)
            meanwhile = await user.retrieve("login redirect", top_k=3)
        go.set()
        await run
        found = await user.retrieve("login redirect", top_k=3)
    assert sum(hit.memory_id.startswith("fixed") for hit in meanwhile) >= 2
    assert all(hit.source == "memory" for hit in meanwhile)
    assert any(hit.source == "compressed" and LOGIN in hit.content for hit in found)


async def test_a_summariser_that_hangs_is_given_up(open_memory: Any) -> None:
    slow = gated(asyncio.Event(), asyncio.Event())
    async with open_memory(summarizer=slow, summarizer_deadline_s=0.01) as memory:
        await with_a_past(memory)
        report = await memory.compact()
        assert outcomes(report) == ["failed", "failed"]
        assert "within 0.01 s" in str(report.clusters[0].reason)


async def test_who_cancels_does_not_wait_for_a_summariser_that_hangs(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "GRACE_S", 0.05)
    asked = asyncio.Event()

    async with open_memory(summarizer=gated(asked, asyncio.Event())) as memory:
        user = await with_a_past(memory)
        before = await contents(user)
        run = asyncio.ensure_future(memory.compact())
        await asked.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await run
        assert await contents(user) == before


async def test_a_text_that_another_user_compressed_is_embedded_again(tmp_path: Any) -> None:
    """Derived data is by text: what one user's compaction deletes, another may still need."""
    async with MemorySystem.open(
        tmp_path, embedder=FakeTokenEmbedder(), summarizer=SHORT, alerts=[]
    ) as memory:
        await with_a_past(memory)
        other = memory.user("eve")
        await other.add_many([Item(content=f"{LOGIN} #{n}") for n in range(12)])
        async with memory._services.runtime.use("user:eve") as live:
            live.indexes.get(long_term.KIND).late._bytes_max = 0
        await other.add("leaves no room for token states")
        before = await scores(other)
        await memory.compact("ada")
        assert await scores(other) == before, "what was missed is there again"


async def scores(user: UserMemory) -> dict[str, float]:
    hits = await user.retrieve(f"{LOGIN} #3", top_k=20)
    return {hit.content: hit.score for hit in hits}


async def test_what_is_changed_meanwhile_is_left_alone(open_memory: Any) -> None:
    async def meddle(cluster: Cluster) -> str:
        if "login" in cluster.texts[0]:
            await user.update("fixed5", content="fixed something else")
        else:
            await user.delete("lunch2")
        return short(cluster)

    async with open_memory(summarizer=CallableSummarizer(meddle)) as memory:
        user = await with_a_past(memory)
        report = await memory.compact()
        assert outcomes(report) == ["changed", "changed"]
        assert (report.compressed, report.failed) == (0, 0)
        found = dict(await contents(user))
        assert found["fixed5"] == "fixed something else"
        assert {f"fixed{n}" for n in range(12)} <= found.keys()


async def test_a_user_who_fails_does_not_stop_the_others(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        for name in ("ada", "bob"):
            await with_a_past(memory, name)
        clustered = job.clustered

        async def fail_for_ada(scope: Any, *given: Any) -> Any:
            if scope.user_id == "ada":
                raise NotFoundError("no luck")
            return await clustered(scope, *given)

        monkeypatch.setattr(job, "clustered", fail_for_ada)
        report = await memory.compact()
        assert (report.users, report.users_failed, report.compressed) == (2, 1, 2)
        with pytest.raises(NotFoundError, match="no luck"):
            await memory.compact("ada")
        monkeypatch.undo()
        assert (await memory.compact()).compressed == 2
