"""Compaction of episodes that have ended, end to end: as an option, in the same job as memories."""

from typing import Any

import pytest
from support.compacting import (
    DAY_S,
    DEPLOY,
    FLIGHT,
    LOGIN,
    SHORT,
    contents,
    lived,
    of_episodes,
    outcomes,
    some,
    summaries,
    with_a_past,
)
from support.fakes import FakeClock
from support.given import pro

from memory_actors import (
    CallableSummarizer,
    Cluster,
    InvalidInputError,
    Limits,
    Memory,
    MemorySystem,
    NotFoundError,
    UserMemory,
)
from memory_actors.interchange import export_jsonl, import_jsonl

pytestmark = pytest.mark.anyio


async def one_summary(memory: MemorySystem, **how: Any) -> tuple[UserMemory, Memory]:
    """Return a user whose seven episodes became one summary."""
    user = memory.user("ada")
    await lived(user, DEPLOY, 7, **how)
    assert outcomes(await memory.compact(episodes=True)) == ["compressed"]
    (summary,) = await of_episodes(user)
    return user, summary


# --- what becomes of them


async def test_an_agents_episodes_become_one_that_knows_them(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user, summary = await one_summary(memory)
        episode = await user.episodes.get(summary.memory_id)
        assert summary.content == (
            f"[Summary of 7 memories from 2023-06-17 to 2023-06-23]: Goal: {DEPLOY}"
        )
        assert (episode.agent_id, episode.goal, episode.status) == ("bot", summary.content, "done")
        assert (episode.steps, episode.result, episode.original_count) == ((), None, 7)
        assert summary.data["compressed_from_ids"] == [f"bot-deploy{n}" for n in range(7)]
        assert summary.data["compression_method"] == "short"
        assert summary.data["session_ids"] == ["s0", "s1"]
        assert summary.occurred_at.isoformat() == summary.data["time_range_end"]
        assert summary.data["bytes_after"] == summary.size_bytes < summary.data["bytes_before"]
        assert await user.get(summary.memory_id) == summary
        assert [e.memory_id for e in await user.episodes.recent("bot")] == [summary.memory_id]


async def test_memories_and_episodes_go_in_one_run_with_one_report(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT, compaction_episodes=True) as memory:
        user = await with_a_past(memory)
        await lived(user, DEPLOY, 7)
        told: list[tuple[int, int]] = []
        dry = await memory.compact(dry_run=True)
        assert outcomes(dry) == ["would_compress"] * 3
        assert await of_episodes(user) == []
        report = await memory.compact(
            progress=lambda p: told.append((p.clusters_done, p.clusters_total))
        )
        assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
        assert [(c.memory_type, c.original_count) for c in report.clusters] == [
            ("long_term", 12), ("long_term", 7), ("episodic", 7),
        ]  # fmt: skip
        assert [c.summary for c in dry.clusters] == [c.summary for c in report.clusters]
        assert (report.memories_considered, report.originals) == (27, 26)
        assert report.bytes_saved == dry.bytes_saved > 0
        stats = await memory.compaction_stats()
        assert (stats.summaries, stats.originals) == (3, 26)
        assert (stats.bytes_before, stats.bytes_after) == (report.bytes_before, report.bytes_after)
        assert (await memory.compaction_stats("ada")).originals == 26
        assert len(await summaries(user)) == 2
        after = await contents(user)
        assert (await memory.compact()).compressed == 0, "never twice"
        assert await contents(user) == after
    async with open_memory() as memory:
        assert await contents(memory.user("ada")) == after
        assert (await memory.compaction_stats()).originals == 26
        assert await memory.check_replay() == []
        assert (await memory.verify()).ok


async def test_no_summary_is_of_two_agents(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = memory.user("ada")
        for agent, count in (("one", 6), ("two", 5), ("few", 4)):
            await lived(user, DEPLOY, count, agent=agent)
        report = await memory.compact(episodes=True)
        assert [c.original_count for c in report.clusters] == [6, 5]
        found = await of_episodes(user)
        assert {m.data["agent_id"]: m.data["original_count"] for m in found} == {"one": 6, "two": 5}
        assert len(await user.episodes.recent("few")) == 4


async def test_a_summariser_reads_goals_steps_errors_and_results(open_memory: Any) -> None:
    read: list[str] = []

    def keep(cluster: Cluster) -> str:
        read.extend(cluster.texts)
        assert cluster.vectors is not None
        assert cluster.vectors.any(axis=1).all()
        return "seven times it failed"

    async with open_memory(summarizer=CallableSummarizer(keep)) as memory:
        user, summary = await one_summary(memory, failed=True)
        assert read[3].splitlines() == [
            f"Goal: {DEPLOY} #3", "1. look around -> nothing new here",
            "2. go on -> error: timeout", "Result (failed): that was run 3 of it",
        ]  # fmt: skip
        assert (await user.episodes.get(summary.memory_id)).status == "failed"


# --- back again


async def test_undoing_brings_them_back_whole_and_they_stay(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = memory.user("ada")
        ids = await lived(user, DEPLOY, 7)
        before = [await user.episodes.get(one) for one in ids]
        await memory.compact(episodes=True)
        (summary,) = await of_episodes(user)
        receipts = await user.undo_compaction(summary.memory_id)
        assert {(r.operation, r.indexed) for r in receipts} == {("restore", True)}
        assert [r.memory_id for r in receipts] == ids
        assert [await user.episodes.get(one) for one in ids] == before
        hits = await user.retrieve("that was run 3 of it", top_k=7)
        assert {hit.memory_id for hit in hits} == set(ids)
        for gone in (user.get, user.undo_compaction):
            with pytest.raises(NotFoundError):
                await gone(summary.memory_id)
        assert (await memory.compact(episodes=True)).memories_considered == 0
        with pytest.raises(InvalidInputError, match="its originals live"):
            await user.restore([summary.memory_id])
        assert (await memory.compaction_stats()).originals == 0


async def test_a_summary_is_deleted_restored_and_not_reworded(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user, summary = await one_summary(memory)
        with pytest.raises(InvalidInputError, match="not reworded"):
            await user.update(summary.memory_id, content="other words")
        with pytest.raises(InvalidInputError, match="finished"):
            await user.episodes.step(summary.memory_id, "one more")
        with pytest.raises(InvalidInputError, match="put_summary"):
            await user.episodes.put(await user.episodes.get(summary.memory_id))
        await user.update(summary.memory_id, metadata={"k": 1})
        await user.delete(summary.memory_id)
        assert (await memory.compaction_stats()).summaries == 0
        await user.restore([summary.memory_id])
        back = await user.get(summary.memory_id)
        assert (back.content, back.data, back.metadata) == (summary.content, summary.data, {"k": 1})
        assert back.created_at == summary.created_at
        assert len(await user.expand(summary.memory_id)) == 7


async def test_what_retention_drops_is_gone_and_said_to_be(
    open_memory: Any, clock: FakeClock
) -> None:
    settings = {"archive_retention_days": 30, "tiers": pro(Limits(episodes=8))}
    async with open_memory(summarizer=SHORT, compaction_episodes=True, **settings) as memory:
        user = memory.user("ada")
        await lived(user, FLIGHT, 2)
        ids = await lived(user, DEPLOY, 7)
        await memory.compact()
        (summary,) = await of_episodes(user)
        assert len(await user.expand(summary.memory_id)) == 7
        after = await contents(user)
        clock.move(31 * DAY_S)
        await memory.compact()
        assert (await memory.verify()).ok
        assert await memory.check_replay() == []
        assert await contents(user) == after
        with pytest.raises(NotFoundError, match=r"7 of 7 .* Retention dropped them"):
            await user.expand(summary.memory_id)
        with pytest.raises(NotFoundError, match="retention dropped"):
            await user.undo_compaction(summary.memory_id)
        with pytest.raises(NotFoundError, match="retention dropped"):
            await user.restore([ids[0]])
        started, step, *_ = await user.history(ids[6])
        assert started.data["evicted_ids"] == ("bot-book0",), "that is about another episode"
        assert "dropped_since" in step.data
        again = await user.episodes.start("other", agent_id="bot", memory_id=ids[0])
        assert again.operation == "unchanged"
    async with open_memory() as memory:
        assert await contents(memory.user("ada")) == after
        assert await memory.check_replay() == []
        await memory.user("ada").restore(["bot-book0"])


# --- to a file and back


async def test_a_summary_is_exported_and_imported_as_one(open_memory: Any, tmp_path: Any) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    async with open_memory(summarizer=SHORT, compaction_episodes=True) as memory:
        user = memory.user("ada")
        await user.add_many(some(LOGIN, 6))
        await lived(user, DEPLOY, 7, failed=True)
        await lived(user, "sweep the yard", 1)
        await memory.compact()
        await export_jsonl(user, first)
        bob = memory.user("bob")
        assert (await import_jsonl(bob, first)).added == 3
        assert (await import_jsonl(bob, first)).unchanged == 3
        await export_jsonl(bob, second)
        assert second.read_bytes() == first.read_bytes()
        ((theirs,), (mine,)) = await of_episodes(user), await of_episodes(bob)
        assert (mine.data, mine.content) == (theirs.data, theirs.content)
        assert mine.data["status"] == "failed"
        for call in (bob.expand, bob.undo_compaction):
            with pytest.raises(NotFoundError):
                await call(mine.memory_id)
        assert (await memory.compaction_stats("bob")).originals == 13
        assert (await memory.compact()).compressed == 0
