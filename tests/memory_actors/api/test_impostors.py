"""Pipes and links in the place of files, impossible names and clocks: a typed error, no wait."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bench.faults import example
from bench.faults.impostors import put
from eventlog import ClockOutOfRange, EventLogError, LogUnavailable, to_datetime
from memory_actors import InvalidInputError, MemoryActorsError, MemorySystem, copy_store
from memory_actors.interchange import import_jsonl, open_file

pytestmark = pytest.mark.anyio


NAMES = {"a zero byte": "a\0b", "5,000 characters": "n" * 5000, "no Unicode": "\ud800"}


@pytest.mark.no_node
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_an_impossible_file_name_is_a_typed_error(
    open_memory: Any, tmp_path: Path, name: str
) -> None:
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")
        await memory.backup(tmp_path / "backup")
        for call in (
            lambda: memory.backup(name),
            lambda: import_jsonl(memory.user("ada"), name),
        ):
            with pytest.raises((EventLogError, MemoryActorsError)):
                await call()
        for places in ((name, tmp_path / "new"), (tmp_path / "backup", name)):
            with pytest.raises((EventLogError, MemoryActorsError)):
                copy_store(*places)
    for options in ({}, {"encrypt": name}):
        with pytest.raises(EventLogError):
            async with MemorySystem.open(tmp_path / "x" if options else name, **options):
                pass


async def test_a_file_with_an_unreadable_end_is_named(
    open_memory: Any,
) -> None:
    """A file that cannot be read to its end is refused by its name.

    The first page of a process's memory is not there: an error like that of a broken disk.
    """
    async with open_memory() as memory:
        with pytest.raises(InvalidInputError, match=r"/proc/self/mem cannot be read: Input/output"):
            await import_jsonl(memory.user("ada"), "/proc/self/mem")
    with open_file(Path("/proc/self/mem")) as file, pytest.raises(InvalidInputError):
        file.read()


@pytest.mark.parametrize("now_us", [300_000_000_000_000_000, -70_000_000_000_000_000, 10**30])
async def test_a_clock_beyond_all_dates_is_refused(tmp_path: Path, now_us: int) -> None:
    """A clock that says what no date can say is refused, and nothing is written."""
    clock, path = example.Clock(), tmp_path / "memory"
    async with example.opened(path, clock=clock) as memory:
        user = memory.user("ada", session_id="s")
        await user.add("before")
        clock.now_us = now_us
        for call in (
            lambda: user.add("at no time"),
            lambda: user.working.set("key", 1),
            lambda: user.short_term.add_message("at no time"),
            lambda: memory.backup(tmp_path / "backup"),
            memory.usage,
        ):
            with pytest.raises(ClockOutOfRange, match="set it right"):
                await asyncio.wait_for(call(), 5)
        clock.now_us = example.NOW_US
        assert [each.content for each in await user.list_memories()] == ["before"]
    with pytest.raises(ClockOutOfRange):
        async with example.opened(path, clock=example.Clock(now_us)):
            pass


def test_times_beyond_all_dates_read_as_the_nearest_date() -> None:
    """Times that no date can say read as the first and the last that can.

    Of events that an earlier version has written under such a clock.
    """
    assert to_datetime(2**63 - 1).year == 9999
    assert to_datetime(-(2**63)).year == 1


def test_a_store_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    put("loop", tmp_path / "memory")

    async def opening() -> None:
        async with MemorySystem.open(tmp_path / "memory"):
            pass

    with pytest.raises(LogUnavailable):
        asyncio.run(opening())
