"""Subscriptions: the past, then live, each event once."""

import asyncio
from pathlib import Path

import anyio
import pytest
from contracts.stores import Counted, registry

from eventlog import EventLog, subscribe

pytestmark = pytest.mark.anyio


async def append(log: EventLog, stream: str, *counts: int) -> None:
    version = (await log.head(stream)).version
    await log.append(stream, [Counted(count) for count in counts], version)


async def test_a_slow_subscriber_ends_after_the_log_closed(tmp_path: Path):
    closed = asyncio.Event()

    async def follow(log: EventLog) -> list[int]:
        seen = []
        async for event in subscribe(log, batch=1):
            seen.append(event.position)
            await closed.wait()
        return seen

    async with EventLog.open(tmp_path, registry) as log:
        await append(log, "s", 1, 2)
        following = asyncio.create_task(follow(log))
        await asyncio.sleep(0.05)
    closed.set()

    with anyio.fail_after(5):
        assert await following == [1]


async def test_a_subscriber_ends_cleanly_with_appends_under_way(tmp_path: Path):
    async def follow(log: EventLog) -> list[int]:
        return [event.position async for event in subscribe(log)]

    for round_ in range(10):
        async with EventLog.open(tmp_path / str(round_), registry) as log:
            following = asyncio.create_task(follow(log))
            await asyncio.sleep(0)
            for n in range(20):
                await log.append("s", [Counted(n)], n, durability="relaxed")
        with anyio.fail_after(5):
            seen = await following
        assert seen == list(range(1, len(seen) + 1))


async def test_waiting_with_a_timeout_leaves_nothing_behind(tmp_path: Path):
    async with EventLog.open(tmp_path, registry) as log:
        for _ in range(50):
            with anyio.move_on_after(0.0001):
                await log.wait_beyond(0)

        assert len(log._intake.end._waiting) == 0
