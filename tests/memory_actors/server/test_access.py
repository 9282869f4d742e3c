"""Every route, with no key, a wrong key, another user's key and a right one."""

from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from memory_actors import KeyFileError
from memory_actors.server import KeyStore, create_app
from memory_actors.server.dashboard import FILES
from tests.memory_actors.server.helpers import ALICE, BOB, SECRET, Service, problem


class Case(NamedTuple):
    """A request that a route answers well."""

    who: str
    status: int
    body: Any = None
    query: str = ""


MEMORIES = "/v1/users/{user_id}/memories"
CASES = {
    ("GET", "/health"): Case("anybody", 200),
    ("GET", "/docs"): Case("anybody", 200),
    ("GET", "/ui"): Case("anybody", 200),
    **{("GET", f"/ui/{name}"): Case("anybody", 200) for name in FILES if name != "index.html"},
    ("GET", "/ui/key"): Case("any key", 200),  # see dashboard/test_views.py, as of the next
    ("POST", "/ui/call"): Case("any key", 200),
    ("GET", "/schema"): Case("anybody", 200),
    ("GET", "/schema/openapi.json"): Case("anybody", 200),
    ("POST", MEMORIES): Case("user", 201, {"content": "User enjoys skiing"}),
    ("POST", f"{MEMORIES}/bulk"): Case("user", 201, {"items": [{"content": "User skis"}]}),
    ("GET", MEMORIES): Case("user", 200),
    ("DELETE", MEMORIES): Case("user", 400),  # let in, and asked what to delete
    ("GET", "/v1/users/{user_id}/count"): Case("user", 200),
    ("POST", f"{MEMORIES}/search"): Case("user", 200, {"query": "diamonds"}),
    ("GET", f"{MEMORIES}/{{memory_id}}"): Case("user", 200),
    ("PATCH", f"{MEMORIES}/{{memory_id}}"): Case("user", 200, {"metadata": {"a": 1}}),
    ("DELETE", f"{MEMORIES}/{{memory_id}}"): Case("user", 200),
    ("GET", f"{MEMORIES}/{{memory_id}}/history"): Case("user", 200),
    ("GET", f"{MEMORIES}/{{memory_id}}/why"): Case("user", 200),
    ("GET", "/v1/users/{user_id}/usage"): Case("user", 200),
    ("GET", "/v1/users/{user_id}/grants"): Case("user", 200),
    ("GET", "/v1/users/{user_id}/right"): Case("user", 200),
    ("POST", "/v1/users/{user_id}/grants"): Case("user", 200, {"subject": "ada"}),
    ("POST", "/v1/users/{user_id}/revoke"): Case("user", 404, {"subject": "nobody"}),
    ("POST", "/v1/users/{user_id}/purge"): Case("user", 200, {"source": "https://news.example"}),
    ("POST", "/v1/users/{user_id}/extract"): Case("user", 200, {"dry_run": True}),
    ("GET", "/v1/users/{user_id}/extractions"): Case("user", 200),
    ("POST", "/v1/users/{user_id}/forget"): Case("user", 404, {"what": "nothing at all"}),
    ("GET", "/v1/users/{user_id}/forgotten"): Case("user", 200),
    ("POST", "/v1/users/{user_id}/unforget"): Case("user", 404, {"what": "nothing at all"}),
    ("GET", "/v1/users/{user_id}/pending"): Case("user", 200),
    ("POST", "/v1/users/{user_id}/pending/approve"): Case("user", 404, {"memory_ids": ["none"]}),
    ("POST", "/v1/users/{user_id}/pending/reject"): Case("user", 404, {"memory_ids": ["none"]}),
    ("POST", "/v1/users/{user_id}/undo"): Case("user", 404, {"extraction_id": "ext_none"}),
    ("POST", "/v1/users/{user_id}/turns"): Case("user", 201, {"content": "hello"}),
    ("POST", "/v1/users/{user_id}/context"): Case("user", 200, {"query": "winter"}),
    ("GET", "/v1/users/{user_id}/context/documents"): Case("user", 200),
    ("GET", "/v1/users/{user_id}/context/documents/{document}"): Case("user", 200),
    ("GET", "/v1/users/{user_id}/events"): Case("user", 200, query="?follow=false"),
    ("GET", "/admin/events"): Case("root", 200, query="?follow=false"),
    ("GET", "/admin/users"): Case("root", 200),
    ("DELETE", "/admin/users/{user_id}"): Case("root", 200),
    ("POST", "/admin/compress/run"): Case("root", 202, {"dry_run": True}),
    ("GET", "/admin/compress/jobs/{job_id}"): Case("root", 200),
    ("GET", "/admin/compress/stats"): Case("root", 200),
}


