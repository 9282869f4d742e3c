"""Metrics as a scrape shows them."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from memory_actors import InvalidInputError, MissingExtraError, NotFoundError, PrometheusMetrics
from memory_actors.observing.metrics import BUCKETS_S, NoMetrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry(auto_describe=True)


def test_where_nobody_measures_nothing_is_read_or_shown() -> None:
    before, reads = {metric.name for metric in REGISTRY.collect()}, list[int]()
    metrics = NoMetrics()
    end = metrics.watch(lambda: {"live_actors": reads.append(1) or 1})  # type: ignore[func-returns-value]
    metrics.observe("add", "long_term", 0.002, "ok")
    assert {metric.name for metric in REGISTRY.collect()} == before
    assert reads == []
    end()


def test_operations_are_counted_and_timed(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    metrics.observe("add", "long_term", 0.002, "ok")
    metrics.observe("add", "long_term", 20.0, "ok")
    metrics.observe("add", "long_term", 0.00005, "quota_exceeded")
    labels = {"operation": "add", "kind": "long_term"}
    total, seconds = "memory_actors_operations_total", "memory_actors_operation_seconds"
    assert registry.get_sample_value(total, {**labels, "outcome": "ok"}) == 2
    assert registry.get_sample_value(total, {**labels, "outcome": "quota_exceeded"}) == 1
    assert registry.get_sample_value(f"{seconds}_count", labels) == 3
    assert registry.get_sample_value(f"{seconds}_bucket", {**labels, "le": "0.0001"}) == 1
    assert registry.get_sample_value(f"{seconds}_bucket", {**labels, "le": "10.0"}) == 2
    assert (BUCKETS_S[0], BUCKETS_S[-1]) == (0.0001, 10.0)


class Noted(NoMetrics):
    """Remembers which operations were measured."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def observe(self, operation: str, kind: str, seconds: float, outcome: str) -> None:
        del seconds
        self.seen.append((operation, kind, outcome))


@pytest.mark.anyio
async def test_every_write_is_measured_once_by_its_command_and_kind(open_memory: Any) -> None:
    metrics = Noted()
    async with open_memory(metrics=metrics) as memory:
        user = memory.user("ada")
        await user.set_tier("pro")
        added = await user.add("likes tea")
        await user.working.set("k", "v")
        await user.delete(added.memory_id)
        await user.restore([added.memory_id])
        entry = await user.context.add("", "an entry")
        await user.context.archive(entry.entry_ids)
        with pytest.raises(NotFoundError):
            await user.context.archive(["never"])
        await user.purge("https://nobody.example")
    assert metrics.seen == [
        ("SetTier", "account", "ok"),
        ("AddMemories", "long_term", "ok"),
        ("SetKey", "working", "ok"),
        ("DeleteMemory", "long_term", "ok"),
        ("RestoreMemories", "long_term", "ok"),
        ("AddEntry", "context", "ok"),
        ("ArchiveEntries", "context", "ok"),
        ("ArchiveEntries", "context", "NotFoundError"),
        ("Purge", "any", "ok"),
    ]


def test_statistics_are_read_at_each_scrape(registry: CollectorRegistry) -> None:
    numbers: dict[str, float | Mapping[str, float]] = {
        "live_actors": 3,
        "embeddings_computed_total": 7,
        "quota_use_ratio": {"long_term.memories": 0.5, "working.keys": 1.0},
        "mailbox_depth": {"a": 1},
        "things": {"x": 2},
    }
    calls: list[int] = []

    def statistics() -> Mapping[str, float | Mapping[str, float]]:
        calls.append(1)
        return numbers

    PrometheusMetrics(registry, "mem").watch(
        statistics, {"quota_use_ratio": "quota", "things": "kind"}
    )
    assert not calls, "registering reads nothing"
    sample = registry.get_sample_value
    assert sample("mem_live_actors") == 3
    numbers["live_actors"] = 4
    assert sample("mem_live_actors") == 4
    assert sample("mem_embeddings_computed_total") == 7
    assert sample("mem_quota_use_ratio", {"quota": "long_term.memories"}) == 0.5
    assert sample("mem_quota_use_ratio", {"quota": "working.keys"}) == 1.0
    assert sample("mem_mailbox_depth", {"name": "a"}) == 1
    assert sample("mem_things", {"kind": "x"}) == 2
    text = generate_latest(registry).decode()
    assert "# TYPE mem_live_actors gauge" in text
    assert "# TYPE mem_embeddings_computed_total counter" in text
    assert b"mem_embeddings_computed_total 7.0" in generate_openmetrics(registry)


def test_watching_ends_and_may_begin_again(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    end = metrics.watch(lambda: {"live_actors": 1})
    with pytest.raises(InvalidInputError, match="watch a system already"):
        metrics.watch(lambda: {"live_actors": 2})
    end()
    assert registry.get_sample_value("memory_actors_live_actors") is None
    metrics.watch(lambda: {"live_actors": 2})
    end()  # it ends its own, and that has ended
    assert registry.get_sample_value("memory_actors_live_actors") == 2


def test_a_missing_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"memory-actors\[metrics\]"):
        PrometheusMetrics()
    NoMetrics().observe("add", "working", 0.1, "ok")
