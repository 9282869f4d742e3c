"""Checks after compaction: every memory is kept, or in one summary, word for word."""

from collections.abc import Mapping

from bench.compaction.store import COMPRESSED, all_of
from memory_actors import Memory, MemorySystem
from memory_actors.api.user import UserMemory
from memory_actors.base.reports import CompactionReport

Check = tuple[str, bool, str]
"""A check, its outcome, and the findings."""


async def checked(
    user: UserMemory, memory: MemorySystem, texts: Mapping[str, str], report: CompactionReport
) -> list[Check]:
    """Look at everything that a user holds; `texts` is what was added, by id."""
    living = await all_of(user)
    summaries = [one for one in living if one.source == COMPRESSED]
    kept = [one.memory_id for one in living if one.source != COMPRESSED]
    named = [found for one in summaries for found in one.data["compressed_from_ids"]]
    counted = sum(one.data["original_count"] for one in summaries)
    wrong = [one.memory_id for one in summaries if not await _same(user, one, texts)]
    verified = await memory.verify()
    stats = await memory.compaction_stats(user.user_id)
    lost = len(texts) - len(kept) - len(named)
    return [
        ("each memory is kept or in one summary", sorted([*kept, *named]) == sorted(texts),
         f"{len(texts):,} added, {len(kept):,} kept, {len(named):,} compressed, {lost:,} lost"),
        ("counts of summaries, report and statistics",
         counted == len(named) == report.originals == stats.originals
         and len(summaries) == report.compressed == stats.summaries,
         f"{len(summaries):,} summaries of {counted:,}, {report.failed:,} clusters failed"),
        ("expand gives back ids and texts", not wrong, f"{len(wrong):,} summaries differ"),
        ("the log verifies", verified.ok, f"{verified.events:,} events"),
    ]  # fmt: skip


async def _same(user: UserMemory, summary: Memory, texts: Mapping[str, str]) -> bool:
    originals = {one.memory_id: one.content for one in await user.expand(summary.memory_id)}
    expected = {one: texts.get(one) for one in summary.data["compressed_from_ids"]}
    return originals == expected and len(originals) == summary.data["original_count"]
