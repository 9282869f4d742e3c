"""The times at which compaction is due, and the loop that runs it, on a clock of the tests."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import pytest
from structlog.testing import capture_logs

from eventlog import to_datetime, to_us
from memory_actors import InvalidInputError
from memory_actors.compaction.schedule import (
    LOCAL,
    LastRun,
    Scheduler,
    check_expression,
    next_run,
)

pytestmark = pytest.mark.anyio

SUNDAYS = "0 3 * * 0"
BERLIN = ZoneInfo(
    "Europe/Berlin"
)  # 2025: forward on 30 March at 02:00, back on 26 October at 03:00


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def berlin(text: str, fold: int = 0) -> datetime:
    """Return a wall time in Berlin as a moment, in UTC: only those compare across zones."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).astimezone(UTC)


def dues(expression: str, after: datetime, count: int) -> list[datetime]:
    """Return that many due times in a row."""
    found: list[datetime] = []
    for _ in range(count):
        after = next_run(expression, after, BERLIN)
        found.append(after)
    return found


# --- due times


async def test_sundays_at_three_in_local_time() -> None:
    found = next_run(SUNDAYS, utc("2025-01-01T00:00"), BERLIN)
    assert found == berlin("2025-01-05T03:00")
    assert found.utcoffset() == timedelta(0)
    assert next_run(SUNDAYS, found, BERLIN) == berlin("2025-01-12T03:00")


@pytest.mark.parametrize("forward", ["2025-03-30", "2026-03-29"])
async def test_a_time_the_clocks_skip_is_due_after(forward: str) -> None:
    day = datetime.fromisoformat(forward)
    yesterday, tomorrow = (f"{day + timedelta(days=days):%Y-%m-%d}" for days in (-1, 1))
    assert dues("30 2 * * *", berlin(f"{yesterday}T00:00"), 3) == [
        berlin(f"{yesterday}T02:30"),
        berlin(f"{forward}T03:00"),
        berlin(f"{tomorrow}T02:30"),
    ]


async def test_a_time_that_comes_twice_is_due_once() -> None:
    first, second = dues("30 2 * * *", berlin("2025-10-26T00:00"), 2)
    assert first == berlin("2025-10-26T02:30", fold=0)
    assert second == berlin("2025-10-27T02:30")


@pytest.mark.parametrize(
    "wrong",
    ["", "x", "0 3 * *", "0 3 * * 0 0", "60 3 * * 0", "0 24 * * *", "0 3 31 2 *", "@weekly", "*"],
)
async def test_a_wrong_expression_is_refused_with_an_example(wrong: str) -> None:
    with pytest.raises(InvalidInputError, match=r"'0 3 \* \* 0'"):
        check_expression(wrong)
    with pytest.raises(InvalidInputError):
        Scheduler(nothing, wrong, lambda: 0, Kept())


# --- the local zone


@pytest.fixture(params=["Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3"])
def in_berlin(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("after", ["2025-03-29T12:00", "2025-10-25T12:00", "2025-06-01T00:00"])
@pytest.mark.parametrize("expression", [SUNDAYS, "30 2 * * *", "*/20 * * * *"])
async def test_the_local_zone_has_the_rules_of_the_machine(
    in_berlin: None, after: str, expression: str
) -> None:
    moment = utc(after)
    for _ in range(6):
        expected = next_run(expression, moment, BERLIN)
        assert next_run(expression, moment, LOCAL) == expected
        moment = expected


# --- the file


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"since": 5}', b'{"since": "\xff"}'])
async def test_a_damaged_file_is_as_good_as_none_and_logged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "compaction.json"
    path.write_bytes(content)
    with capture_logs() as logs:
        assert LastRun(path).read() is None
    assert [log["log_level"] for log in logs] == ["warning"]


# --- the loop


async def nothing() -> None:
    """Run nothing."""


class Kept:
    """A store in memory: what was kept, in order."""

    def __init__(self, since: datetime | None = None):
        self.times = [] if since is None else [since]

    def read(self) -> datetime | None:
        return self.times[-1] if self.times else None

    def write(self, time: datetime) -> bool:
        self.times.append(time)
        return True


class Clock:
    """Time that passes only in sleeps and when a test says so."""

    def __init__(self, now: datetime):
        self.now_us = to_us(now)
        self.naps: list[float] = []

    def __call__(self) -> int:
        return self.now_us

    @property
    def now(self) -> datetime:
        return to_datetime(self.now_us)

    def move(self, **parts: float) -> None:
        self.now_us += timedelta(**parts) // timedelta(microseconds=1)

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.move(seconds=seconds)
        await asyncio.sleep(0)


class Runs:
    """Notes when it ran; ends the test after so many runs."""

    def __init__(self, clock: Clock, count: int, took: timedelta = timedelta(0)):
        self.began: list[datetime] = []
        self.under_way = self.most = 0
        self._clock, self._count, self._took = clock, count, took
        self.enough = asyncio.Event()

    async def __call__(self) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.began.append(self._clock.now)
        self._clock.move(seconds=self._took.total_seconds())
        await asyncio.sleep(0)
        self.under_way -= 1
        if len(self.began) == self._count:
            self.enough.set()
            await asyncio.Event().wait()


async def scheduled(
    run: Callable[[], Awaitable[Any]], clock: Clock, kept: Kept, until: asyncio.Event, **more: Any
) -> Scheduler:
    """Keep to a schedule until something happened."""
    given = {"expression": SUNDAYS, "zone": BERLIN, "chance": lambda: 0.0, **more}
    scheduler = Scheduler(run, clock=clock, last_run=kept, sleep=clock.sleep, **given)
    scheduler.start()
    with anyio.fail_after(20):
        await until.wait()
    await scheduler.close(5)
    return scheduler


