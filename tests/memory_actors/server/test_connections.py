"""Connections that never become a request, or never read an answer, lock nobody out."""

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from memory_actors.server.serving import CONNECTIONS_MAX, Connections
from tests.memory_actors.server.helpers import ALICE, Service, serving, until

HALF = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: "
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
MEMORIES = f"/v1/users/{ALICE}/memories"


def connected(service: Service, address: str = "127.0.0.1") -> socket.socket:
    """Return a connection from one of the addresses of this machine."""
    host, port = service.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20, source_address=(address, 0))


@contextmanager
def half_sent(service: Service, count: int, address: str = "127.0.0.1") -> Iterator[None]:
    with ExitStack() as held:
        for _ in range(count):
            line = held.enter_context(connected(service, address))
            line.sendall(HALF)
        yield


@contextmanager
def many_files() -> Iterator[None]:
    """Both ends of each connection are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4_096:
        pytest.skip("this process may not have so many connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_1005_half_sent_requests_lock_nobody_out(tmp_path: Path) -> None:
    with many_files(), serving(tmp_path) as service, half_sent(service, 1_005):
        assert service("GET", "/health").status_code == 200
        answer = service("POST", MEMORIES, service.alice, json={"content": "likes tea"})
        assert answer.status_code == 201
        assert len(service.server.server_state.connections) <= CONNECTIONS_MAX


def test_half_sent_requests_of_many_addresses_lock_nobody_out(tmp_path: Path) -> None:
    with many_files(), serving(tmp_path) as service, ExitStack() as held:
        for n in range(2, 7):
            held.enter_context(half_sent(service, 200, f"127.0.0.{n}"))
        assert service("GET", "/health").status_code == 200
        assert service("GET", MEMORIES, service.alice).status_code == 200
        assert len(service.server.server_state.connections) <= CONNECTIONS_MAX


def test_one_address_does_not_take_the_places_of_another(tmp_path: Path) -> None:
    bounds = Connections(connections_max=20, connections_per_address_max=5)
    other_address = "127.0.0.2"
    with (
        serving(tmp_path, connections=bounds) as service,
        connected(service, other_address) as other,
    ):
        other.sendall(HALF)
        with half_sent(service, 50):
            other.sendall(b"now\r\n\r\n")
            assert other.recv(4_096).startswith(b"HTTP/1.1 200")
            connections = service.server.server_state.connections
            until(lambda: len(connections) <= 6)


def test_the_oldest_waiting_connection_makes_room(tmp_path: Path) -> None:
    bounds = Connections(connections_max=20, connections_per_address_max=3)
    with serving(tmp_path, connections=bounds) as service, connected(service) as working:
        head = f"POST {MEMORIES} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.alice}\r\n"
        body = b'{"content": "likes tea"}'
        working.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        until(lambda: service.server.config.app._in_work.taken == 1)
        with half_sent(service, 10):
            working.sendall(body)
            assert working.recv(65_536).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize(
    ("begun", "then"), [(b"", b""), (HALF, b""), (HALF, b"x")], ids=["none", "half", "slow"]
)
def test_headers_have_a_deadline_however_slowly_they_come(
    tmp_path: Path, begun: bytes, then: bytes
) -> None:
    bounds = Connections(headers_deadline_s=0.5)
    with serving(tmp_path, connections=bounds) as service, connected(service) as line:
        started_s = time.monotonic()
        line.sendall(begun)
        line.settimeout(0.05)
        answer = None
        while answer is None:
            try:
                answer = line.recv(4_096)
            except TimeoutError:
                line.sendall(then)
        assert answer.startswith(b"HTTP/1.1 408")
        assert 0.4 < time.monotonic() - started_s < 5


def test_the_second_request_of_a_connection_has_the_same_deadline(tmp_path: Path) -> None:
    bounds = Connections(headers_deadline_s=0.5)
    with serving(tmp_path, connections=bounds) as service, connected(service) as line:
        line.sendall(HEALTH)
        answer = b""
        while not answer.endswith(b"}"):
            answer += line.recv(4_096)
        started_s = time.monotonic()
        line.sendall(HALF)
        assert line.recv(4_096).startswith(b"HTTP/1.1 408")
        assert line.recv(4_096) == b""
        assert 0.4 < time.monotonic() - started_s < 4, "uvicorn's own is 5 s"


def test_a_slow_request_in_work_is_not_late(tmp_path: Path) -> None:
    """The deadline is for headers: what the request then takes is its own affair."""
    bounds = Connections(headers_deadline_s=0.3)
    with serving(tmp_path, connections=bounds) as service, connected(service) as line:
        body = b'{"content": "likes tea"}'
        head = f"POST {MEMORIES} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.alice}"
        line.sendall(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        time.sleep(1)
        line.sendall(body)
        assert line.recv(65_536).startswith(b"HTTP/1.1 201")


def test_whoever_does_not_read_an_answer_gives_the_place_up(tmp_path: Path) -> None:
    with serving(tmp_path, connections=Connections(reading_deadline_s=0.5)) as service:
        for n in range(40):
            service.add(ALICE, f"{n} " + "x" * 200_000)
        admission = service.server.config.app
        with connected(service) as line:
            path = f"{MEMORIES}?limit=40"
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.alice}\r\n"
            line.sendall(f"{head}\r\n".encode())
            until(lambda: admission._in_work.taken == 1)
            until(lambda: admission._in_work.taken == 0)
            until(lambda: len(service.server.server_state.connections) == 0)