def routes() -> set[tuple[str, str]]:
    """Return every route of the application, the answers to OPTIONS aside."""
    found = create_app(None, KeyStore("nowhere")).routes.routes
    return {
        (method, route.path_format)
        for route in found
        for method in route.methods
        if method != "OPTIONS"
    } - {("GET", "/schema/{path}")}  # says 404 to what else is asked below /schema


def test_every_route_is_tested_here() -> None:
    assert routes() == set(CASES)


def of(*whos: str) -> list[Any]:
    return [
        pytest.param(method, path, case, id=f"{method} {path}")
        for (method, path), case in CASES.items()
        if case.who in whos
    ]


closed = pytest.mark.parametrize(("method", "path", "case"), of("user", "root"))


@pytest.fixture
def ask(service: Service):
    """Ask a route of Alice's, filled in with what there is."""
    memory_id = service.add(ALICE, SECRET)
    job = service("POST", "/admin/compress/run", service.root, json={"dry_run": True}).json()

    def ask(method: str, path: str, case: Case, key: str | None, **given: Any) -> httpx.Response:
        whose = "somebody" if (method, path) == ("DELETE", "/admin/users/{user_id}") else ALICE
        parts = {"memory_id": memory_id, "job_id": job["job_id"], "document": "none"}
        filled = path.format(user_id=whose, **parts) + case.query
        return service(method, filled, key, json=case.body, **given)

    return ask


def each(*whos: str) -> list[tuple[str, str, Case]]:
    return [(*route, case) for route, case in CASES.items() if case.who in whos]


def test_no_key_is_refused(ask) -> None:
    for route in each("user", "root"):
        answer = ask(*route, None)
        problem(answer, 401, "unauthorized")
        assert answer.headers["www-authenticate"] == 'Bearer realm="memory-actors"'


def test_a_wrong_key_is_refused(service: Service, ask) -> None:
    revoked, key = service.keys.create(ALICE)
    service.keys.revoke(key.id)
    last = "0" if service.alice[-1] != "0" else "1"
    for wrong in (revoked, service.alice[:-1] + last, service.root.upper(), "ma_", "x" * 500):
        for route in each("user", "root"):
            answer = ask(*route, wrong)
            problem(answer, 401, "unauthorized")
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            assert SECRET not in answer.text


def test_a_key_not_sent_as_bearer_is_refused(service: Service, ask) -> None:
    for header in (service.root, f"Basic {service.root}", f"Token {service.root}", "Bearer", ""):
        for route in each("user", "root"):
            problem(ask(*route, None, headers={"Authorization": header}), 401, "unauthorized")


def test_another_users_key_is_refused(service: Service, ask) -> None:
    for route in each("user", "root"):
        answer = ask(*route, service.bob)
        problem(answer, 403, "forbidden")
        assert SECRET not in answer.text


def test_a_users_own_key_opens_no_admin_route(service: Service, ask) -> None:
    for route in each("root"):
        problem(ask(*route, service.alice), 403, "forbidden")


@pytest.mark.parametrize(("method", "path", "case"), of("user"))
def test_the_users_own_key_is_let_in(service: Service, ask, method, path, case) -> None:
    assert ask(method, path, case, service.alice).status_code == case.status


@closed
def test_a_root_key_is_let_in_everywhere(service: Service, ask, method, path, case) -> None:
    """Also beside a header of another kind."""
    more = {"X-Api-Key": "x"}
    assert ask(method, path, case, service.root, headers=more).status_code == case.status


