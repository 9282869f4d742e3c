"""A client over HTTP: ids of any kind, keys, what is not offered, and what is sent again."""

import asyncio
import gzip
import sys
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.through import HttpServer

from memory_actors import (
    AccessDeniedError,
    DeadlineExceededError,
    InvalidInputError,
    MemorySystem,
    MissingExtraError,
    NotFoundError,
    NotOfferedError,
    UnavailableError,
    sync,
)
from memory_actors.api.parts import StoreParts
from memory_actors.sharing import http
from memory_actors.sharing.owning import owned

pytestmark = pytest.mark.anyio

ODD = ("a/b", ".", "..", "search", "ü?#%2F&=+ ", "a\nb", "..%2f..", "x" * 512)
RECEIPT = (
    b'{"memory_id": "m1", "operation": "add", "memory_type": "long_term", "quota_remaining": 1,'
    b' "latency_ms": 1.0}'
)


@pytest.fixture
async def server(http_server: HttpServer, tmp_path: Path) -> AsyncIterator[HttpServer]:
    """A server over a store of its own."""
    opened = owned(tmp_path / "memory", StoreParts(embedder=FakeEmbedder()), {})
    memory = http_server.current.memory = await http_server.there.run(opened)
    yield http_server
    await http_server.there.run(memory.close())


@pytest.fixture
async def memory(server: HttpServer) -> AsyncIterator[MemorySystem]:
    async with MemorySystem.connect(server.url, key=server.key) as memory:
        yield memory


# --- what is offered, and to whom


@pytest.mark.parametrize("odd", ODD)
async def test_ids_of_any_kind_arrive_as_they_are(memory: MemorySystem, odd: str) -> None:
    user = memory.user(odd, agent_id=odd, session_id=odd)
    added = await user.add("likes tea", memory_id=odd)
    assert added.memory_id == odd
    assert (await user.get(odd)).content == "likes tea"
    assert (await user.history(odd))[0].cause["agent_id"] == odd
    assert (await user.delete(odd)).operation == "delete"
    with pytest.raises(NotFoundError):
        await user.get(odd)


async def test_old_memories_are_compacted_and_the_caller_hears_of_it(memory: MemorySystem) -> None:
    user = memory.user("ada")
    for n in range(12):
        await user.add(
            f"Morning run number {n} along the river was windy but fast and pleasant",
            occurred_at=f"2024-01-{n + 1:02}T12:00:00Z",
        )
    told: list[Any] = []
    report = await memory.compact("ada", older_than="1d", progress=told.append)
    assert (report.compressed, report.originals, report.cancelled) == (1, 12, False)
    assert report.clusters[0].user_id == "ada"
    assert all(one.user_id == "ada" for one in told)
    assert (await memory.compaction_stats()).summaries == 1
    with pytest.raises(NotFoundError, match="nobody"):
        await memory.compact("nobody")
    with pytest.raises(NotOfferedError, match=r"stop= of system\.compact"):
        await memory.compact(stop=asyncio.Event())


async def test_what_is_not_offered_is_named(memory: MemorySystem) -> None:
    user = memory.user("ada")
    calls: dict[str, Any] = {
        "restore": lambda: user.restore([]),
        "working.get": lambda: user.working.get("k"),
        "context.entries": lambda: user.context.entries(),
        "system.erase": lambda: memory.erase("ada"),
        "system.users": memory.users,
    }
    for name, call in calls.items():
        with pytest.raises(NotOfferedError, match=f"does not offer {name} over HTTP") as refused:
            await call()
        assert refused.value.operation == name
    with pytest.raises(NotOfferedError, match=r"system\.events"):
        _ = [one async for one in memory.events()]
    with pytest.raises(NotOfferedError, match=r"system\.replay"):
        await memory.replay("ada")
    for call in (memory.statistics, lambda: memory.watch_erasures(print)):
        with pytest.raises(NotOfferedError):
            call()


async def test_a_key_opens_what_it_is_for(server: HttpServer, tmp_path: Path) -> None:
    async with MemorySystem.connect(server.url, key=server.new_key("ada")) as memory:
        await memory.user("ada").add("likes tea")
        with pytest.raises(AccessDeniedError, match="another user"):
            await memory.user("bob").usage()
        with pytest.raises(AccessDeniedError, match="root key"):
            await memory.compaction_stats()
    for key in (None, "ma_wrong"):
        async with MemorySystem.connect(server.url, key=key) as memory:
            with pytest.raises(AccessDeniedError, match="key"):
                await memory.user("ada").usage()


def test_without_await_it_is_the_same(http_server: HttpServer, tmp_path: Path) -> None:
    opened = owned(tmp_path / "memory", StoreParts(embedder=FakeEmbedder()), {})
    store = http_server.current.memory = http_server.there.start(opened).result(10)
    with sync.MemorySystem.connect(http_server.url, key=http_server.key) as memory:
        user = memory.user("ada")
        user.add("likes tea")
        assert user.retrieve("tea")[0].content == "likes tea"
        with pytest.raises(NotOfferedError):
            user.working.items()
    http_server.there.start(store.close()).result(10)


# --- errors


@pytest.mark.parametrize("url", ["", "ftp://host", "memory", "http://", "http://host:port", None])
async def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(InvalidInputError, match="a server is a URL like"):
        await MemorySystem.connect(url)


@pytest.mark.parametrize("key", [5, "ma_ü", "ma\nx", b"ma"])
async def test_what_is_no_key_is_refused(key: Any) -> None:
    with pytest.raises(InvalidInputError, match="key must be an API key") as refused:
        await MemorySystem.connect("http://127.0.0.1:1", key=key)
    assert str(key) not in str(refused.value)


