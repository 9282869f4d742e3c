"""Latency targets: a call that takes longer is counted, and now and then told of."""

import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from support.fakes import FakeEmbedder

from memory_actors import Item, MemorySystem, PrometheusMetrics, Settings
from memory_actors.observing.metrics import SAY_AGAIN_S, LatencyWatch

TARGETS_MS = {"working": 1.0, "short_term": 10.0, "long_term": 100.0}
ALWAYS_MS = {"working": 0.001, "short_term": 0.002, "long_term": 0.003}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_the_default_targets_are_1_10_and_100_ms() -> None:
    """The targets are 1, 10 and 100 ms unless the settings say otherwise."""
    assert Settings().latency_targets_ms == TARGETS_MS


def test_a_call_over_its_target_is_told() -> None:
    """A call that takes longer than its target is told of in these words."""
    watch = LatencyWatch(TARGETS_MS)
    with capture_logs() as logs:
        watch.note("AddMemories", ["long_term"], 0.1)
        watch.note("AddMemories", ["long_term"], 0.1523)
        watch.note("SetKey", ["working"], 0.0012)
        watch.note("AddEntry", ["context"], 9.0)
    assert [(log["event"], log["log_level"]) for log in logs] == [
        ("Latency violation: long_term took 152 ms (target: 100 ms)", "warning"),
        ("Latency violation: working took 1.2 ms (target: 1 ms)", "warning"),
    ]
    assert watch.violations == {"long_term": 1, "working": 1}


def test_violations_are_counted_and_told_once_a_minute() -> None:
    """All violations are counted, and one a minute and kind is told of."""
    watch = LatencyWatch(TARGETS_MS, clock := Clock())
    with capture_logs() as logs:
        for _ in range(5):
            watch.note("AddMemories", ["long_term"], 0.2)
        watch.note("SetKey", ["working"], 0.2)
        clock.now_s = SAY_AGAIN_S
        watch.note("AddMemories", ["long_term"], 0.3)
    assert [(log["event"].split()[2], log["violations"]) for log in logs] == [
        ("long_term", 1), ("working", 1), ("long_term", 5),
    ]  # fmt: skip
    assert watch.violations == {"long_term": 6, "working": 1}


def test_a_call_about_several_kinds_has_the_slowest_target() -> None:
    """A call about several kinds may take as long as the slowest of them."""
    watch = LatencyWatch(TARGETS_MS)
    watch.note("Retrieve", ["working", "entity", "short_term"], 0.009)
    assert watch.violations == {}
    watch.note("Retrieve", ["working", "entity", "short_term"], 0.011)
    assert watch.violations == {"short_term": 1}


@pytest.mark.anyio
async def test_the_settings_set_the_targets(open_memory: Any) -> None:
    """Calls of users are held to the targets in the settings."""
    registry = CollectorRegistry()
    async with open_memory(
        latency_targets_ms=ALWAYS_MS, metrics=PrometheusMetrics(registry)
    ) as memory:
        user = memory.user("ada")
        await user.set_tier("pro")
        with capture_logs() as logs:
            added = await user.add("likes coffee")
            await user.working.set("k", "v")
            await user.working.get("k")
            await user.working.items()
            await user.short_term.add_message("hello")
            await user.short_term.messages()
            await user.retrieve("tea")
            await user.get(added.memory_id)
        counted = memory.statistics().latency_violations
        assert counted == {"working": 3, "short_term": 2, "long_term": 3}
        assert sum(log["event"].startswith("Latency violation: ") for log in logs) == 3
        for kind, count in counted.items():
            name = "memory_actors_latency_violations_total"
            assert registry.get_sample_value(name, {"kind": kind}) == count


@pytest.mark.anyio
async def test_a_kind_without_a_target_is_never_late(open_memory: Any) -> None:
    """A kind without a target may take as long as it does."""
    async with open_memory(latency_targets_ms={}) as memory:
        user = memory.user("ada")
        await user.working.set("k", "v")
        await user.add("likes tea")
        assert memory.statistics().latency_violations == {}


class Loading(FakeEmbedder):
    """Takes its time to load, and to embed."""

    def prepare(self) -> None:
        time.sleep(0.3)

    def embed(self, texts: Any) -> Any:
        time.sleep(0.01 * len(texts))
        return super().embed(texts)


@pytest.mark.anyio
async def test_loading_is_no_violation_and_batches_count_calls(
    tmp_path: Path,
) -> None:
    """Loading the model is no violation, and a batch is as many calls."""
    settings = Settings(latency_targets_ms={"long_term": 200.0})
    async with MemorySystem.open(tmp_path, embedder=Loading(), settings=settings) as memory:
        memory._services.embeddings._prepared = False  # as with the default one, until it is used
        user = memory.user("ada")
        await user.add("likes tea")
        await user.add_many([Item(content=f"fact {n}") for n in range(40)])
        assert memory.statistics().latency_violations == {}
