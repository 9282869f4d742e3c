"""A user can do over HTTP whatever the library does."""

import inspect
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from memory_actors.api.user import UserMemory
from memory_actors.server.bodies import AddMemory, Search
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


def test_a_memory_goes_in_and_comes_back(service: Service, ask: Ask, user: str) -> None:
    body = {
        "content": "User enjoys skiing",
        "memory_type": "long_term",
        "metadata": {"category": "sports", "n": [1, 2.5, None, True]},
        "occurred_at": "2025-05-01T12:00:00Z",
        "session_id": "s1",
        "role": "user",
        "memory_id": "mine",
        "pinned": True,
        "idempotency_key": "k1",
    }
    receipt = ask("POST", "/memories", body).json()
    assert (receipt["memory_id"], receipt["operation"]) == ("mine", "add")
    assert ask("POST", "/memories", body).json()["memory_id"] == "mine"
    told = ask("GET", "/memories/mine").json()
    assert {name: told[name] for name in body if name in told} == {
        name: given for name, given in body.items() if name != "idempotency_key"
    }
    kept = service.call(lambda: service.memory.user(user).get("mine"))
    assert (kept.content, kept.metadata) == (body["content"], body["metadata"])


def test_a_fact_that_is_said_again_is_seen_or_kept(ask: Ask) -> None:
    first = added(ask, "likes tea")
    again = ask("POST", "/memories", {"content": "likes tea"}).json()
    assert (again["operation"], again["memory_id"]) == ("seen", first)
    assert added(ask, "likes tea", on_duplicate="keep") != first
    assert ask("GET", f"/memories/{first}").json()["times_seen"] == 2
    wrong = ask("POST", "/memories", {"content": "likes tea", "on_duplicate": "merge"})
    assert wrong.status_code == 400


def test_agent_and_session_come_from_headers_or_body(ask: Ask) -> None:
    """Agent and session come from headers, unless the body says otherwise."""
    headers = {"Agent-Id": "caf%C3%A9", "Session-Id": "s%2F1"}
    body = {"content": "x"}
    plain = ask("POST", "/memories", body, headers=headers).json()["memory_id"]
    own = ask("POST", "/memories", body | {"session_id": "mine"}, headers=headers).json()
    assert ask("GET", f"/memories/{plain}").json()["session_id"] == "s/1"
    assert ask("GET", f"/memories/{own['memory_id']}").json()["session_id"] == "mine"
    (entry,) = ask("GET", f"/memories/{plain}/history").json()["entries"]
    assert "café" in entry["cause"].values()


@pytest.mark.parametrize("header", ["caf\xe9".encode("latin-1"), b"%ff", b"x" * 600])
def test_a_header_that_is_no_name_is_refused(ask: Ask, header: bytes) -> None:
    answer = ask("GET", "/usage", headers={"Agent-Id": header})
    problem(answer, 400, "invalid-input")


def test_search_takes_what_retrieve_takes(service: Service, ask: Ask, user: str) -> None:
    added(ask, "User enjoys skiing", metadata={"category": "sports"})
    added(ask, "User enjoys tea", metadata={"category": "food"})
    body = {
        "query": "what does the user enjoy",
        "memory_types": ["long_term"],
        "top_k": 10,
        "filters": {"category": "sports"},
        "since": "2000-01-01",
        "until": "2100-01-01",
        "as_of": "2100-01-01",
        "session_id": None,
        "min_score": 0.0,
        "token_budget": None,
        "diversity": 0.1,
        "explain": True,
        "weights": {"words": 0.5},
        "reference_time": "2025-01-01",
        "compressed": False,
    }
    (hit,) = ask("POST", "/memories/search", body).json()["hits"]
    assert (hit["content"], hit["metadata"]) == ("User enjoys skiing", {"category": "sports"})
    assert 0 < hit["score"] <= 1
    assert hit["signals"]
    query = body["query"]
    there = [
        hit["score"] for hit in ask("POST", "/memories/search", {"query": query}).json()["hits"]
    ]
    here = service.call(lambda: service.memory.user(user).retrieve(query))
    assert there == pytest.approx([hit.score for hit in here], abs=1e-3)


def test_the_search_body_has_every_parameter_of_retrieve() -> None:
    def parameters(method: Any) -> set[str]:
        return set(inspect.signature(method).parameters) - {"self"}

    assert set(Search.__struct_fields__) == parameters(UserMemory.retrieve)
    says = {*parameters(UserMemory.add), *parameters(UserMemory.from_source)}
    assert set(AddMemory.__struct_fields__) == says


def test_a_source_is_said_narrowed_by_and_purged(ask: Ask) -> None:
    page = {"source": "https://evil.example", "trust": "untrusted"}
    kept = added(ask, "the bank is open")
    added(ask, "the bank has moved", **page)
    ask("PATCH", f"/memories/{kept}", {"content": "the bank is closed", **page})

    told = ask("GET", f"/memories/{kept}").json()
    assert (told["trust"], told["origins"][1]) == ("untrusted", page)
    safe = {"query": "bank", "min_trust": "unknown"}
    assert ask("POST", "/memories/search", safe).json() == {"hits": []}
    assert ask("GET", "/memories?min_trust=unknown").json() == {"memories": [], "total": 0}
    from_page = ask("GET", f"/memories?source={quote(page['source'], safe='')}").json()["memories"]
    assert [one["content"] for one in from_page] == ["the bank has moved"]

    tried = ask("POST", "/purge", {"source": page["source"], "dry_run": True}).json()
    assert tried["dry_run"]
    purged = ask("POST", "/purge", {"source": page["source"]}).json()
    assert len(purged["gone"]["long_term"]) == 1
    assert purged["changed"] == {"long_term": [kept]}
    (left,) = ask("GET", "/memories").json()["memories"]
    assert left["content"] == "the bank is open"
    problem(ask("POST", "/purge", {}), 400, "invalid-input")


