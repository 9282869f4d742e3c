"""MCP over HTTP: the real server, its keys, and clients of the package `mcp`."""

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from memory_actors.server import KeyStore, create_app
from memory_actors.server.access import STREAMS_MAX
from tests.memory_actors.server.helpers import (
    ALICE,
    BOB,
    Service,
    StandIn,
    bearer,
    problem,
    serving,
)

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from suites.npm import conformance
from suites.obtaining import NotObtainedError

from memory_actors.server.mcp import Mounted

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
MODES = ["legacy", "auto"]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a test", "version": "1"},
    },
}
JSON_OR_STREAM = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def client(service: Service, key: str, path: str = "/mcp", **how: Any) -> AsyncIterator[Any]:
    async with create_mcp_http_client(headers=bearer(key)) as http:
        transport = streamable_http_client(service.url + path, http_client=http)
        async with Client(transport, **how) as connected:
            yield connected


def opened(service: Service, key: str, path: str = "/mcp", **headers: str) -> Any:
    """Open a session by hand; return the answer."""
    return service("POST", path, key, json=INITIALIZE, headers={**JSON_OR_STREAM, **headers})


def test_an_import_that_fails_later_is_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ImportError

    monkeypatch.setattr(Mounted, "__init__", fails)
    with pytest.raises(ImportError):
        create_app(None, KeyStore("nowhere"))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_reaches_its_user(service: Service, mode: str) -> None:
    async with client(service, service.alice, mode=mode) as mine:
        await mine.call_tool("remember", {"content": f"Alice likes tea, over {mode}"})
        found = (await mine.call_tool("recall", {"query": f"tea {mode}"})).structured_content
    assert found["searched"]["user"] == ALICE
    assert any(mode in one["content"] for one in found["memories"])
    async with client(service, service.bob, mode=mode) as theirs:
        found = (await theirs.call_tool("recall", {"query": f"tea {mode}"})).structured_content
    assert found["searched"]["user"] == BOB
    assert found["memories"] == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_memory_of_another_user_is_not_there(service: Service, mode: str) -> None:
    memory_id = service.add(ALICE, "Alice keeps the diamonds under the floor")
    async with client(service, service.bob, mode=mode) as theirs:
        for name in ("get_memory", "delete_memory", "explain_memory"):
            done = await theirs.call_tool(name, {"memory_id": memory_id})
            assert done.is_error
            assert "diamonds" not in done.content[0].text


def test_a_key_that_names_another_user_is_refused(service: Service) -> None:
    problem(opened(service, service.bob, f"/mcp?user={ALICE}"), 403, "forbidden")
    problem(opened(service, service.bob, "/mcp?user=%61lice"), 403, "forbidden")
    problem(opened(service, service.bob, f"/mcp?user={BOB}&user={ALICE}"), 403, "forbidden")
    assert opened(service, service.bob, f"/mcp?user={BOB}").status_code == 200


async def test_a_root_key_says_whose_memory_it_is(service: Service) -> None:
    problem(opened(service, service.root), 400, "invalid-input")
    async with client(service, service.root, f"/mcp?user={ALICE}") as root:
        found = (await root.call_tool("list_memories", {})).structured_content
    assert found["searched"]["user"] == ALICE


def test_without_a_key_nobody_gets_in(service: Service) -> None:
    other = "1" if service.alice.endswith("0") else "0"
    for key in (None, "nonsense", service.alice[:-1] + other):
        refused = opened(service, key) if key else service("POST", "/mcp", json=INITIALIZE)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")


def test_a_session_is_its_keys_own(service: Service) -> None:
    session = {"mcp-session-id": opened(service, service.alice).headers["mcp-session-id"]}
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    headers = {**JSON_OR_STREAM, **session}
    mine = service("POST", "/mcp", service.alice, json=asked, headers=headers)
    theirs = service("POST", "/mcp", service.bob, json=asked, headers=headers)
    assert (mine.status_code, theirs.status_code) == (200, 404)


