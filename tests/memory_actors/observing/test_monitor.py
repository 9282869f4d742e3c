"""The memory of the process, read from a fake; once from the real one."""

import asyncio
import mmap
from typing import Any

import pytest
from structlog.testing import capture_logs

from memory_actors import InvalidInputError, MemoryActorsError, MemoryLimitError, MemoryMonitor
from memory_actors.base.quota import MIB
from memory_actors.observing.monitor import resident_bytes


class Process:
    """Memory and time that a test sets. Each reading is counted."""

    def __init__(self) -> None:
        self.used = 0
        self.now_s = 0.0
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        return self.used

    def monitor(self, soft: int | None, hard: int | None, **more: Any) -> MemoryMonitor:
        return MemoryMonitor(soft, hard, read=self.read, clock=lambda: self.now_s, **more)


@pytest.fixture
def process() -> Process:
    return Process()


def use(process: Process, monitor: MemoryMonitor, *amounts: int) -> list[str]:
    """Hold these amounts in turn; return what was logged."""
    with capture_logs() as logs:
        for used in amounts:
            process.used = used
            process.now_s += 1
            monitor.sample()
    return [log["event"] for log in logs]


def test_nothing_is_admitted_over_the_hard_limit(
    process: Process,
) -> None:
    monitor = process.monitor(None, 100 * MIB)
    process.used = 100 * MIB
    monitor.admit()
    process.used = 1_200 * MIB
    process.now_s = 1
    with pytest.raises(MemoryLimitError) as raised:
        monitor.admit()
    assert isinstance(raised.value, MemoryError)
    assert isinstance(raised.value, MemoryActorsError)
    assert (raised.value.used_bytes, raised.value.limit_bytes) == (1_200 * MIB, 100 * MIB)
    assert "holds 1,200.0 MiB" in str(raised.value)
    assert "limit: 100.0 MiB" in str(raised.value)
    assert "raise the hard limit" in str(raised.value)
    process.used = 0
    process.now_s = 2
    monitor.admit()


def test_the_soft_limit_warns_and_makes_room_once_a_crossing(process: Process) -> None:
    calls: list[int] = []
    monitor = process.monitor(100, None, on_soft=lambda: calls.append(process.used))
    warning = ["memory at its soft limit"]
    assert use(process, monitor, 50, 99) == []
    assert use(process, monitor, 100, 120, 99, 100) == warning
    assert use(process, monitor, 96, 101) == [], "it did not fall by 5 points"
    assert use(process, monitor, 95, 100) == warning
    assert calls == [100, 100]


@pytest.mark.parametrize(
    ("used", "level"), [(0, "ok"), (99, "ok"), (100, "soft"), (200, "soft"), (201, "hard")]
)
def test_statistics_name_the_level(process: Process, used: int, level: str) -> None:
    monitor = process.monitor(100, 200)
    use(process, monitor, used)
    statistics = monitor.statistics()
    assert (statistics.current_bytes, statistics.peak_bytes) == (used, used)
    assert (statistics.soft_limit_bytes, statistics.hard_limit_bytes) == (100, 200)
    assert statistics.level == level


@pytest.mark.parametrize(
    ("soft", "hard", "interval_s"),
    [(0, None, 1), (None, 0, 1), (-1, 5, 1), (6, 5, 1), (None, None, 0)],
)
def test_bad_limits_are_refused(soft: int | None, hard: int | None, interval_s: float) -> None:
    with pytest.raises(InvalidInputError):
        MemoryMonitor(soft, hard, interval_s=interval_s)


@pytest.mark.anyio
async def test_watch_samples_until_it_is_cancelled() -> None:
    seen: list[int] = []
    enough = asyncio.Event()

    def read() -> int:
        seen.append(1)
        if len(seen) == 3:
            enough.set()
        return 1

    task = asyncio.create_task(MemoryMonitor(None, None, interval_s=0.001, read=read).watch())
    await asyncio.wait_for(enough.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_real_process_is_seen_to_grow() -> None:
    monitor = MemoryMonitor(None, 1, interval_s=1e-9)
    before = monitor.current_bytes
    # Pages of their own: an allocator may give memory that is resident already.
    with mmap.mmap(-1, 64 * MIB) as held:
        held.write(b"x" * (64 * MIB))
        assert monitor.current_bytes > before + 32 * MIB
        assert resident_bytes() > len(held) // 2
    assert monitor.statistics().peak_bytes > before + 32 * MIB
    with pytest.raises(MemoryLimitError):
        monitor.admit()