def test_memories_are_listed_newest_first_page_by_page(ask: Ask) -> None:
    for day in (1, 2, 3):
        added(ask, f"day {day}", occurred_at=f"2025-01-0{day}", metadata={"day": day})
    added(ask, "hello", memory_type="short_term", session_id="s")

    def listed(query: str) -> list[str]:
        return [one["content"] for one in ask("GET", f"/memories?{query}").json()["memories"]]

    assert listed("memory_type=long_term") == ["day 3", "day 2", "day 1"]
    assert listed("memory_type=long_term&limit=1&offset=1") == ["day 2"]
    assert listed('memory_type=long_term&filters={"day":{"lt":2}}'.replace('"', "%22")) == ["day 1"]
    assert set(listed("memory_type=long_term&memory_type=short_term")) > {"hello", "day 1"}


@pytest.mark.parametrize(
    "query",
    ["memory_type=x", "limit=-1", "limit=1001", "limit=x", "offset=-1", "filters=x", "filters=[]",
     "filters=%7B%22$x%22:1%7D"],
)  # fmt: skip
def test_a_list_that_cannot_be_is_refused(ask: Ask, query: str) -> None:
    problem(ask("GET", f"/memories?{query}"), 400, "invalid-input")


def test_a_memory_is_changed_deleted_and_its_history_told(ask: Ask) -> None:
    memory_id = added(ask, "User likes tea", metadata={"a": 1})
    changed = ask("PATCH", f"/memories/{memory_id}", {"content": "User likes coffee"}).json()
    assert changed["operation"] == "update"
    ask("PATCH", f"/memories/{memory_id}", {"metadata": {"b": 2}})
    told = ask("GET", f"/memories/{memory_id}").json()
    assert (told["content"], told["metadata"]) == ("User likes coffee", {"b": 2})
    assert ask("DELETE", f"/memories/{memory_id}").json()["operation"] == "delete"
    problem(ask("GET", f"/memories/{memory_id}"), 404, "not-found")
    problem(ask("DELETE", f"/memories/{memory_id}"), 404, "not-found")
    problem(ask("PATCH", f"/memories/{memory_id}", {"content": "x"}), 404, "not-found")
    events = [
        one["event"] for one in ask("GET", f"/memories/{memory_id}/history").json()["entries"]
    ]
    assert (events[0], events[-1], len(events)) == ("long_term.added", "long_term.deleted", 4)


def test_usage_counts(ask: Ask, user: str) -> None:
    added(ask, "twelve bytes")
    told = ask("GET", "/usage").json()
    assert (told["user_id"], told["kinds"]["long_term"]["size_bytes"]) == (user, 12)


@pytest.mark.parametrize("kind", ["working", "short_term", "entity", "episodic", "structured"])
def test_every_kind_of_memory_can_be_added(ask: Ask, kind: str) -> None:
    headers = {"Agent-Id": "a", "Session-Id": "s"}
    answer = ask("POST", "/memories", {"content": "x", "memory_type": kind}, headers=headers)
    assert answer.status_code == 201, answer.text
    told = ask("GET", f"/memories/{quote(answer.json()['memory_id'], safe='')}")
    assert told.json()["memory_type"] == kind


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


def test_nothing_to_change_is_refused(ask: Ask) -> None:
    memory_id = added(ask, "x")
    problem(ask("PATCH", f"/memories/{memory_id}", {}), 400, "invalid-input")


def test_what_matches_is_counted_and_deleted(ask: Ask) -> None:
    for n in range(3):
        added(ask, f"fact {n}", metadata={"n": n})
    chosen = "filters=" + quote('{"n": {"gte": 1}}')
    assert ask("GET", "/count").json() == {"count": 3}
    assert ask("GET", f"/count?{chosen}").json() == {"count": 2}
    assert ask("GET", f"/count?{chosen.replace('gte', 'gtt')}").status_code == 400
    assert ask("DELETE", "/memories").status_code == 400
    receipts = ask("DELETE", f"/memories?{chosen}").json()["receipts"]
    assert [receipt["operation"] for receipt in receipts] == ["delete", "delete"]
    assert ask("GET", "/count").json() == {"count": 1}
    assert ask("DELETE", "/memories?memory_type=long_term").status_code == 200
    assert ask("GET", "/count").json() == {"count": 0}


@pytest.mark.parametrize("method", ["DELETE", "PATCH"])
def test_a_condition_decides_whether_a_memory_is_changed(ask: Ask, method: str) -> None:
    memory_id = added(ask, "likes tea", metadata={"n": 1})
    for n, status in ((2, 404), (1, 200)):
        path, filters = f"/memories/{memory_id}", {"n": n}
        if method == "PATCH":
            answer = ask(method, path, {"content": "likes coffee", "filters": filters})
        else:
            answer = ask(method, f"{path}?filters={quote(json.dumps(filters))}")
        assert answer.status_code == status, answer.text


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
