"""API keys and grants over HTTP and MCP."""

from typing import Any

import pytest

from memory_actors import MemorySystem
from tests.memory_actors.server.helpers import ALICE, BOB, SECRET, Service, problem
from tests.memory_actors.server.test_mcp import client, opened

pytestmark = pytest.mark.anyio
SCOPE = "/v1/users/project%3Ax"
QUERY = {"query": "diamonds"}


@pytest.fixture
def scope(service: Service) -> Any:
    """A scope with a secret, managed by the root key."""
    service.call(lambda: service.memory.erase("project:x"))
    service.add("project:x", SECRET)
    return service


def granted(service: Service, subject: str, right: str) -> None:
    body = {"subject": subject, "right": right}
    assert service("POST", f"{SCOPE}/grants", service.root, json=body).status_code == 200


def test_a_key_reads_a_scope_from_its_grant_to_its_revocation(scope: Service) -> None:
    token, of_key = scope.keys.create("dan")
    problem(scope("POST", f"{SCOPE}/memories/search", token, json=QUERY), 403, "forbidden")
    granted(scope, f"key:{of_key.id}", "read")
    found = scope("POST", f"{SCOPE}/memories/search", token, json=QUERY).json()
    assert [hit["content"] for hit in found["hits"]] == [SECRET]
    assert scope("GET", f"{SCOPE}/right", token).json() == {"right": "read"}
    added = scope("POST", f"{SCOPE}/memories", token, json={"content": "x"})
    assert SECRET not in str(problem(added, 403, "forbidden"))
    problem(scope("GET", f"{SCOPE}/events?follow=false", token), 403, "forbidden")
    body = {"subject": f"key:{of_key.id}"}
    assert scope("POST", f"{SCOPE}/revoke", scope.root, json=body).json() == {"grants": {}}
    problem(scope("POST", f"{SCOPE}/memories/search", token, json=QUERY), 403, "forbidden")


def test_a_key_speaks_for_its_user_and_no_header_makes_it_another(scope: Service) -> None:
    granted(scope, ALICE, "write")
    granted(scope, "agent:planner", "manage")
    added = scope("POST", f"{SCOPE}/memories", scope.alice, json={"content": "by alice"}).json()
    got = scope("GET", f"{SCOPE}/memories/{added['memory_id']}", scope.root).json()
    assert [one["source"] for one in got["origins"]] == [f"person:{ALICE}"]
    for name in ("Speaks-For", "Agent-Id"):
        for value in ("person%3Aalice", "agent%3Aplanner", "planner"):
            asked = scope("GET", f"{SCOPE}/count", scope.bob, headers={name: value})
            problem(asked, 403, "forbidden")
    headers = {"Speaks-For": "bob"}
    problem(scope("GET", f"{SCOPE}/count", scope.root, headers=headers), 403, "forbidden")


def test_a_search_over_http_asks_the_scopes_of_a_header(scope: Service) -> None:
    granted(scope, ALICE, "read")
    headers = {"Reads": "project%3Ax"}
    mine, theirs = (
        scope("POST", f"/v1/users/{who}/memories/search", key, json=QUERY, headers=headers)
        for who, key in ((ALICE, scope.alice), (BOB, scope.bob))
    )
    assert SECRET in {one["content"] for one in mine.json()["hits"] if one["scope"] == "project:x"}
    assert SECRET not in str(problem(theirs, 403, "forbidden"))


async def test_a_client_over_http_speaks_for_whom_its_handle_names(scope: Service) -> None:
    granted(scope, ALICE, "read")
    async with MemorySystem.connect(scope.url, key=scope.root) as memory:
        hits = await memory.user(ALICE).reads("project:x").retrieve("diamonds")
        assert SECRET in {hit.content for hit in hits}


async def test_mcp_searches_the_scopes_that_the_address_names(scope: Service) -> None:
    granted(scope, ALICE, "read")
    async with client(scope, scope.alice, "/mcp?reads=project%3Ax") as mine:
        found = (await mine.call_tool("recall", {"query": "diamonds"})).structured_content
        assert SECRET in {one["content"] for one in found["memories"]}
        body = {"subject": ALICE}
        assert scope("POST", f"{SCOPE}/revoke", scope.root, json=body).status_code == 200
        done = await mine.call_tool("recall", {"query": "diamonds"})
        assert done.is_error
        assert SECRET not in str(done.content)
    problem(opened(scope, scope.bob, "/mcp?user=project%3Ax"), 403, "forbidden")
