"""Headers, bodies and parameters over HTTP; the contract of the API runs over it, too."""

import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from memory_actors.api.user import UserMemory
from memory_actors.server.bodies import body_of
from tests.memory_actors.server.helpers import Service, problem

Ask = Callable[..., httpx.Response]


@pytest.fixture
def user(service: Service, request: pytest.FixtureRequest) -> str:
    """A user of the test's own."""
    return f"user of {request.node.name}"


@pytest.fixture
def ask(service: Service, user: str) -> Ask:
    token, _ = service.keys.create(user)

    def ask(method: str, path: str, body: Any = None, **given: Any) -> httpx.Response:
        base = f"/v1/users/{quote(user, safe='')}"
        return service(method, base + path, token, json=body, **given)

    return ask


def added(ask: Ask, content: str, **fields: Any) -> str:
    answer = ask("POST", "/memories", {"content": content, **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["memory_id"]


def test_agent_and_session_come_from_headers_or_body(ask: Ask) -> None:
    """Agent and session come from headers, unless the body says otherwise."""
    headers = {"Agent-Id": "caf%C3%A9", "Session-Id": "s%2F1"}
    body = {"content": "x"}
    plain = ask("POST", "/memories", body, headers=headers).json()["memory_id"]
    own = ask("POST", "/memories", body | {"session_id": "mine"}, headers=headers).json()
    assert ask("GET", f"/memories/{plain}").json()["session_id"] == "s/1"
    assert ask("GET", f"/memories/{own['memory_id']}").json()["session_id"] == "mine"
    of_one = ask("GET", "/memories?session=mine&contains=X&since=2020-01-01").json()
    assert [one["memory_id"] for one in of_one["memories"]] == [own["memory_id"]]
    assert of_one["total"] == 1
    (entry,) = ask("GET", f"/memories/{plain}/history").json()["entries"]
    assert "café" in entry["cause"].values()


@pytest.mark.parametrize("header", ["caf\xe9".encode("latin-1"), b"%ff", b"x" * 600])
def test_a_header_that_is_no_name_is_refused(ask: Ask, header: bytes) -> None:
    answer = ask("GET", "/usage", headers={"Agent-Id": header})
    problem(answer, 400, "invalid-input")


def test_the_search_body_has_every_parameter_of_retrieve() -> None:
    def parameters(method: Any) -> set[str]:
        return set(inspect.signature(method).parameters) - {"self"}

    assert set(body_of("retrieve").__struct_fields__) == parameters(UserMemory.retrieve)
    says = {*parameters(UserMemory.add), *parameters(UserMemory.from_source)}
    assert set(body_of("add").__struct_fields__) == says


@pytest.mark.parametrize(
    "query",
    ["memory_type=x", "limit=-1", "limit=1001", "limit=x", "offset=-1", "filters=x", "filters=[]",
     "filters=%7B%22$x%22:1%7D", "since=yesterday", "contains="],
)  # fmt: skip
def test_a_list_that_cannot_be_is_refused(ask: Ask, query: str) -> None:
    problem(ask("GET", f"/memories?{query}"), 400, "invalid-input")


# --- what cannot be read is refused, and nothing is guessed


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b"{", b'"x"', b"\xff", b"{}",
        b'{"content": null}', b'{"content": 5}', b'{"content": ""}', b'{"content": "\\ud800"}',
        b'{"content": "x", "unknown": 1}', b'{"content": "x", "pinned": "true"}',
        b'{"content": "x", "pinned": 1}', b'{"content": "x", "session_id": 5}',
        b'{"content": "x", "metadata": []}', b'{"content": "x", "metadata": {"n": NaN}}',
        b'{"content": "x", "metadata": {"n": 99999999999999999999}}',
        b'{"content": "x", "metadata": {"n": 1e999}}',
        b'{"content": "x", "memory_type": "nonsense"}',
        b'{"content": "x", "occurred_at": "yesterday"}',
        b'{"content": "x", "memory_id": ""}',
        b'{"content": "x", "metadata": {"a": ' + b"[" * 40 + b"]" * 40 + b"}}",
        b'{"content": "x", "metadata": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    ],
    ids=range(24),
)  # fmt: skip
def test_a_body_that_is_no_memory_is_refused(ask: Ask, body: bytes) -> None:
    problem(ask("POST", "/memories", content=body), 400, "invalid-input")
    assert ask("GET", "/memories").json()["memories"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/memories"), ("POST", "/memories/search"), ("POST", "/purge"),
        ("PATCH", "/memories/m"),
    ],
)  # fmt: skip
def test_who_sends_no_body_is_told_that_one_is_needed(ask: Ask, method: str, path: str) -> None:
    answer = ask(method, path)
    problem(answer, 400, "invalid-input")
    assert "takes a JSON body" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {}, {"query": ""}, {"query": "x", "top_k": 0}, {"query": "x", "top_k": 1001},
        {"query": "x", "top_k": "5"}, {"query": "x", "top_k": 2.5}, {"query": "x", "min_score": 2},
        {"query": "x", "weights": {"nonsense": 1}}, {"query": "x", "weights": {"words": "1"}},
        {"query": "x", "memory_types": "long_term"}, {"query": "x", "memory_types": ["y"]},
        {"query": "x", "filters": {"$y": 1}}, {"query": "x", "since": "x"},
        {"query": "x", "user_id": "alice"},
    ],
    ids=str,
)  # fmt: skip
def test_a_search_that_cannot_be_is_refused(ask: Ask, body: Any) -> None:
    problem(ask("POST", "/memories/search", body), 400, "invalid-input")


def test_a_word_that_reads_like_another_type_stays_a_word(ask: Ask) -> None:
    body = {"content": "null", "session_id": "null", "role": "true", "metadata": {"a": "null"}}
    memory_id = ask("POST", "/memories", body).json()["memory_id"]
    told = ask("GET", f"/memories/{memory_id}").json()
    assert {name: told[name] for name in body} == body


def test_a_condition_that_would_not_be_read_is_refused(ask: Ask) -> None:
    """Without it, what it spares would be deleted."""
    memory_id = added(ask, "likes tea", metadata={"n": 1})
    one, spared = f"/memories/{memory_id}", {"filters": {"n": 2}}
    for method, path, body in (
        ("DELETE", f"{one}?filter=%7B%22n%22%3A2%7D", None),
        ("DELETE", f"{one}?n=2", None),
        ("DELETE", one, spared),
        ("DELETE", "/memories?memory_type=long_term", spared),
        ("DELETE", "/memories?memory_type=long_term&filter=%7B%22n%22%3A2%7D", None),
        ("PATCH", f"{one}?filters=%7B%22n%22%3A2%7D", {"content": "likes coffee"}),
        ("GET", "/count?filter=%7B%22n%22%3A2%7D", None),
    ):
        problem(ask(method, path, body), 400, "invalid-input")
    assert ask("GET", one).json()["content"] == "likes tea"