async def test_it_runs_each_sunday_at_three() -> None:
    clock = Clock(berlin("2025-03-20T12:00"))
    runs = Runs(clock, 3, took=timedelta(minutes=5))
    await scheduled(runs, clock, Kept(), runs.enough)
    assert runs.began == [berlin(f"2025-{day}T03:00") for day in ("03-23", "03-30", "04-06")]
    assert max(clock.naps) == 60


async def test_many_missed_runs_are_caught_up_by_one() -> None:
    clock = Clock(berlin("2025-03-20T12:00"))
    kept, runs = Kept(berlin("2025-01-05T03:01")), Runs(clock, 2)
    await scheduled(runs, clock, kept, runs.enough)
    assert runs.began == [berlin("2025-03-20T12:00"), berlin("2025-03-23T03:00")]


async def test_a_due_run_waits_at_most_ten_minutes() -> None:
    clock, drawn = Clock(berlin("2025-03-20T12:00")), iter([0.5, 0.999, 0.0])
    runs = Runs(clock, 3)
    await scheduled(runs, clock, Kept(), runs.enough, chance=lambda: next(drawn))
    sundays = [berlin(f"2025-{day}T03:00") for day in ("03-23", "03-30", "04-06")]
    delays = [(began - due).total_seconds() for began, due in zip(runs.began, sundays, strict=True)]
    assert delays == pytest.approx([300, 599.4, 0])


async def test_runs_do_not_overlap_and_are_not_made_up() -> None:
    """One run at a time, and a run that fell due meanwhile is not made up for."""
    clock = Clock(berlin("2025-03-20T12:00"))
    runs = Runs(clock, 3, took=timedelta(minutes=150))
    await scheduled(runs, clock, Kept(), runs.enough, expression="0 * * * *")
    assert runs.most == 1
    assert runs.began == [berlin(f"2025-03-20T{hour}:00") for hour in (13, 16, 19)]


async def test_a_suspended_machine_finds_out_within_a_minute() -> None:
    clock = Clock(berlin("2025-03-23T02:00"))
    runs = Runs(clock, 1)
    suspended = False

    async def sleep(seconds: float) -> None:
        nonlocal suspended
        if not suspended:
            suspended = True
            clock.move(days=2)
        await Clock.sleep(clock, seconds)

    clock.sleep = sleep  # type: ignore[method-assign]
    await scheduled(runs, clock, Kept(), runs.enough)
    assert runs.began == [berlin("2025-03-25T02:01")]


async def test_a_last_run_in_the_future_is_a_wrong_clock() -> None:
    clock, kept = Clock(berlin("2025-03-20T12:00")), Kept(utc("2031-01-01T00:00"))
    runs = Runs(clock, 1)
    await scheduled(runs, clock, kept, runs.enough)
    assert runs.began == [berlin("2025-03-23T03:00")]


async def test_a_failed_run_is_logged_without_content() -> None:
    clock = Clock(berlin("2025-03-20T12:00"))
    runs = Runs(clock, 2)

    async def run() -> None:
        await runs()
        raise ValueError("likes tea")

    with capture_logs() as logs:
        await scheduled(run, clock, Kept(), runs.enough)
    assert len(runs.began) == 2
    assert [log["event"] for log in logs] == ["scheduled compaction failed"]
    assert "tea" not in str(logs)


async def test_a_run_cut_off_by_closing_is_caught_up() -> None:
    """A run that closing cuts off is caught up at the next start."""
    clock, before = Clock(berlin("2025-03-23T03:00")), berlin("2025-03-20T12:00")
    kept, began = Kept(before), asyncio.Event()

    async def run() -> None:
        began.set()
        await asyncio.Event().wait()

    await scheduled(run, clock, kept, began)
    assert kept.times[1:] == [clock.now, before]
    runs = Runs(clock, 1)
    clock.move(hours=5)
    await scheduled(runs, clock, kept, runs.enough)
    assert runs.began == [berlin("2025-03-23T08:00")]


async def test_a_run_that_kills_the_process_is_not_repeated() -> None:
    """A run that takes the process down is not begun at each start."""
    clock = Clock(berlin("2025-03-23T03:00"))
    kept, during = Kept(berlin("2025-03-20T12:00")), asyncio.Event()
    kept_then: list[datetime] = []

    async def run() -> None:
        kept_then.extend(kept.times)  # what a start after `kill -9` would find
        during.set()

    await scheduled(run, clock, kept, during)
    assert kept_then[-1] == berlin("2025-03-23T03:00")


async def test_a_time_that_cannot_be_kept_stops_nothing() -> None:
    class Broken(Kept):
        def write(self, time: datetime) -> None:
            raise OSError(28, "No space left on device")

    clock = Clock(berlin("2025-03-20T12:00"))
    runs = Runs(clock, 2)
    with capture_logs() as logs:
        await scheduled(runs, clock, Broken(), runs.enough)
    assert len(runs.began) == 2
    assert {log["event"] for log in logs} == {"time of the last compaction was not kept"}


async def test_closing_waits_no_longer_than_its_deadline() -> None:
    clock, began, end = Clock(berlin("2025-03-23T03:00")), asyncio.Event(), asyncio.Event()

    async def run() -> None:
        began.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await end.wait()

    scheduler = Scheduler(
        run, SUNDAYS, clock, Kept(utc("2025-01-01T00:00")), chance=lambda: 0.0, sleep=clock.sleep
    )
    scheduler.start()
    await began.wait()
    with capture_logs() as logs:
        await scheduler.close(0.01)
    assert [log["event"] for log in logs] == ["compaction under way did not end in time"]
    end.set()