def test_sessions_of_one_key_lock_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that opens one session too many loses its oldest; a full server makes room, too."""
    monkeypatch.setattr("memory_actors.server.mcp.SESSIONS_MAX", 8)
    with serving(tmp_path) as service:
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

        def lives(key: str, session: str) -> bool:
            headers = {**JSON_OR_STREAM, "mcp-session-id": session}
            path = f"/mcp?user={ALICE if key == service.root else ''}".removesuffix("?user=")
            answer = service("POST", path, key, json=asked, headers=headers)
            assert answer.status_code in (200, 404)
            return answer.status_code == 200

        mine = [opened(service, service.alice).headers["mcp-session-id"] for _ in range(10)]
        assert [lives(service.alice, one) for one in mine] == [False] * 8 + [True] * 2
        root = [
            opened(service, service.root, f"/mcp?user={ALICE}").headers["mcp-session-id"]
            for _ in range(6)
        ]
        theirs = opened(service, service.bob).headers["mcp-session-id"]
        assert lives(service.bob, theirs)
        assert all(lives(service.alice, one) for one in mine[8:])
        assert not lives(service.root, root[0])


def test_a_revoked_key_opens_nothing_any_more(service: Service) -> None:
    token, key = service.keys.create("carol")
    session = {"mcp-session-id": opened(service, token).headers["mcp-session-id"]}
    service.keys.revoke(key.id)
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    headers = {**JSON_OR_STREAM, **session}
    assert service("POST", "/mcp", token, json=asked, headers=headers).status_code == 401


def test_the_first_request_sets_the_tier_of_the_key(service: Service) -> None:
    token, _ = service.keys.create("dora", "pro")
    assert opened(service, token).status_code == 200
    usage = service.call(lambda: service.memory.user("dora").usage())
    assert usage.tier == "pro"


async def test_other_sets_of_tools_have_their_own_address(service: Service) -> None:
    async with client(service, service.alice, "/mcp/graph") as graph:
        assert "create_entities" in [tool.name for tool in (await graph.list_tools()).tools]
    async with client(service, service.alice, "/mcp/files") as files:
        assert "view" in [tool.name for tool in (await files.list_tools()).tools]
    problem(opened(service, service.alice, "/mcp/other"), 404, "not-found")


def test_a_page_from_elsewhere_is_refused(service: Service) -> None:
    evil = opened(service, service.alice, Host="evil.example.com", Origin="http://evil.example.com")
    page = opened(service, service.alice, Origin="http://evil.example.com")
    ours = opened(service, service.alice, Origin="http://localhost:3000")
    assert [evil.status_code, page.status_code, ours.status_code] == [421, 403, 200]


def test_a_name_of_ours_may_be_allowed(tmp_path: Path) -> None:
    with serving(tmp_path, mcp_hosts=["memory.example.com"]) as named:
        ours = opened(named, named.alice, Host="memory.example.com")
        evil = opened(named, named.alice, Host="evil.example.com")
    assert [ours.status_code, evil.status_code] == [200, 421]
    with serving(tmp_path, mcp_hosts=["*"]) as anywhere:
        assert opened(anywhere, anywhere.alice, Host="any.example.com").status_code == 200


def test_junk_is_refused_and_the_server_goes_on(service: Service) -> None:
    for body in (
        b"",
        b"hello",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0"}',
    ):
        headers = {**JSON_OR_STREAM, "Content-Type": "application/json"}
        answer = service("POST", "/mcp", service.alice, content=body, headers=headers)
        assert 400 <= answer.status_code < 500, (body[:20], answer.status_code)
    big = b'{"x": "' + b"x" * (2 << 20) + b'"}'
    headers = {**JSON_OR_STREAM, "Content-Type": "application/json"}
    assert service("POST", "/mcp", service.alice, content=big, headers=headers).status_code == 413
    assert service("PUT", "/mcp", service.alice).status_code == 405
    assert opened(service, service.alice).status_code == 200


def test_every_request_is_answered_also_with_half_a_pair_or_a_mark(service: Service) -> None:
    """As over stdio: cut texts, a byte order mark, ids and arguments as other writers have them."""
    headers = {**JSON_OR_STREAM, "Content-Type": "application/json"}
    headers["mcp-session-id"] = opened(service, service.alice).headers["mcp-session-id"]

    def ask(its_id: bytes, arguments: bytes) -> Any:
        call = b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": %b, "method": "tools/call", "params": '
        call += b'{"name": "remember", "arguments": %b}}'
        body = call % (its_id, arguments)
        return service("POST", "/mcp", service.alice, content=body, headers=headers)

    for number, arguments in enumerate(
        (
            b'{"content": "cut \\ud83d"}',
            b'{"content": "\xed\xa0\xbd cut"}',
            b'"{\\"content\\": \\"tea\\"}"',
        ),
        start=10,
    ):
        answer = ask(b"%d.0" % number, arguments)
        assert answer.status_code == 200
        assert f'"id":{number},' in answer.text
        assert '"isError":false' in answer.text
    for its_id in (b"null", b"1.5"):
        refused = ask(its_id, b"{}")
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == -32600


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, in_flight_max=2) as running:
        yield running


def listen(service: Service, heard: threading.Event, until: threading.Event) -> None:
    """Hold the stream of a session of its own."""
    session = {"mcp-session-id": opened(service, service.alice).headers["mcp-session-id"]}
    headers = {**bearer(service.alice), **session, "Accept": "text/event-stream"}
    with service.client.stream("GET", f"{service.url}/mcp", headers=headers) as stream:
        assert stream.status_code == 200
        heard.set()
        until.wait(30)


def test_clients_that_listen_hold_nothing_up(own: Service) -> None:
    """Five listen where two requests may be in work; the server ends while they do."""
    assert STREAMS_MAX >= 5
    until, threads = threading.Event(), []
    for _ in range(5):
        heard = threading.Event()
        threads.append(threading.Thread(target=listen, args=(own, heard, until), daemon=True))
        threads[-1].start()
        assert heard.wait(20)
    assert opened(own, own.alice).status_code == 200
    began_s = time.monotonic()
    own.server.handle_exit(2, None)
    while own.server.started and time.monotonic() - began_s < 9 and not _ended(own):
        time.sleep(0.05)
    took_s = time.monotonic() - began_s
    until.set()
    for thread in threads:
        thread.join(10)
    assert took_s < 5


def _ended(service: Service) -> bool:
    try:
        service.client.get("/health", timeout=1)
    except Exception:
        return True
    return False


class Slow:
    """A user whose batches begin, and wait for ever before they write."""

    def __init__(self, user: Any, begun: threading.Event, ended: threading.Event):
        self._user, self._begun, self._ended = user, begun, ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._user, name)

    async def add_many(self, _items: Any) -> Any:
        self._begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self._ended.set()


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_is_cancelled_before_it_writes_leaves_nothing(
    tmp_path: Path, mode: str
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(memory: Any) -> Any:
        def user(*given: Any, **how: Any) -> Slow:
            return Slow(memory.user(*given, **how), begun, ended)

        return StandIn(memory, user=user)

    items = [{"content": f"Fact number {number}"} for number in range(40)]
    with serving(tmp_path, wrap=slow) as own:
        async with client(own, own.alice, mode=mode) as mine, anyio.create_task_group() as tasks:
            tasks.start_soon(mine.call_tool, "remember_many", {"items": items})
            assert await anyio.to_thread.run_sync(begun.wait, 20)
            tasks.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(ended.wait, 20)
        assert await anyio.to_thread.run_sync(count, own) == 0


def count(service: Service) -> int:
    return service.call(lambda: service.memory.user(ALICE).count())


@pytest.mark.slow
@pytest.mark.parametrize("version", conformance.SCENARIOS)
def test_the_owners_conformance_suite_passes(version: str) -> None:
    try:
        run, failed, _left_out = conformance.run(version)
    except NotObtainedError as error:
        pytest.skip(str(error))
    assert failed == []
    assert len(run) >= 7