def test_public_routes_need_no_key(service: Service) -> None:
    for method, path, case in each("anybody"):
        assert service(method, path).status_code == case.status
        assert service(method, path, "ma_wrong").status_code == case.status


@pytest.mark.parametrize("path", sorted({path for _, path in CASES if "{" in path}))
def test_other_methods_and_options_tell_nothing_without_a_key(service: Service, path: str) -> None:
    filled = path.format(user_id=ALICE, memory_id="x", job_id="x", document="x")
    problem(service("OPTIONS", filled), 401, "unauthorized")
    answer = service("PUT", filled, service.alice)
    problem(answer, 405, "method-not-allowed")
    assert "allow" in answer.headers


def test_rights_are_checked_before_the_body_is_read(service: Service) -> None:
    """The question who may ask comes before the body is read."""
    path = f"/v1/users/{ALICE}/memories"
    problem(service("POST", path, content=b"junk"), 401, "unauthorized")
    problem(service("POST", path, service.bob, content=b"junk"), 403, "forbidden")
    problem(service("POST", path, service.alice, content=b"junk"), 400, "invalid-input")


def test_two_keys_at_once_are_refused(service: Service) -> None:
    headers = [("Authorization", f"Bearer {key}") for key in (service.bob, service.root)]
    answer = service.client.get(f"/v1/users/{ALICE}/usage", headers=headers)
    problem(answer, 401, "unauthorized")


def test_a_revoked_key_is_refused_at_once(service: Service) -> None:
    token, key = service.keys.create(BOB)
    path = f"/v1/users/{BOB}/usage"
    assert service("GET", path, token).status_code == 200
    KeyStore(service.keys.path.parent).revoke(key.id)  # by another process
    problem(service("GET", path, token), 401, "unauthorized")


# --- another user's data, never


@pytest.mark.parametrize(
    "path",
    [
        "/v1/users/alice/usage",
        "/v1/users/%61lice/usage",
        "/v1/users//alice/usage",
        "//v1//users/alice//usage/",
        "/v1/users/ALICE/usage",
        "/v1/users/alice%00/usage",
        "/v1/users/alice%20/usage",
        "/v1/users/alice./usage",
        "/v1/users/alice%2F/usage",
        "/v1/users/alice%252F/usage",
        "/v1/users/bob%2F..%2Falice/usage",
        "/v1/users/bob/../alice/usage",
        "/v1/users/bob/%2e%2e/alice/usage",
        "/v1/users/bob%5C..%5Calice/usage",
        "/v1/users/bob;/alice/usage",
        "/v1/users/bob%3Fuser_id=alice/usage",
        "/v1/users/bob%23/usage",
        "/v1/users/%EF%BD%82ob/usage",  # full-width b
        "/v1/users/b%CE%BFb/usage",  # Greek omicron
        "/v1/users/bob%E2%80%8B/usage",  # zero-width space
        "/v1/users/bob%CC%81/usage",  # combining accent
        "/v1/users/bob%ff/usage",
        "/v1/users/%C0%AFalice/usage",  # overlong slash
        "/v1/users/%ED%A0%80/usage",  # half a surrogate pair
        "/v1/users/%/usage",
        "/v1/users/%2/usage",
        "/v1/users/*/usage",
        "/v1/users/{user_id}/usage",
        "/v1/users/bob/memories/../../alice/usage",
        "/v1/users/bob%2Fusage",
        "/V1/users/bob/usage",
        "http://x/v1/users/alice/usage",
        "/v1/users/" + "a" * 600 + "/usage",
    ],
)
def test_no_spelling_of_a_path_reaches_another_user(service: Service, path: str) -> None:
    service.add(ALICE, SECRET)
    answer = service("GET", path, service.bob)
    assert answer.status_code in (400, 403, 404), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE", "HISTORY"])
