"""Limits of a request, its answer when it fails, and the lines that are logged of it."""

import asyncio
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import structlog

from eventlog import CorruptLog, DiskFull, LogClosed
from memory_actors import (
    CommandCrashedError,
    DeadlineExceededError,
    EmbedderError,
    InvalidInputError,
    Limits,
    MemoryLimitError,
    NotFoundError,
    Plan,
    QuarantinedError,
    QuotaExceededError,
    Settings,
    StorageFullError,
    SystemClosedError,
    Tier,
    UnavailableError,
)
from memory_actors.api.user import UserMemory
from memory_actors.server.access import STREAMS_MAX
from tests.memory_actors.server.helpers import (
    ALICE,
    BOB,
    SECRET,
    Service,
    problem,
    serving,
    until,
)

MIB = 1024 * 1024
MEMORIES = f"/v1/users/{ALICE}/memories"


# --- the size of a body


def body_of(size_bytes: int) -> bytes:
    whole = b'{"content": "User enjoys skiing"'
    return whole + b" " * (size_bytes - len(whole) - 1) + b"}"


def chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_may_have_1_mib_and_no_byte_more(service: Service, chunked) -> None:
    def ask(size_bytes: int) -> Any:
        body = body_of(size_bytes)
        return service("POST", MEMORIES, service.alice, content=chunks(body) if chunked else body)

    assert ask(MIB).status_code == 201
    problem(ask(MIB + 1), 413, "content-too-large")
    assert service("GET", "/health").status_code == 200


def test_a_length_that_is_a_lie_is_not_believed(service: Service) -> None:
    for length in ("9999999999999", "-1", "x", str(MIB + 1)):
        answer = raw(service, "POST", MEMORIES, service.alice, f"Content-Length: {length}", b"{}")
        assert answer[:12] in (b"HTTP/1.1 413", b"HTTP/1.1 400"), answer


def test_a_long_body_without_a_key_is_not_read(service: Service) -> None:
    lines = f"Content-Length: {100 * MIB}"
    assert raw(service, "POST", MEMORIES, "ma_wrong", lines, b"{").startswith(b"HTTP/1.1 401")


def raw(service: Service, method: str, path: str, key: str, lines: str, body: bytes) -> bytes:
    """Send a request as it stands; return the answer."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n{lines}\r\n\r\n"
        )
        line.sendall(head.encode() + body)
        with line.makefile("rb") as answer:  # head and body may come apart
            told = b"".join(iter(answer.readline, b"\r\n"))
            length = re.search(rb"content-length: (\d+)", told, re.IGNORECASE)
            return told + answer.read(int(length[1]) if length else 0)


def test_a_body_that_does_not_arrive_gives_its_place_up(tmp_path: Path) -> None:
    with serving(tmp_path, body_deadline_s=0.2) as service:
        answer = raw(service, "POST", MEMORIES, service.alice, "Content-Length: 10", b"{")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"request-timeout" in answer


def test_what_is_no_http_is_refused(service: Service) -> None:
    host, port = service.url.removeprefix("http://").split(":")
    for junk in (b"\x00\x01\x02\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", b"G" * 100_000):
        with socket.create_connection((host, int(port)), timeout=10) as line:
            line.sendall(junk)
            assert line.recv(4096).startswith(b"HTTP/1.1 400")
    assert service("GET", "/health").status_code == 200


# --- how many at a time


def test_one_request_too_many_is_told_to_come_again(tmp_path: Path) -> None:
    gate = threading.Event()

    class Slow(UserMemory):
        def __init__(self) -> None: ...

        def watch_erasures(self, _forget: Any) -> None: ...

        def user(self, _user_id: str, **_: Any) -> "Slow":
            return self

        async def usage(self) -> Any:
            while not gate.is_set():
                await asyncio.sleep(0.01)
            raise NotFoundError("done")

    with serving(tmp_path, wrap=lambda _memory: Slow(), in_flight_max=2) as service:
        path = f"/v1/users/{ALICE}/usage"
        with ThreadPoolExecutor() as threads:
            held = [threads.submit(service, "GET", path, service.alice) for _ in range(2)]
            admission = service.server.config.app
            until(lambda: admission._in_work.taken == 2)
            answer = service("GET", path, service.alice)
            problem(answer, 503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            assert service("GET", "/health").status_code == 200
            gate.set()
            for one in held:
                problem(one.result(), 404, "not-found")
        problem(service("GET", path, service.alice), 404, "not-found")
        until(lambda: admission._in_work.taken == 0)


# --- quotas


def test_a_quota_error_is_told_in_the_librarys_words(tmp_path: Path) -> None:
    small = {Tier.FREE: Plan(limits=Limits(long_term_memories=2))}
    with serving(tmp_path, settings=Settings(tiers=small, default_tier=Tier.FREE)) as service:
        for content in ("one", "two"):
            service.add(ALICE, content)
        told = problem(
            service("POST", MEMORIES, service.alice, json={"content": "three"}),
            409,
            "quota-exceeded",
        )
        with pytest.raises(QuotaExceededError) as refused:
            service.add(ALICE, "three")
        assert told["detail"] == str(refused.value)
        assert {name: told[name] for name in ("kind", "used", "limit", "unit", "tier")} == {
            "kind": "long_term", "used": 2, "limit": 2, "unit": "count", "tier": "free",
        }  # fmt: skip
        pruned = {"content": "three", "auto_prune": True}
        assert service("POST", MEMORIES, service.alice, json=pruned).status_code == 201


def test_writes_are_refused_when_the_process_holds_too_much(tmp_path: Path) -> None:
    with serving(tmp_path, settings=Settings(memory_hard_bytes=1)) as service:
        answer = service("POST", MEMORIES, service.alice, json={"content": "x"})
        problem(answer, 503, "memory-limit")
        assert service("GET", MEMORIES, service.alice).status_code == 200


# --- every kind of failure


class Failing(UserMemory):
    """A memory system, and each user's memory, that fails as it is told to."""

    def __init__(self) -> None:
        self.error: Exception = RuntimeError()

    def watch_erasures(self, _forget: Any) -> None: ...

    def user(self, _user_id: str, **_: Any) -> "Failing":
        return self

    async def usage(self) -> Any:
        raise self.error


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Failing]]:
    memory = Failing()
    with serving(tmp_path_factory.mktemp("memory"), wrap=lambda _memory: memory) as service:
        yield service, memory


