"""Several that open one store: the first owns it, the others are its clients."""

import asyncio
import json
import multiprocessing
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors import (
    InvalidInputError,
    Item,
    LogLocked,
    LogUnavailable,
    MemorySystem,
    NotFoundError,
    PastMemory,
    Settings,
    UnavailableError,
    UserMemory,
)
from memory_actors import sync as sync_api
from memory_actors.api.system import MemorySystem as Engine
from memory_actors.sharing import frames
from memory_actors.sharing.address import FILE, SOCKET, OpeningTurn, forget_now
from memory_actors.sharing.serving import _Peer
from memory_actors.sharing.system import open_or_join

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]


def opening(path: Path, **parts: Any) -> Any:
    return MemorySystem.open(path / "memory", **{"embedder": FakeEmbedder(), **parts})


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[Any]:
    async with opening(tmp_path) as memory:
        yield memory


@pytest.fixture
async def client(owner: Any, tmp_path: Path) -> AsyncIterator[Any]:
    async with opening(tmp_path) as memory:
        yield memory


async def test_the_second_who_opens_a_store_is_a_client(owner: Any, client: Any) -> None:
    assert isinstance(owner, Engine)
    assert not isinstance(client, Engine)
    assert isinstance(owner, MemorySystem)
    assert isinstance(client, MemorySystem)
    assert isinstance(client.user("ada"), UserMemory)
    assert isinstance(owner.user("ada"), UserMemory)
    await client.user("ada").add("likes tea")
    assert [one.content for one in await owner.user("ada").list_memories()] == ["likes tea"]


async def test_only_the_owner_of_the_directory_may_connect(owner: Any, tmp_path: Path) -> None:
    for name in (FILE, SOCKET):
        mode = (tmp_path / "memory" / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600, name


async def test_nothing_of_an_owner_is_left_when_it_has_closed(tmp_path: Path) -> None:
    async with opening(tmp_path):
        pass
    assert not (tmp_path / "memory" / FILE).exists()
    assert not (tmp_path / "memory" / SOCKET).exists()


async def test_who_wants_it_alone_is_refused_while_it_is_shared(owner: Any, tmp_path: Path) -> None:
    with pytest.raises(LogLocked, match=str(os.getpid())):
        await opening(tmp_path, share=False)


async def test_a_store_that_is_open_alone_refuses_everybody_at_once(tmp_path: Path) -> None:
    async with opening(tmp_path, share=False):
        async with asyncio.timeout(5):
            with pytest.raises(LogLocked):
                await opening(tmp_path)


async def test_other_settings_than_the_owners_are_told_at_once(owner: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="with other settings: leave"):
        await opening(tmp_path, settings=Settings(idle_s=5))
    with pytest.raises(InvalidInputError, match="another embedder"):
        await opening(tmp_path, embedder="multilingual")


@pytest.mark.parametrize("share", [True, False])
async def test_a_key_file_whose_links_lead_in_a_circle_is_refused(
    tmp_path: Path, share: bool
) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(LogUnavailable, match="symbolic links"):
        async with MemorySystem.open(tmp_path / "memory", encrypt=tmp_path / "a", share=share):
            pass


async def test_a_client_takes_over_when_the_owner_closes(tmp_path: Path) -> None:
    """Calls that were under way, and those that come, are answered by the next owner."""
    owner = await opening(tmp_path)
    first, second = await opening(tmp_path), await opening(tmp_path)
    await first.user("ada").add("likes tea")
    adding = [
        asyncio.create_task(each.user("ada").entities.add_entity(f"{n}"))
        for n, each in enumerate((first, second) * 20)
    ]
    await asyncio.sleep(0)
    await owner.close()
    receipts = await asyncio.gather(*adding)
    assert {receipt.operation for receipt in receipts} == {"add"}
    assert len(await second.user("ada").list_memories(memory_types=["entity"])) == 40
    await first.close()
    await second.user("ada").working.set("k", 1)
    assert await second.check_replay() == []
    await second.close()
    assert not (tmp_path / "memory" / SOCKET).exists()


async def test_a_replay_goes_on_after_a_takeover(tmp_path: Path) -> None:
    owner, client = await opening(tmp_path), await opening(tmp_path)
    await client.user("ada").add("likes tea")
    async with client.replay("ada") as past:
        assert isinstance(past, PastMemory)
        await client.user("ada").add("likes milk")
        await owner.close()
        assert [one.content for one in await past.list_memories()] == ["likes tea"]
    await client.close()


async def test_erasures_are_told_to_clients(owner: Any, client: Any) -> None:
    heard: list[str] = []
    client.watch_erasures(heard.append)
    await owner.user("ada").add("likes tea")
    await client.erase("ada")
    while not heard:
        await asyncio.sleep(0.01)
    assert heard == ["ada"]


async def test_events_are_followed_across_owners(tmp_path: Path) -> None:
    owner, client = await opening(tmp_path), await opening(tmp_path)
    seen: list[int] = []

    async def follow() -> None:
        async for entry in client.events(follow=True):
            seen.append(entry.position)  # noqa: PERF401 - one after the other

    following = asyncio.create_task(follow())
    await owner.user("ada").add("one")
    while not seen:
        await asyncio.sleep(0.01)
    await owner.close()
    await client.user("ada").add("two")
    while len(seen) < 2:
        await asyncio.sleep(0.01)
    following.cancel()
    assert seen == [1, 2]
    await client.close()


async def test_a_cancelled_call_is_cancelled_at_the_owner(owner: Any, client: Any) -> None:
    started = asyncio.Event()

    async def wait_for_ever() -> list[str]:
        started.set()
        await asyncio.Event().wait()
        return []

    owner.users = wait_for_ever
    task = asyncio.create_task(client.users())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while any("Session.answer" in repr(one) for one in asyncio.all_tasks()):
        await asyncio.sleep(0.01)


async def test_a_call_that_the_owner_itself_ends_is_answered(owner: Any, client: Any) -> None:
    """What it waited for was cancelled there, and not the call: nobody asks it again."""

    async def waits_for_what_is_cancelled() -> list[str]:
        awaited = asyncio.get_running_loop().create_future()
        awaited.cancel()
        return await awaited

    owner.users = waits_for_what_is_cancelled
    with pytest.raises(UnavailableError, match="read, then retry"):
        await client.users()


async def test_what_a_client_calls_may_raise_ends_the_operation(owner: Any, client: Any) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    await client.user("ada").add("likes tea")
    with pytest.raises(ZeroDivisionError):
        await client.verify(progress=fails)


async def test_a_command_gives_the_store_to_who_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    async with open_or_join(path, embedder=FakeEmbedder()) as command:
        await command.user("ada").add("likes tea")
        async with opening(tmp_path, settings=Settings(idle_s=7)) as agent:
            assert isinstance(agent, Engine), "whoever keeps it has settings of its own"
            assert len(await command.user("ada").list_memories()) == 1
            async with open_or_join(path) as other:
                assert await other.users() == ["ada"]


async def test_a_client_loads_no_engine(tmp_path: Path) -> None:
    """A client needs neither a model nor an index, and loads none."""
    code = """
import asyncio, json, sys
from memory_actors import MemorySystem, MemoryType
async def main():
    async with MemorySystem.open(sys.argv[1]) as memory:
        user = memory.user("ada")
        await user.add("likes tea", MemoryType.LONG_TERM)
        hits = await user.retrieve("tea")
    heavy = {"numpy", "lmdb", "onnxruntime", "structlog", "memory_actors.kinds"}
    print(json.dumps([[hit.content for hit in hits], sorted(heavy & set(sys.modules))]))
asyncio.run(main())
"""
    async with opening(tmp_path):
        ran = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", code, str(tmp_path / "memory")],
            capture_output=True, text=True, check=True, cwd=ROOT, timeout=60,
        )  # fmt: skip
    assert json.loads(ran.stdout) == [["likes tea"], []]


