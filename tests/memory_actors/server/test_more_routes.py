"""Routes beside those of single memories: many at once, context, users, erasing, events, CORS."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory_actors import Item, MemorySystem
from tests.memory_actors.server.helpers import Service, bearer, serving

ADA = "/v1/users/ada"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, cors_origins=["https://app.example"]) as running:
        yield running


def events_of(answer: httpx.Response) -> Iterator[dict[str, str]]:
    """Yield server-sent events."""
    event: dict[str, str] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif "data" in event:
            yield event
            event = {}


def test_events_survive_a_cut_connection(fresh: Service) -> None:
    """Events come as they are written and are not lost by a cut."""
    for number in range(3):
        fresh.add("ada", f"fact {number}")
    fresh.add("bob", "of somebody else")
    url = f"{fresh.url}{ADA}/events"
    with httpx.stream("GET", url, headers=bearer(fresh.root), trust_env=False) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of(answer)
        first = [next(events) for _ in range(2)]
    assert [json.loads(one["data"])["data"]["content"] for one in first] == ["fact 0", "fact 1"]
    assert first[0]["event"] == "long_term.added"
    again = {**bearer(fresh.root), "Last-Event-ID": first[-1]["id"]}
    with httpx.stream("GET", url, headers=again, trust_env=False) as answer:
        events = events_of(answer)
        assert json.loads(next(events)["data"])["data"]["content"] == "fact 2"
        threading.Timer(0.2, lambda: fresh.add("ada", "fact 3")).start()
        assert json.loads(next(events)["data"])["data"]["content"] == "fact 3"
    all_of_it = httpx.get(
        f"{fresh.url}/admin/events?follow=false", headers=bearer(fresh.root), trust_env=False
    )
    assert all_of_it.text.count("data: ") == 5


@pytest.mark.parametrize(
    ("path", "last_event_id"),
    [
        (ADA, "-1"),
        (ADA, "9" * 19),
        (ADA, "9" * 5_000),
        (f"{ADA}?after={1 << 63}", None),
        (f"/v1/users/{'a' * 513}", None),
    ],
)
def test_events_are_refused_before_the_stream_begins(
    service: Service, path: str, last_event_id: str | None
) -> None:
    """A position or a user that cannot be is a problem with status 400, not a broken stream."""
    at, _, query = path.partition("?")
    headers = bearer(service.root)
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    url = f"{service.url}{at}/events?follow=false&{query}"
    answer = httpx.get(url, headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["title"]) == (400, "Invalid input")


def test_a_server_that_ends_waits_for_no_listener(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        running.add("ada", "likes tea")
        url, headers = f"{running.url}{ADA}/events", bearer(running.root)
        heard: list[Any] = []

        def listen() -> None:
            with httpx.stream("GET", url, headers=headers, trust_env=False) as answer:
                heard.extend(events_of(answer))

        listener = threading.Thread(target=listen)
        listener.start()
        time.sleep(0.3)
        running.server.should_exit = True
        listener.join(timeout=8)
        assert not listener.is_alive()
        assert len(heard) == 1


def test_only_the_sites_that_are_named_may_ask(fresh: Service, service: Service) -> None:
    asks = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "PATCH",
        "Access-Control-Request-Headers": "authorization,agent-id",
    }
    answer = fresh("OPTIONS", f"{ADA}/memories/x", headers=asks)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-credentials" not in answer.headers
    for served, origin in ((fresh, "https://evil.example"), (service, "https://app.example")):
        answer = served("OPTIONS", f"{ADA}/memories/x", headers={**asks, "Origin": origin})
        assert "access-control-allow-origin" not in answer.headers
    shown = fresh("GET", f"{ADA}/usage", fresh.root, headers={"Origin": "https://app.example"})
    assert shown.headers["access-control-allow-origin"] == "https://app.example"


@pytest.mark.anyio
async def test_a_client_has_them_too(fresh: Service) -> None:
    async with MemorySystem.connect(fresh.url, key=fresh.root) as memory:
        user = memory.user("ada")
        receipts = await user.add_many(
            [Item(content="one", occurred_at="2024-05-01"), Item(content="two")]
        )
        assert len(receipts) == 2
        assert len(await user.list_memories()) == 2
        assert (await user.context("one")).parts
        assert await user.context.documents() == []
        fresh.call(lambda: fresh.memory.user("ada").context.create("notes", "# A\n\n- b\n"))
        assert "b" in await user.context.document("notes").render()


def test_a_listener_to_whom_nothing_comes_is_kept_alive(
    fresh: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_actors.server.events.KEEP_ALIVE_S", 0.05)
    with httpx.stream(
        "GET", f"{fresh.url}{ADA}/events", headers=bearer(fresh.root), trust_env=False
    ) as answer:
        lines = answer.iter_lines()
        told = [next(lines) for _ in range(4)]
    assert {line.strip() for line in told} == {":", ""}  # comments: no client takes them for events