@pytest.mark.parametrize("spelt", ["{}", "..%2F..%2Falice%2Fmemories%2F{}", "alice%2F{}", "{}%00"])
def test_a_guessed_id_of_anothers_memory_finds_nothing(
    service: Service, method: str, spelt: str
) -> None:
    memory_id = service.add(ALICE, SECRET)
    path = f"/v1/users/{BOB}/memories/{spelt.format(memory_id)}"
    if method == "HISTORY":
        method, path = "GET", f"{path}/history"
    body = {"content": "mine now"} if method == "PATCH" else None
    answer = service(method, path, service.bob, json=body)
    problem(answer, 404, "not-found")
    assert SECRET not in answer.text
    mine = service("GET", f"/v1/users/{ALICE}/memories/{memory_id}", service.alice).json()
    assert mine["content"] == SECRET


def test_parameters_do_not_name_another_user(service: Service) -> None:
    service.add(ALICE, SECRET)
    answer = service("GET", f"/v1/users/{BOB}/usage?user_id={ALICE}", service.bob)
    problem(answer, 400, "invalid-input")
    headers = {"User-Id": ALICE, "X-User-Id": ALICE, "X-Original-URL": "/v1/users/alice/usage"}
    answer = service("GET", f"/v1/users/{BOB}/usage", service.bob, headers=headers)
    assert answer.json()["user_id"] == BOB


ODD_IDS = [
    "a/b", "/", "..", ".", "%", "%2F", "a b", "a+b", "x?y#z", "é", "e\u0301", "日本語", "🎿",
    "a\\b", "search", "memories", "{user_id}", "a\nb", "\x00", "me@example.com", "a;b=c", "x" * 512,
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_IDS, ids=range(len(ODD_IDS)))
def test_odd_ids_are_taken_as_they_are(service: Service, odd: str) -> None:
    """Odd ids of users and memories are taken as they are."""
    token, _ = service.keys.create(odd)
    base = f"/v1/users/{quote(odd, safe='')}"
    body = {"content": "User enjoys tea", "memory_id": odd}
    added = service("POST", f"{base}/memories", token, json=body)
    assert added.status_code == 201, added.text
    assert added.json()["memory_id"] == odd
    where = added.headers["location"]
    found = service("GET", where, token)
    assert (found.status_code, found.json()["memory_id"]) == (200, odd)
    assert service("GET", f"{base}/usage", token).json()["user_id"] == odd
    assert service.call(lambda: service.memory.user(odd).get(odd)).content == "User enjoys tea"
    problem(service("GET", f"{base}/usage", service.bob), 403, "forbidden")


# --- the tier of a key


def tier_of(service: Service, user_id: str) -> str:
    return service.call(lambda: service.memory.user(user_id).usage()).tier


def test_the_first_use_of_a_key_sets_the_tier(service: Service) -> None:
    token, key = service.keys.create("tia", "free")
    assert tier_of(service, "tia") == "local"
    path = "/v1/users/tia/usage"
    assert service("GET", path, token).json()["tier"] == "free"
    assert next(kept for kept in service.keys.all() if kept.id == key.id).tier_is_set
    service.call(lambda: service.memory.user("tia").set_tier("enterprise"))
    assert service("GET", path, token).json()["tier"] == "enterprise"


def test_a_refused_key_sets_no_tier(service: Service) -> None:
    token, _ = service.keys.create("tom", "free")
    problem(service("GET", f"/v1/users/{ALICE}/usage", token), 403, "forbidden")
    assert tier_of(service, "tom") == "local"


def test_an_unnoted_tier_is_set_all_the_same(service: Service, monkeypatch) -> None:
    def full(_key_id: str) -> None:
        raise KeyFileError("no room")

    token, _ = service.keys.create("ted", "free")
    monkeypatch.setattr(service.keys, "note_tier_is_set", full)
    assert service("GET", "/v1/users/ted/usage", token).json()["tier"] == "free"


def test_keys_that_cannot_be_read_let_nobody_in(service: Service) -> None:
    whole = service.keys.path.read_bytes()
    try:
        service.keys.path.write_bytes(b"{")
        problem(service("GET", f"/v1/users/{BOB}/usage", service.root), 503, "unavailable")
    finally:
        service.keys.path.write_bytes(whole)
    assert service("GET", f"/v1/users/{BOB}/usage", service.bob).status_code == 200
