"""Opening a system: in a block, or by await and close; and what is said where a word is missing."""

import asyncio
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors import (
    LogLocked,
    LogUnavailable,
    MemoryActorsError,
    MemorySystem,
    NotFoundError,
    NotOpenError,
    PastMemory,
    SystemClosedError,
    sync,
)
from memory_actors.sharing import address, owning

pytestmark = pytest.mark.anyio


def opening(path: Path) -> Any:
    return MemorySystem.open(path / "memory", embedder=FakeEmbedder(), alerts=[])


async def test_an_awaited_system_is_open_until_closed(tmp_path: Path) -> None:
    memory = await opening(tmp_path)
    await memory.user("ada").add("likes tea")
    with pytest.raises(LogLocked):
        await MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder(), share=False)
    await memory.close()
    with pytest.raises(SystemClosedError):
        await memory.user("ada").add("late")

    memory = await opening(tmp_path)
    assert [m.content for m in await memory.user("ada").list_memories()] == ["likes tea"]
    await asyncio.gather(memory.close(), memory.close())
    await memory.close()


async def test_a_system_may_be_closed_before_its_block_ends(tmp_path: Path) -> None:
    async with opening(tmp_path) as memory:
        await memory.close()
        async with opening(tmp_path) as again:
            assert await again.users() == []


