"""serve and keys: the program, its start and its end."""

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from support.fakes import FakeEmbedder
from support.programs import INTERRUPTIBLE

from memory_actors.api.user import UserMemory
from memory_actors.base.on import On
from memory_actors.cli import App, main
from memory_actors.server import KeyStore, create_app
from memory_actors.server.serving import listening
from memory_actors.sharing.address import is_loopback
from memory_actors.users.handles.scope import Scope
from tests.memory_actors.server.helpers import ALICE, StandIn, bearer, serving, until

ROOT = Path(__file__).parents[3]


class Program:
    def __init__(self, data: Path, embedder: FakeEmbedder | None = None):
        self.data = data
        self.embedder = embedder

    def __call__(self, *arguments: str) -> Result:
        app = App(embedder=self.embedder)
        return CliRunner().invoke(main, ["--data", str(self.data), *arguments], obj=app)

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return json.loads(result.stdout)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "memory", FakeEmbedder())


# --- keys


def test_a_key_is_made_shown_once_listed_and_revoked(program: Program) -> None:
    made = program("keys", "create", "--user", "ada", "--tier", "free")
    token = made.stdout.strip()
    assert made.exit_code == 0
    assert "once" in made.stderr
    keys = KeyStore(program.data)
    assert keys.find(token).user_id == "ada"
    listed = program("keys", "list")
    assert token not in listed.stdout
    assert "user ada" in listed.stdout
    (told,) = program.json("keys", "list")
    assert (told["scope"], told["user_id"], told["tier"]) == ("user", "ada", "free")
    assert "sha256" not in told
    assert "Revoked" in program("keys", "revoke", told["id"]).stdout
    assert keys.find(token) is None
    assert program("keys", "list").stdout == "No keys.\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create"], 2),
        (["create", "--root", "--user", "ada"], 2),
        (["create", "--root", "--tier", "pro"], 1),
        (["create", "--user", "ada", "--tier", "gold"], 2),
        (["create", "--user", ""], 1),
        (["revoke", "0123456789abcdef"], 1),
    ],
)
def test_keys_that_cannot_be_are_refused(program: Program, arguments, code: int) -> None:
    assert program("keys", *arguments).exit_code == code
    assert KeyStore(program.data).all() == []


# --- serve


@pytest.fixture(scope="module")
def model() -> None:
    """The real model, as scripts/test installs it."""
    from memory_actors.search.model.install import install_model

    install_model()


@pytest.fixture
def running(tmp_path: Path, model: None) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """The real program in a process of its own, on a free port."""
    data = tmp_path / "memory"
    process = subprocess.Popen(
        [*INTERRUPTIBLE, "--data", str(data), "serve", "--port", "0", "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process, json.loads(process.stdout.readline())["address"], data
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_program_serves_until_it_is_asked_to_stop(running, stop: signal.Signals) -> None:
    process, url, data = running
    assert url.startswith("http://127.0.0.1:")
    token, _ = KeyStore(data).create(ALICE)  # beside the running server
    with httpx.Client(base_url=url, headers=bearer(token), trust_env=False, timeout=30) as client:
        until(lambda: client.get("/health").status_code == 200)
        added = client.post(f"/v1/users/{ALICE}/memories", json={"content": "tea"})
        assert added.status_code == 201
        process.send_signal(stop)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "no API key yet" in err
    assert "Traceback" not in err + out
    assert out == "", "the address is all there is, on one line"
    listed = Program(data).json("list", "--user", ALICE)
    assert [memory["content"] for memory in listed] == ["tea"]


def test_requests_in_work_are_finished_before_the_end(tmp_path: Path) -> None:
    gate, began = threading.Event(), threading.Event()

    def slow(memory: Any) -> StandIn:
        class Slow(UserMemory):
            async def usage(self) -> Any:
                began.set()
                while not gate.is_set():
                    await asyncio.sleep(0.01)
                return await super().usage()

        def user(user_id: str, **given: Any) -> Slow:
            return Slow(Scope(memory._services, On(user_id, **given)))

        return StandIn(memory, user=user)

    with serving(tmp_path, wrap=slow) as service, ThreadPoolExecutor() as threads:
        asked = threads.submit(service, "GET", f"/v1/users/{ALICE}/usage", service.alice)
        assert began.wait(10)
        service.server.should_exit = True
        refused = until(lambda: _refused(service.url))
        assert refused
        gate.set()
        assert asked.result(timeout=10).status_code == 200


def _refused(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code != 200
    except httpx.TransportError:
        return True


def test_a_port_in_use_is_told(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = program("serve", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1
    assert "--port" in result.stderr


def test_an_address_for_others_is_warned_of(program: Program, monkeypatch) -> None:
    async def at_once(*_: Any, on_ready: Any, **given: Any) -> None:
        on_ready("http://somewhere")

    module = importlib.import_module("memory_actors.cli.serve")
    monkeypatch.setattr(module, "serve_http", at_once)
    program.json("keys", "create", "--root")
    assert "TLS" in program("serve", "--host", "0.0.0.0").stderr
    assert program("serve").stderr == ""
    assert "http://somewhere" in program("serve").stdout


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [([], "0 3 * * 0"), (["--compact-at", "30 4 * * *"], "30 4 * * *"),
     (["--compact-at", "never"], None)],
)  # fmt: skip
def test_a_server_compresses_by_itself_unless_told_not_to(
    program: Program, monkeypatch, arguments: list[str], schedule: str | None
) -> None:
    async def at_once(memory: Any, *_: Any, **given: Any) -> None:
        seen.append(memory._services.settings.compaction_schedule)

    seen: list[str | None] = []
    monkeypatch.setattr(importlib.import_module("memory_actors.cli.serve"), "serve_http", at_once)
    assert program("serve", *arguments).exit_code == 0
    assert seen == [schedule]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False), ("", False)],
)  # fmt: skip
def test_only_this_machine_reaches_a_loopback_address(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with listening("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_command_line_starts_without_the_extra() -> None:
    code = "import sys, memory_actors.cli; assert not {'litestar', 'uvicorn'} & set(sys.modules)"
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True
    )


def test_an_application_without_its_lifespan_takes_no_jobs(tmp_path: Path) -> None:
    """An application that nobody starts would never carry jobs out."""
    keys = KeyStore(tmp_path)
    app = create_app(None, keys)  # type: ignore[arg-type]

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            root = bearer(keys.create(None)[0])
            return await client.post("/admin/compress/run", headers=root)

    assert asyncio.run(ask()).status_code == 503
