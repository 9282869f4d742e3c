"""Alerts: sinks, a webhook against a real server, and a dispatcher that nothing holds up."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from memory_actors import Alert, AlertSink, InvalidInputError, LogSink, WebhookSink
from memory_actors.base.errors import AlertNotDeliveredError
from memory_actors.base.privacy import hashed
from memory_actors.observing.alerts import AlertDispatcher

pytestmark = pytest.mark.anyio

ALERT = Alert(
    user_id="user_123",
    kind="long_term",
    quota="long_term.memories",
    level="warning",
    used=8_000,
    limit=10_000,
    unit="count",
    percent=80.0,
    tier="pro",
    at=datetime(2024, 3, 1, tzinfo=UTC),
)


def numbered(n: int) -> Alert:
    return msgspec.structs.replace(ALERT, used=n)


# --- in words


def test_an_alert_says_how_full_and_not_whose() -> None:
    assert ALERT.message == (
        "Long-term memory at 80% capacity: 8,000 of 10,000 memories. "
        "Delete old memories before it is full."
    )
    larger = msgspec.structs.replace(ALERT, upgradable=True)
    assert larger.message.endswith("Delete old memories or upgrade before it is full.")
    sized = msgspec.structs.replace(
        ALERT, quota="long_term.bytes", unit="bytes", used=96 << 20, limit=100 << 20, percent=96.0
    )
    assert "Long-term memory at 96% capacity: 96 MB of 100 MB content." in sized.message
    assert "user_123" not in ALERT.message


# --- sinks


@pytest.mark.parametrize(("level", "logged"), [("warning", "warning"), ("critical", "error")])
async def test_the_log_has_everything_but_the_users_id(level: Any, logged: str) -> None:
    with capture_logs() as logs:
        await LogSink().send(msgspec.structs.replace(ALERT, level=level))
    assert logs == [
        {
            "event": "quota alert", "log_level": logged, "severity": level, "kind": "long_term",
            "message": ALERT.message,
            "user": hashed("user_123"), "quota": "long_term.memories", "used": 8_000,
            "limit": 10_000, "unit": "count", "percent": 80.0, "tier": "pro",
            "at": "2024-03-01T00:00:00+00:00", "upgradable": False,
        }
    ]  # fmt: skip
    assert "user_123" not in repr(logs)


class Server:
    """A web server that answers as its script says: a status, "hang", "close" or "drip"."""

    def __init__(self) -> None:
        self.script: list[int | str] = []
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.done = threading.Event()
        self.url = ""

    def step(self) -> int | str:
        return self.script.pop(0) if self.script else 200


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.got.append((self.path, headers, json.loads(body)))
            answer = state.step()
            if answer == "hang":
                state.done.wait(30)
            elif answer == "drip":
                self.drip()
            elif answer != "close":
                self.send_response(int(answer))
                self.send_header("content-length", "0")
                self.end_headers()
            self.close_connection = True

        def drip(self) -> None:
            """A byte now and then: no single read ever takes long."""
            self.wfile.write(b"HTTP/1.1 200 OK\r\nx-drip: ")
            while not state.done.wait(0.02):
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}/hooks/SECRET"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield state
        state.done.set()
        http.shutdown()
        thread.join()


@asynccontextmanager
async def webhook(server: Server, **more: Any) -> AsyncIterator[WebhookSink]:
    sink = WebhookSink(server.url, **{"backoff_s": 0.001, **more})
    yield sink
    await sink.close()


async def test_a_webhook_posts_json(server: Server) -> None:
    headers = {"Content-Type": "text/plain", "authorization": "Bearer t"}
    async with webhook(server, headers=headers) as sink:
        await sink.send(ALERT)
    ((path, sent, body),) = server.got
    assert path == "/hooks/SECRET"
    assert sent["content-type"] == "application/json"
    assert sent["authorization"] == "Bearer t"
    assert body == {
        "user_id": "user_123", "kind": "long_term", "quota": "long_term.memories",
        "level": "warning", "used": 8_000, "limit": 10_000, "unit": "count", "percent": 80.0,
        "tier": "pro", "at": "2024-03-01T00:00:00Z", "message": ALERT.message, "upgradable": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "script", [[500, 200], [503, 500, 204], [429, 200], ["close", 200], ["hang", "close", 200]]
)
async def test_what_may_pass_is_tried_again(server: Server, script: list[int | str]) -> None:
    server.script = list(script)
    async with webhook(server, timeout_s=0.3) as sink:
        await sink.send(ALERT)
    assert len(server.got) == len(script)


@pytest.mark.parametrize("answer", [302, 400, 404])
async def test_what_cannot_pass_is_not_tried_again(server: Server, answer: int) -> None:
    server.script = [answer]
    async with webhook(server) as sink:
        with pytest.raises(AlertNotDeliveredError, match=f"refused it: HTTP {answer}"):
            await sink.send(ALERT)
    assert len(server.got) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"url": "ftp://x/"}, {"url": "example.com"}, {"url": "http://"}, {"url": "http://[x"},
        {"url": "http://x:y/"}, {"timeout_s": 0}, {"attempts": 0}, {"backoff_s": -1},
    ],
)  # fmt: skip
def test_a_webhook_that_cannot_work_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        WebhookSink(**{"url": "http://x/", **bad})


# --- the dispatcher


class Sink:
    """Remembers what it got, after doing what a test says."""

    def __init__(self, act: Callable[[], Awaitable[None]] | None = None):
        self.got: list[int] = []
        self.closed = 0
        self._act = act

    async def send(self, alert: Alert) -> None:
        if self._act is not None:
            await self._act()
        self.got.append(alert.used)

    async def close(self) -> None:
        self.closed += 1


async def forever() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise ConnectionError("down")


async def was_cancelled() -> None:
    raise asyncio.CancelledError


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def dispatching(*sinks: AlertSink) -> AsyncIterator[AlertDispatcher]:
    dispatcher = AlertDispatcher(sinks)
    dispatcher.start()
    yield dispatcher
    await dispatcher.close(0.01)


async def test_every_sink_gets_every_alert_in_order() -> None:
    one, two = Sink(), Sink()
    async with dispatching(one, two) as dispatcher:
        for n in range(50):
            dispatcher.post(numbered(n))
        await until(lambda: len(one.got) == len(two.got) == 50)
        dispatcher.post(numbered(50))
        await until(lambda: two.got == one.got == list(range(51)))
    statistics = dispatcher.statistics()
    assert (statistics.posted, statistics.delivered) == (51, 102)
    assert (statistics.failed, statistics.dropped, statistics.waiting) == (0, 0, 0)


async def test_a_sink_that_hangs_or_fails_delays_no_other() -> None:
    hung, failing, cancelled, good = Sink(forever), Sink(fails), Sink(was_cancelled), Sink()
    with capture_logs() as logs:
        async with dispatching(hung, failing, cancelled, good) as dispatcher:
            for n in range(3):
                dispatcher.post(numbered(n))
            await until(lambda: dispatcher.statistics().failed == 6)
            assert good.got == [0, 1, 2]
            assert dispatcher.statistics().waiting == 2
    assert (logs[0]["event"], logs[0]["sink"]) == ("alert not delivered", "Sink")
    assert logs[0]["error"].startswith("ConnectionError at "), "what it said may name a user"


async def test_beyond_a_thousand_waiting_the_oldest_are_dropped() -> None:
    go = asyncio.Event()
    slow, fast = Sink(lambda: go.wait()), Sink()
    with capture_logs() as logs:
        async with dispatching(slow, fast) as dispatcher:
            for n in range(1_005):
                dispatcher.post(numbered(n))
                await asyncio.sleep(0)
            assert dispatcher.statistics().dropped == 4, "one is under way"
            go.set()
            await until(lambda: len(slow.got) == 1_001)
    assert slow.got == [0, *range(5, 1_005)]
    assert fast.got == list(range(1_005))
    assert [log["event"] for log in logs] == ["alerts are dropped: the sink is behind"]


async def test_closing_delivers_what_waits_and_then_stops() -> None:
    slow = Sink(lambda: asyncio.sleep(0.001))
    dispatcher = AlertDispatcher([slow])
    dispatcher.start()
    for n in range(20):
        dispatcher.post(numbered(n))
    await dispatcher.close(10)
    assert slow.got == list(range(20))
    dispatcher.post(numbered(20))
    dispatcher.start()
    await dispatcher.close(10)
    assert dispatcher.statistics().dropped == 1
    assert slow.closed == 1


async def test_closing_waits_no_longer_than_its_deadline() -> None:
    hung, good = Sink(forever), Sink()
    dispatcher = AlertDispatcher([hung, good])
    dispatcher.start()
    for n in range(3):
        dispatcher.post(numbered(n))
    async with asyncio.timeout(5):
        await dispatcher.close(0.02)
    statistics = dispatcher.statistics()
    assert (statistics.delivered, statistics.failed, statistics.dropped) == (3, 1, 2)
    assert (hung.closed, good.closed) == (1, 1)


async def test_the_dispatcher_delivers_to_a_webhook_and_closes_it(server: Server) -> None:
    server.script = [500, 500, 500, 200]
    with capture_logs() as logs:
        async with dispatching(WebhookSink(server.url, backoff_s=0)) as dispatcher:
            dispatcher.post(ALERT)
            dispatcher.post(ALERT)
            await until(lambda: dispatcher.statistics().delivered == 1)
    assert dispatcher.statistics().failed == 1
    assert [log["event"] for log in logs] == ["alert not delivered"]
    assert "SECRET" not in repr(logs)