async def test_whoever_is_cancelled_while_closing_has_closed_it(tmp_path: Path) -> None:
    memory = await opening(tmp_path)
    await memory.user("ada").add("likes tea")
    closing = asyncio.create_task(memory.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await (await opening(tmp_path)).close()


async def test_what_was_not_collected_is_not_closed(tmp_path: Path) -> None:
    """The system outlives what it was opened by."""
    import gc

    memory = await opening(tmp_path)
    gc.collect()
    await asyncio.sleep(0)
    await memory.user("ada").add("likes tea")
    await memory.close()


async def test_forgetting_async_with_names_the_fix(tmp_path: Path) -> None:
    memory = opening(tmp_path)
    fix = (
        r"`async with MemorySystem\.open\(\.\.\.\) as .*`it = await MemorySystem\.open.*close\(\)`"
    )
    with pytest.raises(NotOpenError, match=r"`\.user`.*" + fix):
        memory.user("ada")
    with pytest.raises(NotOpenError, match="`with`.*" + fix), memory:
        pass
    assert not hasattr(memory, "user")
    assert issubclass(NotOpenError, MemoryActorsError)
    assert not (tmp_path / "memory").exists(), "nothing was opened"


async def test_forgetting_async_with_of_a_replay_names_the_fix(tmp_path: Path) -> None:
    async with opening(tmp_path) as memory:
        await memory.user("ada").add("likes tea")
        with pytest.raises(NotOpenError, match=r"`async with memory\.replay\(\.\.\.\) as"):
            await memory.replay("ada").retrieve("tea")
        past: PastMemory = await memory.replay("ada")
        assert [hit.content for hit in await past.retrieve("tea")] == ["likes tea"]
        await past.close()
        await past.close()
        with pytest.raises(SystemClosedError):
            await past.retrieve("tea")
        with pytest.raises(NotFoundError):
            await memory.replay("eve")


# --- openings that are cut off


def opens(path: Path) -> None:
    async def main() -> None:
        async with opening(path) as memory:
            await memory.user("ada").add("likes tea")

    asyncio.run(main())


@pytest.mark.parametrize("share", [True, False])
def test_an_opening_that_is_cancelled_frees_the_store_where_the_loop_ends(
    tmp_path: Path, share: bool
) -> None:
    """However far it had come, the next `asyncio.run` opens the store."""
    opens(tmp_path)

    async def main(timeout_s: float) -> None:
        opened = MemorySystem.open(
            tmp_path / "memory", embedder=FakeEmbedder(), alerts=[], share=share
        )
        await (await asyncio.wait_for(opened, timeout_s)).close()

    for step in range(30):
        with suppress(TimeoutError):
            asyncio.run(main(step * 0.001))
        opens(tmp_path)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("is_cancelled", [True, False])
def test_an_opening_that_nobody_waits_for_frees_the_store_before_the_loop_has_ended(
    tmp_path: Path, share: bool, is_cancelled: bool
) -> None:
    """However far it had come: the thread that opens a file is waited for."""
    opens(tmp_path)

    async def main(wait_s: float) -> None:
        opened = MemorySystem.open(
            tmp_path / "memory", embedder=FakeEmbedder(), alerts=[], share=share
        )
        task = asyncio.create_task(opened._open())
        await asyncio.sleep(wait_s)
        if is_cancelled:
            task.cancel()

    begun_s = time.monotonic()
    opens(tmp_path)
    step_s = (time.monotonic() - begun_s) / 30
    for step in range(30):
        asyncio.run(main(step * step_s))
        opens(tmp_path)


def test_an_opening_whose_tasks_are_all_cancelled_frees_the_store(tmp_path: Path) -> None:
    """A second Ctrl-C cancels the threads' tasks, too: a thread then closes what it opened."""
    opens(tmp_path)
    for step in range(15):
        loop = asyncio.new_event_loop()
        opened = loop.create_task(opening(tmp_path)._open())
        loop.run_until_complete(asyncio.sleep(step * 0.001))
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        if not opened.cancelled():
            loop.run_until_complete(opened.result().close())
        loop.close()
        deadline_s = time.monotonic() + 5
        while True:
            try:
                opens(tmp_path)
                break
            except LogLocked:
                assert time.monotonic() < deadline_s
                time.sleep(0.01)


def test_an_opening_that_is_cancelled_as_it_begins_to_serve_closes_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listening(directory: Path) -> Any:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        return address.listening(directory)

    async def main() -> None:
        await opening(tmp_path)._open()

    opens(tmp_path)
    with monkeypatch.context() as cancelling:
        cancelling.setattr(owning, "listening", listening)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
    assert not (tmp_path / "memory" / "owner.sock").exists()
    opens(tmp_path)


# --- limits of the process


@contextmanager
def files_max(count: int) -> Iterator[None]:
    """Let this process open so many files more, and no others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("share", [True, False])
async def test_an_opening_without_files_left_says_so(tmp_path: Path, share: bool) -> None:
    await (await opening(tmp_path)).close()
    refused = said = 0
    for count in range(16):
        with files_max(count):
            try:
                memory = await MemorySystem.open(
                    tmp_path / "memory", embedder=FakeEmbedder(), share=share
                )
            except LogUnavailable as error:
                refused += 1
                said += "ulimit -n" in str(error)
            else:
                await memory.close()
    assert said == refused > 5


@pytest.mark.parametrize("count", range(4))
def test_an_opening_without_files_left_does_not_wait_for_ever(tmp_path: Path, count: int) -> None:
    """The loop of the sync API cannot be made then."""
    code = (
        "import os, resource, sys; from memory_actors.sync import MemorySystem; "
        "import memory_actors.sharing.owning; held = len(os.listdir('/proc/self/fd')) - 1; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (held + int(sys.argv[2]), 1024)); "
        "MemorySystem.open(sys.argv[1])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "memory"), str(count)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "LogUnavailable" in ran.stderr
    assert "ulimit -n" in ran.stderr


def test_an_opening_without_threads_left_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(LogUnavailable, match="ulimit -u"):
        opens(tmp_path)
    with pytest.raises(LogUnavailable, match="ulimit -u"):
        sync.MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder())


def test_a_limit_on_addresses_is_told_with_what_to_do(tmp_path: Path) -> None:
    code = (
        "import asyncio, resource, sys; from memory_actors import MemorySystem; "
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)); "
        "asyncio.run(MemorySystem.open(sys.argv[1])._open())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "memory")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "LogUnavailable" in ran.stderr
    assert "ulimit -v unlimited" in ran.stderr
