"""A call that is asked again, because its answer was lost, has the answer of the first time."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.fakes import FakeEmbedder

from memory_actors import Conversation, Extraction, Item, MemorySystem, Receipt
from memory_actors.base.on import On
from memory_actors.sharing import frames, owning
from memory_actors.sharing.address import reachable, read_address
from memory_actors.sharing.frames import FrameLink
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.invocations import _asked
from memory_actors.sharing.values import packed

pytestmark = pytest.mark.anyio
ADA = On("ada", session_id="session")


def ask(store: Path, call: frames.Call, client: str = "client") -> Any:
    """Ask the owner of a store, over a connection of its own."""
    address = read_address(store)
    assert address is not None
    hello = frames.Hello(frames.PROTOCOL, address.secret, client, 1, {}, keeps=True)
    return DECLARED[call.operation].decoded(_asked(store, address, hello, call))


def call(number: int, name: str, *args: Any, on: On = ADA, **kwargs: Any) -> frames.Call:
    """Return a call as a client sends it."""
    said = packed([list(args), kwargs], _no_functions)
    return frames.Call(number, name, on, said)


def _no_functions(_: Any) -> int:
    raise AssertionError


def same(answer: Any) -> Any:
    """Return an answer without what may differ."""
    if isinstance(answer, list):
        return [same(one) for one in answer]
    if isinstance(answer, Extraction):
        return answer
    return msgspec.structs.replace(answer, latency_ms=0.0)


def facts(conversation: Conversation) -> list[str]:
    return [f"Fact: {one.text}" for one in conversation.messages]


TWICE = Item(content="the same")
CALLS: dict[str, Callable[[], frames.Call]] = {
    "add": lambda: call(1, "add", "likes tea"),
    "add_many": lambda: call(1, "add_many", [Item(content=f"fact {n}") for n in range(3)]),
    "add_many, some of them there": lambda: call(
        1, "add_many", [Item(content="known"), TWICE, TWICE, Item(content="own", memory_id="own")],
        on=On("ada"), on_duplicate="skip",
    ),
    "add, working": lambda: call(1, "add", "tea", "working"),
    "add, context": lambda: call(1, "add", "likes tea", "context", key="Drinks"),
    "working.set": lambda: call(1, "working.set", "key", {"a": 1}),
    "short_term.add_message": lambda: call(1, "short_term.add_message", "hello"),
    "entities.add_entity": lambda: call(1, "entities.add_entity", "Ben", "person", ["is tall"]),
    "entities.relate": lambda: call(1, "entities.relate", "Ada", "knows", "Tom"),
    "episodes.start": lambda: call(1, "episodes.start", "find tea"),
    "documents.put": lambda: call(1, "documents.put", "papers", {"a": 1}),
    "extract": lambda: call(1, "extract"),
    "delete": lambda: call(1, "delete", "known id"),
    "context.create": lambda: call(1, "context.create", "NOTES.md"),
    "context.add": lambda: call(1, "context.add", "Drinks", "likes tea"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_that_is_asked_again_has_the_answer_of_the_first_time(
    tmp_path: Path, name: str
) -> None:
    parts: Any = {"embedder": FakeEmbedder(), "extractor": facts}
    async with MemorySystem.open(tmp_path / "store", **parts) as memory:
        user = memory.user("ada")
        await user.add("known", memory_id="known id")
        for n in range(25):  # two batches
            await user.short_term.add_message(f"message {n}", session_id="session", role="user")
        for one in ("Ada", "Tom"):
            await user.entities.add_entity(one, "person")
        asked = CALLS[name]()
        first = await asyncio.to_thread(ask, tmp_path / "store", asked)
        events = [entry async for entry in memory.events()]
        again = msgspec.structs.replace(asked, after=0)
        second = await asyncio.to_thread(ask, tmp_path / "store", again)

        assert same(second) == same(first)
        assert [entry async for entry in memory.events()] == events
        for receipt in first if isinstance(first, list) else [first]:
            if isinstance(receipt, Receipt):
                assert await user.history(receipt.memory_id)


def ask_again_at_once(store: Path, asked: frames.Call) -> Any:
    """Cancel a call and ask it again before the owner has ended it."""
    address = read_address(store)
    assert address is not None
    hello = frames.Hello(frames.PROTOCOL, address.secret, "client", 1, {}, keeps=True)
    again = msgspec.structs.replace(asked, after=0)
    with reachable(store, address) as (found, where), found:
        found.settimeout(10)
        found.connect(where)
        said = [hello, asked, frames.Cancel(asked.number), again]
        found.sendall(b"".join(frames.framed(one) for one in said))
        read = frames.Frames(frames.FRAME_BYTES_MAX)
        while data := found.recv(1 << 16):
            for message in read.fed(data):
                if isinstance(message, frames.Answered):
                    return DECLARED[asked.operation].decoded(message.value)
    raise AssertionError("the owner has ended the connection")


async def test_a_call_that_is_asked_again_before_it_has_ended_is_answered(tmp_path: Path) -> None:
    """As a node asks one that another has left and come back to."""
    async with MemorySystem.open(tmp_path / "store", embedder=FakeEmbedder()) as memory:
        await memory.user("ada").add("known")
        asked = call(1, "add", "likes tea")
        receipt = await asyncio.to_thread(ask_again_at_once, tmp_path / "store", asked)
        assert (await memory.user("ada").get(receipt.memory_id)).content == "likes tea"
        assert await memory.user("ada").count() == 2


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the sockets in /proc")
async def test_a_client_that_reads_nothing_keeps_no_socket_of_a_closed_owner(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    async with MemorySystem.open(store, embedder=FakeEmbedder()) as memory:
        await memory.user("ada").add_many([Item(content=f"{n} " * 5_000) for n in range(100)])
        address = read_address(store)
        assert address is not None
        hello = frames.Hello(frames.PROTOCOL, address.secret, "client", 1, {}, keeps=True)
        asked = call(1, "list_memories", on=On("ada"))
        with reachable(store, address) as (found, where):
            found.connect(where)
            found.sendall(frames.framed(hello) + frames.framed(asked))
            await asyncio.sleep(0.5)  # the answer is larger than all buffers
    with found:
        left = [one for one in _sockets() if "owner.sock" in one]
    assert left == []


async def test_a_client_hears_of_the_end_before_a_call_is_refused(tmp_path: Path) -> None:
    """Otherwise it would take the refusal for an answer, and not ask the next owner."""
    store, heard = tmp_path / "store", list[frames.Said]()
    memory = await MemorySystem.open(store, embedder=FakeEmbedder())
    address = read_address(store)
    assert address is not None
    _, link = await asyncio.get_running_loop().create_unix_connection(
        lambda: FrameLink(lambda _, said: heard.append(said), lambda *_: None, 1 << 20),
        str(store / "owner.sock"),
    )
    link.send(frames.Hello(frames.PROTOCOL, address.secret, "client", 1, {}, keeps=True))
    while not heard:  # the welcome
        await asyncio.sleep(0)
    server, _ = owning._owned[memory]
    (peer,) = server._peers
    link.send(call(1, "add", "likes tea"))
    while not peer._tasks:
        await asyncio.sleep(0)
    await server.close()  # before the call begins
    await memory.close()
    assert [type(one) for one in heard[1:]] == [frames.Closing, frames.CallFailed]


def _sockets() -> list[str]:
    """Return the lines of this process's sockets that have a path."""
    own = {path.readlink().name for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    inodes = {name.removeprefix("socket:[").removesuffix("]") for name in own}
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[6] in inodes]
