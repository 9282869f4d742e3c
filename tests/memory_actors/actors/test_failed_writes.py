"""Between a write that failed and the reopening of the file nobody can read: that passes."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.disks import let_a_commit_fail

from bench.opened import live_user, services_of
from eventlog import EventLog
from memory_actors import MemorySystem, StoreBusyError, UnavailableError, UserMemory
from memory_actors.actors.actor import Actor

pytestmark = pytest.mark.anyio

READS = {
    "get": lambda user: user.get("tea"),
    "list": lambda user: user.list_memories(),
    "retrieve": lambda user: user.retrieve("who likes tea?"),
    "versions": lambda user: user._scope.services.log.versions_about(user._scope.stream, "tea"),
    "head": lambda user: user._scope.services.log.head(user._scope.stream),
}


def log_of(memory: MemorySystem) -> EventLog:
    log = services_of(memory).log
    assert isinstance(log, EventLog)
    return log


@contextmanager
def reopening_held_up(memory: MemorySystem) -> Iterator[None]:
    """Keep a reader in the log, for whom the reopening waits."""
    reading, may_leave = threading.Event(), threading.Event()

    def read() -> None:
        with log_of(memory)._env.read():
            reading.set()
            may_leave.wait(20)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(10)
    try:
        yield
    finally:
        may_leave.set()
        reader.join(10)


async def until_it_has_failed(user: UserMemory) -> None:
    """Return when nobody can read."""
    with anyio.fail_after(10):
        while True:
            try:
                await user.get("tea")
            except UnavailableError:
                return
            await asyncio.sleep(0)


@pytest.mark.parametrize("name", READS)
async def test_a_read_beside_a_failed_write_is_unavailable(
    memory: MemorySystem, user: UserMemory, tmp_path: Path, name: str
) -> None:
    await user.add("likes tea", memory_id="tea")
    with reopening_held_up(memory):
        let_a_commit_fail(tmp_path / "memory" / "log.mdb")
        failing = asyncio.create_task(memory.user("ben").add("likes coffee", memory_id="c"))
        await until_it_has_failed(user)
        with pytest.raises(UnavailableError, match="try again"):
            await READS[name](user)
    with pytest.raises(UnavailableError):
        await failing

    await READS[name](user)
    assert [hit.content for hit in await user.retrieve("who likes tea?")] == ["likes tea"]
    await memory.user("ben").add("likes coffee")
    assert (await memory.verify()).findings == []
    assert await memory.check_replay() == []


async def test_a_user_being_reread_waits_for_failing_writes(
    memory: MemorySystem, user: UserMemory, tmp_path: Path
) -> None:
    """A user whose state is read again waits while other writes fail.

    The second failure would find the user in the middle of it, and put them in quarantine.
    """
    await user.add("likes tea", memory_id="tea")
    async with live_user(memory, "ada") as live:
        with reopening_held_up(memory):
            let_a_commit_fail(tmp_path / "memory" / "log.mdb")
            failing = asyncio.create_task(memory.user("ben").add("likes coffee"))
            await until_it_has_failed(user)
            reading = asyncio.create_task(Actor._reload(live.actor))
            await asyncio.sleep(0.2)
            assert not reading.done()
        await reading
        assert live.actor.quarantined is None
    with pytest.raises(UnavailableError):
        await failing
    await user.add("likes cake")


async def test_a_memory_is_kept_when_embeddings_cannot_be_read(
    memory: MemorySystem, tmp_path: Path
) -> None:
    """A memory is kept, and searchable, where its embedding cannot be looked up."""
    table = services_of(memory).embeddings.disk
    reading, may_leave = threading.Event(), threading.Event()

    def read() -> None:
        with table._env.read():
            reading.set()
            may_leave.wait(20)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(10)
    let_a_commit_fail(tmp_path / "memory" / "derived.mdb")
    writer = threading.Thread(target=failed_fact, args=(table,))
    writer.start()
    try:
        with anyio.fail_after(10):
            while True:
                try:
                    table.fact("x")
                except StoreBusyError:
                    break
        receipt = await memory.user("ada").add("likes tea")
    finally:
        may_leave.set()
        reader.join(10)
        writer.join(10)
    assert receipt.indexed
    assert [hit.content for hit in await memory.user("ada").retrieve("tea")] == ["likes tea"]


def failed_fact(table: Any) -> None:
    with pytest.raises(Exception, match="read, then retry"):
        table.set_facts({"x": b""})
