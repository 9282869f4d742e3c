"""Pipes and links in the place of files, impossible names and clocks: a typed error, no wait."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.faults import example
from bench.faults.impostors import put
from bench.faults.trials import Ending, in_loop
from eventlog import ClockOutOfRange, EventLogError, LogUnavailable, to_datetime
from memory_actors import InvalidInputError, MemoryActorsError, MemorySystem, Settings, copy_store
from memory_actors.base.api_keys import KeyStore
from memory_actors.interchange import import_jsonl, open_file
from memory_actors.search.indexes.files import INDEXES

pytestmark = pytest.mark.anyio

DEADLINE_S = 40.0
SETTINGS = Settings(recall_audit="hashed", deadline_s=10.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store with every sort of file in it, in a process of its own: others fork."""
    path = tmp_path_factory.mktemp("whole") / "memory"

    async def make() -> tuple[str, str]:
        async with example.opened(path, encrypt=True, settings=SETTINGS) as memory:
            await example.fill(memory, ("ada",))
            await memory.user("ada").retrieve("fact")
        KeyStore(path).create("ada")
        return "made", ""

    assert in_loop(make, DEADLINE_S).kind == "made"
    return path.parent


def used(path: Path) -> Ending:
    """Open a store and use all of its files, in a child."""

    async def use() -> tuple[str, str]:
        refused = []
        try:
            async with example.opened(
                path, first_id=9_000, encrypt=True, settings=SETTINGS
            ) as memory:
                user = memory.user("ada", session_id="s")
                calls: list[Any] = [
                    lambda: user.retrieve("fact that is known"),
                    lambda: user.history("ada old 3"),
                    lambda: user.add("It goes on."),
                    lambda: memory.recalls("ada", query="fact"),
                    lambda: asyncio.to_thread(KeyStore(path).find, "token"),
                    memory.verify,
                    lambda: memory.erase("ada"),
                ]
                for call in calls:
                    try:
                        await call()
                    except example.TYPED as error:
                        refused.append(f"{type(error).__name__}: {error}")
        except example.TYPED as error:
            refused.append(f"{type(error).__name__}: {error}")
        return "typed" if refused else "made anew", "; ".join(refused)

    return in_loop(use, DEADLINE_S)


PLACES = {
    "log.anchor": "typed",
    "derived.mdb": "typed",
    "recall.key": "typed",
    "api_keys.json": "typed",
    "../memory.keys": "typed",
    "archive/*.segment": "typed",
    f"{INDEXES}/*.words": "made anew",
}


@pytest.mark.parametrize(("place", "ends"), PLACES.items())
def test_a_pipe_keeps_nobody_waiting(whole: Path, tmp_path: Path, place: str, ends: str) -> None:
    """A pipe in the place of a file of a store keeps nobody waiting."""
    shutil.copytree(whole, tmp_path / "copy")
    path = tmp_path / "copy" / "memory"
    for file in list(path.glob(place)) if "*" in place else [path / place]:
        put("pipe", file)

    ending = used(path)

    assert ending.kind == ends, ending
    assert ends != "typed" or "a pipe and not a file" in ending.detail


@pytest.mark.parametrize("place", [INDEXES, "archive"])
def test_a_loop_of_links_is_a_typed_error(whole: Path, tmp_path: Path, place: str) -> None:
    """A loop of links in the place of a directory is a typed error."""
    shutil.copytree(whole, tmp_path / "copy")
    put("loop", tmp_path / "copy" / "memory" / place)

    assert used(tmp_path / "copy" / "memory").kind == "typed"


NAMES = {"a zero byte": "a\0b", "5,000 characters": "n" * 5000, "no Unicode": "\ud800"}


@pytest.mark.no_node
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_an_impossible_file_name_is_a_typed_error(
    open_memory: Any, tmp_path: Path, name: str
) -> None:
    """A name that no file can have is a typed error."""
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
