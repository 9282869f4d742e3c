"""A run gives way to others, and to nobody if it is alone."""

import asyncio
from typing import Any

import pytest

from memory_actors.compaction import run as running
from memory_actors.compaction.run import REST, REST_S_MAX, Pace

pytestmark = pytest.mark.anyio


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def rest(_self: Pace, seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(Pace, "_rest", rest)
    return slept


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(running, "perf_counter", lambda: now[0])
    return now


async def test_alone_it_does_not_rest(rests: Any, clock: Any) -> None:
    uses = [5]
    pace = Pace(lambda: uses[0], asyncio.Event())
    clock[0] = 0.01
    await pace.give_way()
    assert rests == [0]


async def test_it_rests_longer_than_it_worked_while_others_are_about(
    rests: Any, clock: Any
) -> None:
    uses = [5]
    pace = Pace(lambda: uses[0], asyncio.Event())
    clock[0], uses[0] = 0.01, 7
    await pace.give_way()
    clock[0], uses[0] = 60.01, 9
    await pace.give_way()
    clock[0] = 60.02
    await pace.give_way()
    assert rests == [pytest.approx(REST * 0.01), REST_S_MAX, 0]


async def test_who_is_to_stop_rests_no_longer(monkeypatch: pytest.MonkeyPatch, clock: Any) -> None:
    monkeypatch.setattr(running, "REST_S_MAX", 60.0)
    uses, halt = [5], asyncio.Event()
    pace = Pace(lambda: uses[0], halt)
    clock[0], uses[0] = 60.0, 7
    resting = asyncio.create_task(pace.give_way())
    await asyncio.sleep(0.02)
    assert not resting.done()
    halt.set()
    async with asyncio.timeout(5):
        await resting