HIDDEN = "the diamonds are at /home/ada/memory/log.mdb"
QUOTA = QuotaExceededError("full", kind="long_term", used=1, limit=1, unit="count", tier="free")
FAILURES = [
    (InvalidInputError("say it so"), 400, "invalid-input", "say it so"),
    (NotFoundError("not here"), 404, "not-found", "not here"),
    (QUOTA, 409, "quota-exceeded", "full"),
    (MemoryLimitError(HIDDEN, used_bytes=1, limit_bytes=1), 503, "memory-limit", None),
    (StorageFullError(HIDDEN), 503, "storage-full", None),
    (EmbedderError(HIDDEN), 503, "embedder", None),
    (DeadlineExceededError(HIDDEN), 503, "unavailable", None),
    (QuarantinedError(HIDDEN), 503, "unavailable", None),
    (SystemClosedError(HIDDEN), 503, "unavailable", None),
    (UnavailableError(HIDDEN), 503, "unavailable", None),
    (LogClosed(HIDDEN), 503, "unavailable", None),
    (DiskFull(HIDDEN), 503, "unavailable", None),
    (CorruptLog(HIDDEN), 500, "internal-error", None),
    (CommandCrashedError(HIDDEN), 500, "internal-error", None),
    (KeyError(HIDDEN), 500, "internal-error", None),
    (RecursionError(HIDDEN), 500, "internal-error", None),
    (ExceptionGroup("group", [ValueError(HIDDEN)]), 500, "internal-error", None),
]


@pytest.mark.parametrize(
    ("error", "status", "name", "detail"), FAILURES, ids=[type(e[0]).__name__ for e in FAILURES]
)
def test_each_failure_is_told_as_what_the_caller_can_do(
    failing: tuple[Service, Failing], error: Exception, status: int, name: str, detail: str | None
) -> None:
    service, memory = failing
    memory.error = error
    answer = service("GET", f"/v1/users/{ALICE}/usage", service.alice)
    told = problem(answer, status, name)
    assert detail is None or told["detail"] == detail
    assert "diamonds" not in answer.text
    assert "Traceback" not in answer.text
    assert ("retry-after" in answer.headers) == (status == 503)


# --- what is logged


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    lines: list[str] = []

    def keep(_logger: Any, _method: str, event: Any) -> Any:
        lines.append(repr(event))
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    with caplog.at_level(logging.DEBUG):
        yield lines
    lines += [record.getMessage() for record in caplog.records if "http" not in record.name]


def test_neither_content_nor_keys_nor_ids_are_logged(
    service: Service, failing: tuple[Service, Failing], caplog, capfd
) -> None:
    broken, memory = failing
    memory.error = KeyError(SECRET)
    with logged(caplog) as lines:
        service("POST", MEMORIES, service.alice, json={"content": SECRET, "x": 1})
        memory_id = service.add(ALICE, SECRET)
        service("GET", f"{MEMORIES}/{memory_id}", service.alice)
        service("GET", f"{MEMORIES}/{memory_id}", service.bob)
        service("GET", f"{MEMORIES}?token={service.alice}", service.alice[:-1])
        told = broken("GET", f"/v1/users/{BOB}/usage", broken.bob).json()
    out = "\n".join([*lines, *capfd.readouterr()])
    for hidden in (SECRET, "diamonds", service.alice, broken.bob, memory_id, ALICE, f"users/{BOB}"):
        assert hidden not in out
    assert told["instance"] in out
    assert "KeyError" in out


