"""Subscriptions: the past, then live, each event once."""

import asyncio
import itertools
from pathlib import Path

import anyio
import msgspec
import pytest

from eventlog import Checkpoint, EventLog, EventRegistry, Recorded, subscribe

pytestmark = pytest.mark.anyio

registry = EventRegistry()


@registry.event("test.counted")
class Counted(msgspec.Struct, frozen=True):
    count: int


async def append(log: EventLog, stream: str, *counts: int) -> None:
    version = (await log.head(stream)).version
    await log.append(stream, [Counted(count) for count in counts], version)


async def take(log: EventLog, count: int, **options) -> list[Recorded[Counted]]:
    events = []
    with anyio.fail_after(10):
        async for event in subscribe(log, **options):
            events.append(event)
            if len(events) == count:
                break
    return events


async def test_relaxed_events_are_seen_when_they_are_durable(tmp_path: Path):
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("s", [Counted(1)], 0, durability="relaxed")

        (event,) = await take(log, 1)

    assert event.position == 1


async def test_a_slow_subscriber_ends_after_the_log_closed(tmp_path: Path):
    """A slow subscriber ends when the log has closed behind it."""
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
    """A subscriber ends cleanly at close, with appends still on their way."""

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


async def test_a_projection_that_restarts_counts_each_event_once(tmp_path: Path):
    """Position and result are stored together, so a crash between two events loses neither."""

    async def project(log: EventLog, crash_after: int) -> None:
        done = await log.load_checkpoint("total")
        total = int(await log.load_entry("total", b"sum") or b"0")
        handled = itertools.count(1)
        while events := await log.read_all(done, 4):
            for event in events:
                total, done = total + event.data.count, event.position
            if next(handled) > crash_after:
                return  # before it is stored: this batch is done again
            entry = {b"sum": str(total).encode()}
            await log.save_checkpoint(Checkpoint("total", done, entry))

    async with EventLog.open(tmp_path, registry) as log:
        await append(log, "s", *range(20))
        await project(log, crash_after=2)
    async with EventLog.open(tmp_path, registry) as log:
        assert await log.load_checkpoint("total") == 8
        await project(log, crash_after=100)

        assert await log.load_checkpoint("total") == 20
        assert await log.load_entry("total", b"sum") == str(sum(range(20))).encode()
