"""Latency targets: a call that takes longer is counted, and now and then told of."""

import asyncio
import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from support.fakes import FakeEmbedder

from memory_actors import Item, MemorySystem, PrometheusMetrics, Settings
from memory_actors.observing import metrics
from memory_actors.observing.metrics import SAY_AGAIN_S, LatencyWatch

TARGETS_MS = {"working": 1.0, "short_term": 10.0, "long_term": 100.0}
ALWAYS_MS = {"working": 0.001, "short_term": 0.002, "long_term": 0.003}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SAY_LATER_S", 0)


async def said() -> None:
    """Wait until what is said behind the calls is said."""
    await asyncio.sleep(0.01)


@pytest.mark.anyio
async def test_a_call_over_its_target_is_told() -> None:
    """A call that takes longer than its target is told of in these words."""
    watch = LatencyWatch(TARGETS_MS)
    with capture_logs() as logs:
        watch.note("AddMemories", ["long_term"], 0.1)
        watch.note("AddMemories", ["long_term"], 0.1523)
        watch.note("SetKey", ["working"], 0.0012)
        watch.note("AddEntry", ["context"], 9.0)
        assert logs == []
        await said()
    assert [(log["event"], log["log_level"]) for log in logs] == [
        ("Latency violation: long_term took 152 ms (target: 100 ms)", "warning"),
        ("Latency violation: working took 1.2 ms (target: 1 ms)", "warning"),
    ]
    assert watch.violations == {"long_term": 1, "working": 1}


@pytest.mark.anyio
async def test_violations_are_counted_and_told_once_a_minute() -> None:
    watch = LatencyWatch(TARGETS_MS, clock := Clock())
    with capture_logs() as logs:
        for _ in range(5):
            watch.note("AddMemories", ["long_term"], 0.2)
        watch.note("SetKey", ["working"], 0.2)
        clock.now_s = SAY_AGAIN_S
        watch.note("AddMemories", ["long_term"], 0.3)
        await said()
    assert [(log["event"].split()[2], log["violations"]) for log in logs] == [
        ("long_term", 1), ("working", 1), ("long_term", 5),
    ]  # fmt: skip
    assert watch.violations == {"long_term": 6, "working": 1}


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
            await said()
        counted = memory.statistics().latency_violations
        assert counted == {"working": 3, "short_term": 2, "long_term": 3}
        assert sum(log["event"].startswith("Latency violation: ") for log in logs) == 3
        for kind, count in counted.items():
            name = "memory_actors_latency_violations_total"
            assert registry.get_sample_value(name, {"kind": kind}) == count


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
    settings = Settings(latency_targets_ms={"long_term": 200.0})
    async with MemorySystem.open(tmp_path, embedder=Loading(), settings=settings) as memory:
        memory._services.embeddings.prepared = False  # as with the default one, until it is used
        user = memory.user("ada")
        await user.add("likes tea")
        await user.add_many([Item(content=f"fact {n}") for n in range(40)])
        assert memory.statistics().latency_violations == {}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.anyio
@pytest.mark.parametrize(("warns", "lines"), [(None, 0), (True, 1), (False, 0)])
async def test_a_terminal_shows_violations_only_where_that_is_set(
    monkeypatch: pytest.MonkeyPatch, warns: bool | None, lines: int
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    watch = LatencyWatch(TARGETS_MS, warns=warns)
    with capture_logs() as logs:
        watch.note("SetKey", ["working"], 0.2)
        await said()
    assert len(logs) == lines
    assert watch.violations == {"working": 1}


@pytest.mark.anyio
async def test_reading_a_user_from_the_log_is_no_violation(open_memory: Any) -> None:
    async with open_memory(latency_targets_ms=ALWAYS_MS) as memory:
        await memory.user("ada").working.set("k", "v")
        assert memory.statistics().latency_violations == {}
        await memory.user("ada").working.set("k", "w")
        assert memory.statistics().latency_violations == {"working": 1}


FIRST_CALLS = """
import asyncio, logging, sys, time
from memory_actors import MemorySystem

async def main():
    async with MemorySystem.open(sys.argv[1]) as memory:
        user = memory.user("ada")
        for ask in (user.working.set("mood", "good"), user.add("She drinks green tea")):
            begun_s = time.perf_counter()
            await ask
            print((time.perf_counter() - begun_s) * 1e3)
        {last}

{first}
asyncio.run(main())
"""


def first_calls(tmp_path: Path, first: str = "", last: str = "") -> tuple[list[str], str]:
    code = FIRST_CALLS.format(first=first, last=last)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    return done.stdout.split(), done.stderr


def test_the_first_calls_of_a_process_wait_neither_for_a_model_nor_for_a_logger(
    tmp_path: Path,
) -> None:
    """The least of some processes: others may take the cores meanwhile."""
    last = "print('structlog' in sys.modules)"
    took = [first_calls(tmp_path / str(number), last=last)[0] for number in range(3)]
    assert {loaded for _, _, loaded in took} == {"False"}
    assert min(float(working_ms) for working_ms, _, _ in took) < 45
    assert min(float(added_ms) for _, added_ms, _ in took) < 100


SLOW = (
    "from memory_actors.observing import metrics\n"
    "metrics.LatencyWatch.__init__.__kwdefaults__['warns'] = True\n"
    "note = metrics.LatencyWatch.note\n"
    "metrics.LatencyWatch.note = lambda self, *a: note(self, a[0], a[1], 9.0)\n"
)
LATER = "await user.working.set('mood', 'better'); await asyncio.sleep(0.2)"


def test_violations_are_logged_by_the_standard_library_as_the_host_has_set_it_up(
    tmp_path: Path,
) -> None:
    _, said = first_calls(tmp_path / "1", SLOW, LATER)
    assert "Latency violation: working took 9,000 ms" in said
    formatted = f"{SLOW}logging.basicConfig(format='%(levelname)s of %(name)s: %(message)s')"
    _, said = first_calls(tmp_path / "2", formatted, LATER)
    assert "WARNING of memory_actors.observing.metrics: Latency violation: working" in said
    _, said = first_calls(tmp_path / "3", f"{SLOW}logging.disable()", LATER)
    assert said == ""