# --- what one key holds


class Waiting(UserMemory):
    """A memory system whose `usage` waits for ever, and counts those that wait."""

    def __init__(self) -> None:
        self.waiting = 0

    def watch_erasures(self, _forget: Any) -> None: ...

    def user(self, _user_id: str, **_: Any) -> "Waiting":
        return self

    def replay(self, *_: Any, **__: Any) -> nullcontext["Waiting"]:
        return nullcontext(self)

    async def count(self, **_: Any) -> int:
        return 1

    async def usage(self) -> Any:
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.waiting -= 1


def sent(service: Service, method: str, path: str, key: str, body: bytes = b"") -> socket.socket:
    """Send a request, and return its connection without reading the answer."""
    host, port = service.url.removeprefix("http://").split(":")
    line = socket.create_connection((host, int(port)), timeout=10)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    line.sendall(head.encode() + b"\r\n" + body)
    return line


def asked(operation: str, **arguments: Any) -> bytes:
    call = {"operation": operation, "user_id": ALICE, "arguments": arguments}
    return json.dumps(call).encode()


def test_one_key_leaves_places_for_the_others(tmp_path: Path) -> None:
    """A key that has its part of the places is told to wait, and other keys get in."""
    memory = Waiting()
    with serving(tmp_path, wrap=lambda _memory: memory, in_flight_max=16) as service:
        lines = [sent(service, "POST", "/ui/call", service.alice, asked("usage")) for _ in range(4)]
        until(lambda: memory.waiting == 4)
        refused = service("POST", "/ui/call", service.alice, content=asked("count"))
        problem(refused, 429, "too-many-requests")
        assert refused.headers["retry-after"] == "1"
        others = asked("count").replace(b"alice", b"bob")
        assert service("POST", "/ui/call", service.bob, content=others).json() == {"result": 1}
        for line in lines:
            line.close()
        until(lambda: memory.waiting == 0)
        mine = service("POST", "/ui/call", service.alice, content=asked("count"))
        assert mine.json() == {"result": 1}


def test_replays_of_one_key_leave_a_place_for_the_others(tmp_path: Path) -> None:
    memory = Waiting()
    with serving(tmp_path, wrap=lambda _memory: memory) as service:
        past = asked("usage").replace(b"{", b'{"as_of": 1, ', 1)
        lines = [sent(service, "POST", "/ui/call", service.alice, past) for _ in range(4)]
        until(lambda: service.server.config.app._in_work.of_keys.total() == 4)
        theirs = past.replace(b"alice", b"bob").replace(b"usage", b"count")
        answer = service("POST", "/ui/call", service.bob, content=theirs, timeout=5)
        assert (answer.json(), memory.waiting) == ({"result": 1}, 1)
        for line in lines:
            line.close()
        until(lambda: memory.waiting == 0)


def test_a_root_key_leaves_places_for_the_others(tmp_path: Path) -> None:
    memory = Waiting()
    with serving(tmp_path, wrap=lambda _memory: memory, in_flight_max=16) as service:
        lines = [sent(service, "POST", "/ui/call", service.root, asked("usage")) for _ in range(14)]
        until(lambda: memory.waiting == 12)
        mine = service("POST", "/ui/call", service.alice, content=asked("count"))
        assert mine.json() == {"result": 1}
        for line in lines:
            line.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_work_ends_when_its_client_hangs_up(tmp_path: Path, method: str) -> None:
    memory = Waiting()
    with serving(tmp_path, wrap=lambda _memory: memory) as service:
        path = f"/v1/users/{ALICE}/usage" if method == "GET" else "/ui/call"
        line = sent(
            service, method, path, service.alice, b"" if method == "GET" else asked("usage")
        )
        until(lambda: memory.waiting == 1)
        line.close()
        until(lambda: memory.waiting == 0)
        admission = service.server.config.app
        until(lambda: admission._in_work.taken == 0)


def test_event_streams_of_one_key_leave_streams_for_the_others(service: Service) -> None:
    path = f"/v1/users/{ALICE}/events"
    lines = [sent(service, "GET", path, service.alice) for _ in range(STREAMS_MAX)]
    try:
        heads = [line.recv(12) for line in lines]
        assert 0 < heads.count(b"HTTP/1.1 200") <= STREAMS_MAX // 2
        assert heads.count(b"HTTP/1.1 429") == STREAMS_MAX - heads.count(b"HTTP/1.1 200")
        with sent(service, "GET", f"/v1/users/{BOB}/events", service.bob) as theirs:
            assert theirs.recv(12) == b"HTTP/1.1 200"
    finally:
        for line in lines:
            line.close()


def test_the_page_follows_nothing(service: Service) -> None:
    """An answer has an end, so whoever asks to follow events is refused."""
    for follow in (True, False):
        call = asked("system.events", follow=follow)
        problem(service("POST", "/ui/call", service.alice, content=call), 400, "invalid-input")
