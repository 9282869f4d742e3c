"""Settings that are not what they must be: refused before anything is opened."""

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors import (
    GlobalLimits,
    InvalidInputError,
    Limits,
    MemorySystem,
    Plan,
    Prices,
    Redaction,
    RetentionRule,
    Settings,
    Tier,
)
from memory_actors.api.settings_check import check

pytestmark = pytest.mark.anyio

WRONG: list[tuple[str, Any]] = [
    ("tiers", []),
    ("tiers", {"gold": Plan()}),
    ("tiers", {Tier.FREE: Limits()}),
    ("tiers", {Tier.FREE: Plan(limits=Limits(long_term_memories=-1))}),
    ("tiers", {Tier.FREE: Plan(price_usd=-1.0)}),
    ("ttl_s", {"long_term": 0}),
    ("ttl_s", {"facts": 60}),
    ("retention", (RetentionRule(days=0),)),
    ("retention", (RetentionRule(days=1), RetentionRule(days=1, memory_type="facts"))),
    ("retention", RetentionRule(days=1)),
    ("retention", (RetentionRule(days=1, source="x" * 513),)),
    ("retention", [{"days": 1}]),
    ("default_tier", "gold"),
    ("default_tier", None),
    ("global_limits", None),
    ("global_limits", GlobalLimits(entities=-1)),
    ("exclusive_relations", "works_at"),
    ("prices", {}),
    ("prices", Prices(vectors_per_gib=nan)),
    ("context_soft_tokens", 0),
    ("context_hard_tokens", 2_000.0),
    ("token_counter", None),
    ("live_bytes_max", "a"),
    ("live_bytes_max", -1),
    ("memory_soft_bytes", -1),
    ("memory_hard_bytes", 0),
    ("idle_s", "x"),
    ("idle_s", 10**400),
    ("on_duplicate", "merge"),
    ("review", "some"),
    ("review_days", -1),
    ("shared_writes_on_erase", "keep"),
    ("deadline_s", -1),
    ("deadline_s", 10**400),
    ("deadline_s", 0),
    ("embedder_deadline_s", nan),
    ("reranker_hits", 1),
    ("reranker_deadline_s", 0),
    ("embedding_cache_texts", 999),
    ("latency_targets_ms", None),
    ("latency_targets_ms", {"everything": 1.0}),
    ("latency_targets_ms", {"working": 0}),
    ("latency_warnings", "on"),
    ("shutdown_s", None),
    ("log_bytes_max", -5),
    ("checked_bytes_max", None),
    ("compaction_after_days", -1),
    ("compaction_after_days", inf),
    ("compaction_after_days", 10**12),
    ("compaction_after_days", {Tier.FREE: 100_001}),
    ("compaction_after_days", {"gold": 1}),
    ("compaction_after_days", {Tier.FREE: "x"}),
    ("compaction_episodes", 1),
    ("compaction_eps", 1.0),
    ("token_counter", "exact"),
    ("token_counter", 1.3),
    ("compaction_min_samples", 2.5),
    ("compaction_batch", 1),
    ("compaction_schedule", "every day"),
    ("compaction_schedule", 5),
    ("summarizer_deadline_s", 0),
    ("archive_retention_days", -1),
    ("archive_retention_days", 10**12),
    ("recall_audit", "all"),
    ("recall_audit_days", 1e9),
    ("redact", "aws"),
    ("redact", Redaction(action={"card": "drop"})),
    ("node_host", 5),
    ("node_port", 65_536),
    ("check_replay", "no"),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: f"{value!r:.40}")
async def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, name: str, value: Any) -> None:
    directory = tmp_path / "memory"
    settings = Settings(**{name: value})
    with pytest.raises(InvalidInputError, match=name if name != "compaction_schedule" else "cron"):
        async with MemorySystem.open(directory, embedder=FakeEmbedder(), settings=settings):
            pass
    assert not directory.exists()


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("context_soft_tokens", "context_hard_tokens"),
        ("memory_soft_bytes", "memory_hard_bytes"),
        ("compaction_min_samples", "compaction_batch"),
    ],
)
async def test_of_two_limits_the_lower_is_not_above_the_higher(low: str, high: str) -> None:
    check(Settings(**{low: 20, high: 20}))
    with pytest.raises(InvalidInputError, match=f"{low} is 21, more than {high}"):
        check(Settings(**{low: 21, high: 20}))


async def test_every_setting_has_a_wrong_value_here() -> None:
    assert set(Settings.__struct_fields__) == {name for name, _ in WRONG}


async def test_the_defaults_and_what_means_never_are_accepted() -> None:
    check(Settings())
    check(Settings(idle_s=inf, deadline_s=inf, memory_soft_bytes=None, archive_retention_days=0))
    check(Settings(default_tier=Tier.FREE, compaction_after_days={Tier.FREE: 7}, tiers={}))