async def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"memory-actors\[http\]"):
        await MemorySystem.connect("http://127.0.0.1:1")


# --- what is sent again


class Scripted:
    """Answers requests over TCP by a script, and keeps what came."""

    def __init__(self, *script: bytes | None):
        self.script = list(script)
        """An answer for each request; None hangs up, b"" says nothing."""
        self.requests: list[str] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = [line for line in head.split("\r\n") if line.lower().startswith("content-le")]
            await reader.readexactly(int(length[0].split(":")[1]) if length else 0)
            self.requests.append(" ".join(head.split()[:2]))
            said = self.script.pop(0)
            if said == b"":
                await reader.read()
            elif said is not None:
                writer.write(said)
                await writer.drain()
        finally:
            writer.close()


def answer(status: int, body: bytes, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", "connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


HEALTHY = answer(200, b'{"status": "ok", "version": "0.1.0"}')
BUSY = answer(
    503,
    b'{"type": "x", "title": "Busy", "status": 503, "detail": "busy", "instance": "urn:x"}',
    "retry-after: 0",
)
DONE = answer(200, b'{"count": 7}')
ADDED = answer(201, RECEIPT)


@asynccontextmanager
async def scripted(*script: bytes | None) -> AsyncIterator[Scripted]:
    made = Scripted(HEALTHY, *script)
    listening = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    made.url = f"http://{host}:{port}"
    async with listening:
        yield made


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAUSES_S", (0.001, 0.001, 0.001))


@pytest.mark.parametrize("first", [None, BUSY])
async def test_a_read_is_sent_again(first: bytes | None) -> None:
    async with scripted(first, first, DONE) as server, MemorySystem.connect(server.url) as memory:
        assert await memory.user("ada").count() == 7
        assert server.requests[1:] == ["GET /v1/users/ada/count"] * 3


@pytest.mark.parametrize("first", [None, BUSY])
async def test_a_write_is_sent_once(first: bytes | None) -> None:
    async with scripted(first, ADDED) as server, MemorySystem.connect(server.url) as memory:
        with pytest.raises(UnavailableError):
            await memory.user("ada").add("likes tea")
        assert server.requests[1:] == ["POST /v1/users/ada/memories"]


async def test_a_write_with_an_idempotency_key_is_sent_again() -> None:
    async with scripted(None, BUSY, ADDED) as server, MemorySystem.connect(server.url) as memory:
        receipt = await memory.user("ada").add("likes tea", idempotency_key="turn-1")
        assert receipt.memory_id == "m1"
        assert len(server.requests) == 4


async def test_it_is_given_up_in_the_end() -> None:
    async with scripted(*[BUSY] * 4) as server, MemorySystem.connect(server.url) as memory:
        with pytest.raises(UnavailableError, match="busy"):
            await memory.user("ada").count()
        assert server.script == []


async def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    async with scripted(b"") as server:
        async with MemorySystem.connect(server.url, timeout_s=0.2) as memory:
            with pytest.raises(DeadlineExceededError, match="has not answered in"):
                await memory.user("ada").count()
        assert len(server.requests) == 2


async def test_a_server_that_starts_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "PAUSES_S", (0.2, 0.2, 0.2))
    made = Scripted(HEALTHY)
    listening = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    listening.close()
    await listening.wait_closed()
    connecting = asyncio.create_task(_connected(f"http://{host}:{port}"))
    await asyncio.sleep(0.05)
    async with await asyncio.start_server(made.answer, host, port):
        await (await connecting).close()


async def _connected(url: str) -> MemorySystem:
    return await MemorySystem.connect(url)


async def test_where_nobody_listens_is_said() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        await MemorySystem.connect("http://127.0.0.1:1")


async def test_an_answer_of_another_version_is_said() -> None:
    other = answer(200, b'{"number": 7}')
    async with scripted(other) as server, MemorySystem.connect(server.url) as memory:
        with pytest.raises(UnavailableError, match="another version"):
            await memory.user("ada").count()


@pytest.mark.parametrize("said", [answer(200, b"<html>"), answer(404, b"no"), answer(302, b"")])
async def test_another_server_is_none_of_ours(said: bytes) -> None:
    made = Scripted(said)
    async with await asyncio.start_server(made.answer, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        with pytest.raises(UnavailableError, match="not as a server of memory-actors does"):
            await MemorySystem.connect(f"http://{host}:{port}")


async def test_an_answer_that_unpacks_is_not_read() -> None:
    """A small compressed answer could become any number of bytes."""
    packed = gzip.compress(b'{"status": "ok"}' + b" " * 100_000_000)
    async with scripted() as server:
        server.script = [answer(200, packed, "Content-Encoding: gzip")] * 4
        tracemalloc.start()
        try:
            with pytest.raises(UnavailableError, match="compressed, which was not asked for"):
                await _connected(server.url)
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()


async def test_an_answer_without_end_is_not_read() -> None:
    long = answer(200, b'{"status": "ok"}' + b" " * 1_000_000)
    async with scripted() as server:
        server.script = [long] * 4
        with pytest.raises(UnavailableError, match="answered over 65,536 bytes"):
            await _connected(server.url)


async def test_closing_waits_for_the_request_in_hand() -> None:
    async with scripted(DONE) as server:
        memory = await MemorySystem.connect(server.url)
        counting = asyncio.create_task(memory.user("ada").count())
        await asyncio.sleep(0)
        await memory.close()
        assert await counting == 7