def _in_a_child(user: Any, answers: Any) -> None:
    async def work() -> list[str]:
        await user.add(f"process {os.getpid()} was here")
        with pytest.raises(NotFoundError):
            await user.get("nothing")
        return [one.content for one in await user.list_memories()]

    answers.put(asyncio.run(work()))


async def test_a_forked_child_of_the_owner_is_a_client(owner: Any) -> None:
    fork = multiprocessing.get_context("fork")
    user, answers = owner.user("ada"), fork.Queue()
    await user.add("likes tea")
    children = [
        fork.Process(target=_in_a_child, args=(user, answers), daemon=True) for _ in range(2)
    ]
    for child in children:
        child.start()
    for _ in children:
        assert "likes tea" in await asyncio.to_thread(answers.get, timeout=30)
    for child in children:
        await asyncio.to_thread(child.join, 30)
        assert child.exitcode == 0
    assert len(await user.list_memories()) == 3
    assert await owner.check_replay() == []


def _without_await(user: Any, answers: Any) -> None:
    user.add(f"process {os.getpid()} was here")
    answers.put(len(user.list_memories()))


def test_a_forked_child_of_an_owner_without_await_is_a_client(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    with sync_api.MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as memory:
        user, answers = memory.user("ada"), fork.Queue()
        user.add("likes tea")
        child = fork.Process(target=_without_await, args=(user, answers), daemon=True)
        child.start()
        assert answers.get(timeout=30) == 2
        child.join(30)
        assert child.exitcode == 0
        assert len(user.list_memories()) == 2


def _closes_at_once(memory: Any, answers: Any) -> None:
    async def work() -> None:
        await memory.close()

    asyncio.run(work())
    answers.put("closed")


async def test_a_forked_child_may_close_what_it_never_used(owner: Any) -> None:
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    child = fork.Process(target=_closes_at_once, args=(owner, answers), daemon=True)
    child.start()
    assert await asyncio.to_thread(answers.get, timeout=30) == "closed"
    await asyncio.to_thread(child.join, 30)
    await owner.user("ada").add("the parent goes on")


OWNER_THAT_FORKS = """
import asyncio, os, sys, time
from memory_actors import MemorySystem
async def main():
    async with MemorySystem.open(sys.argv[1]) as memory:
        await memory.user("ada").working.set("k", 1)
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        print(child, flush=True)
        await asyncio.sleep(30)
asyncio.run(main())
"""


async def test_the_child_of_an_owner_that_was_killed_keeps_nobody_out(tmp_path: Path) -> None:
    """A forked child holds neither the lock nor the sockets of its parent."""
    path = tmp_path / "memory"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER_THAT_FORKS, str(path)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        child = int(await asyncio.to_thread(process.stdout.readline))
        try:
            async with MemorySystem.open(path) as client:
                assert not isinstance(client, Engine)
                process.kill()
                async with asyncio.timeout(8):
                    await client.user("ada").working.set("k", 2)
                    assert await client.user("ada").working.get("k") == 2
        finally:
            os.kill(child, 9)


async def test_what_is_too_large_for_a_frame_is_refused(
    owner: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_actors.sharing.frames.VALUE_BYTES_MAX", 10_000)
    with pytest.raises(InvalidInputError, match="give less"):
        await client.user("ada").add("x" * 20_000)
    await owner.user("ada").documents.put("c", {"a": "x" * 20_000}, key="k")
    with pytest.raises(InvalidInputError, match="ask for less"):
        await client.user("ada").documents.get("k", "c")
    await client.user("ada").add("what is not too large goes on")


async def test_events_are_read_once_by_who_is_slower_than_a_takeover(tmp_path: Path) -> None:
    owner, client = await opening(tmp_path), await opening(tmp_path)
    await owner.user("ada").add_many([Item(content=f"fact {n}") for n in range(150)])
    seen: list[int] = []
    async for entry in client.events():
        if len(seen) == 5:
            await owner.close()
            await client.users()
        seen.append(entry.position)
    assert seen == list(range(1, 151))
    await client.close()


async def test_a_late_owner_removes_nothing_of_the_next_one(tmp_path: Path) -> None:
    async with opening(tmp_path):
        address = (tmp_path / "memory" / FILE).read_bytes()
        assert forget_now(tmp_path / "memory", {"the secret of an earlier one"})
        assert (tmp_path / "memory" / FILE).read_bytes() == address


async def test_an_owner_that_closes_while_another_gives_up_its_turn_leaves_no_file(
    tmp_path: Path,
) -> None:
    turn = OpeningTurn(tmp_path / "memory")
    async with opening(tmp_path):
        assert turn.taken()
        asyncio.get_running_loop().call_later(0.2, turn.ended)
    assert not (tmp_path / "memory" / FILE).exists()


async def test_much_that_waits_for_an_owner_is_sent_as_fast_as_it_reads(
    owner: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than may lie unread in a connection can wait for one."""
    user = client.user("ada")
    await user.documents.put("c", {}, key="first")
    monkeypatch.setattr("memory_actors.sharing.frames.UNREAD_BYTES_MAX", 1 << 20)
    client._caller._at.link.abort()
    await asyncio.sleep(0)
    assert client._caller._at.link is None
    document = {"a": "x" * 50_000}
    async with asyncio.timeout(20):
        await asyncio.gather(*(user.documents.put("c", document, key=f"{n}") for n in range(60)))
    assert await owner.user("ada").documents.collections() == {"c": 61}


DAMAGES = [
    {"pid": 10**30}, {"pid": -1}, {"pid": 0}, {"pid": 2**31}, {"port": 10**6}, {"port": -1},
    {"port": 0}, {"port": 80, "host": "a\0b"}, {"port": 80, "host": "x" * 300},
    {"port": 80, "host": "ü" * 80}, {"port": 1, "host": "93.184.216.34"}, {"secret": ""},
    {"since": 10**400}, {"settings": 5}, {"port": 80, "host": "::1%x"},
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
async def test_a_damaged_address_stops_nobody(tmp_path: Path, damage: dict[str, Any]) -> None:
    """Where nobody has the store, it is opened; where somebody has, that is said."""
    directory = tmp_path / "memory"
    async with opening(tmp_path):
        address = json.loads((directory / FILE).read_bytes())
    damaged = json.dumps(address | damage)
    (directory / FILE).write_text(damaged)
    async with opening(tmp_path) as memory:
        await memory.user("ada").add("likes tea")
        (directory / FILE).write_text(damaged)
        with pytest.raises((LogLocked, UnavailableError)):
            await opening(tmp_path)


async def test_a_welcome_from_an_owner_that_closes_is_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes in one piece with the welcome is not dropped: the client goes on at the next."""
    first = await opening(tmp_path)
    welcomed = _Peer._hello

    def ending(peer: _Peer, hello: frames.Hello) -> None:
        welcomed(peer, hello)
        peer.link.send(frames.Closing())

    monkeypatch.setattr(_Peer, "_hello", ending)
    joining = asyncio.create_task(opening(tmp_path)._open())
    await asyncio.sleep(0.2)
    assert not joining.done()
    monkeypatch.setattr(_Peer, "_hello", welcomed)
    memory = await asyncio.wait_for(joining, 5)
    await memory.user("ada").add("likes tea")
    await memory.close()
    await first.close()
