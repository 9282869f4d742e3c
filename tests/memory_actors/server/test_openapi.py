"""The description of the API: every route, with examples that are true."""

import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from memory_actors.server import KeyStore, create_app
from memory_actors.server.bodies import body_of
from tests.memory_actors.server.helpers import Service

APP = create_app(None, KeyStore("nowhere")).routes  # type: ignore[arg-type]
DOCUMENT = APP.openapi_schema.to_schema()
OPERATIONS: list[tuple[str, str, dict[str, Any]]] = [
    (path, method, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]


def examples_in(content: dict[str, Any]) -> list[Any]:
    (told,) = content.values()
    return [one["value"] for one in told.get("examples", {}).values()]


def test_the_server_is_made_without_docstrings() -> None:
    code = (
        "from memory_actors.server import KeyStore, create_app; "
        "create_app(None, KeyStore('nowhere')).routes.openapi_schema.to_schema()"
    )
    subprocess.run([sys.executable, "-OO", "-c", code], check=True)


def test_every_route_is_described() -> None:
    routes = {
        (route.path_format, method.lower())
        for route in APP.routes
        for method in route.methods
        if method != "OPTIONS" and not route.path.startswith(("/schema", "/ui", "/docs"))
    }
    assert routes == {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}


def test_every_answer_has_an_example() -> None:
    for path, _, operation in OPERATIONS:
        assert operation["summary"], path
        assert operation["description"], path
        for status, answer in operation["responses"].items():
            (value,) = examples_in(answer["content"])
            is_stream = path.endswith("/events")
            fine = "text/event-stream" if is_stream else "application/json"
            media_type = fine if int(status) < 400 else "application/problem+json"
            assert list(answer["content"]) == [media_type], path
            assert int(status) < 400 or value["status"] == int(status), path


def test_every_parameter_and_body_has_an_example() -> None:
    for path, method, operation in OPERATIONS:
        for parameter in operation.get("parameters", []):
            assert parameter["examples"], (path, parameter["name"])
        assert ("requestBody" in operation) == (method in ("post", "patch")), path
        for media in operation.get("requestBody", {}).get("content", {}).values():
            assert media["schema"]["examples"], path


def test_every_route_but_health_says_that_it_needs_a_key() -> None:
    assert DOCUMENT["security"] == [{"apiKey": []}]
    for path, _, operation in OPERATIONS:
        assert operation.get("security") == ([{}] if path == "/health" else None), path
        assert ("401" in operation["responses"]) == (path != "/health"), path


@pytest.mark.parametrize(
    ("path", "method", "body"),
    [
        ("/v1/users/{user_id}/memories", "post", body_of("add")),
        ("/v1/users/{user_id}/memories/search", "post", body_of("retrieve")),
        ("/v1/users/{user_id}/memories/{memory_id}", "patch", body_of("update")),
        ("/admin/compress/run", "post", body_of("system.compact")),
    ],
)
def test_the_examples_of_bodies_are_what_the_routes_take(path, method, body) -> None:
    content = DOCUMENT["paths"][path][method]["requestBody"]["content"]
    (example,) = content["application/json"]["schema"]["examples"]
    assert msgspec.convert(example, body)


def test_the_document_needs_no_key_and_no_network(
    service: Service,
) -> None:
    """The document is served without a key, and loads nothing from elsewhere."""
    for path in ("/schema", "/schema/openapi.json"):
        answer = service("GET", path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/vnd.oai.openapi+json")
        assert answer.json()["paths"].keys() == DOCUMENT["paths"].keys()
        assert "<script" not in answer.text


def test_the_manual_names_every_route_and_runs_nothing(service: Service) -> None:
    page = service("GET", "/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for path, item in DOCUMENT["paths"].items():
        for method in item:
            assert f"<code>{method.upper()} {path}</code>" in page.text
    assert "<script" not in page.text
    assert "//" not in re.sub(r"https?://[\w.-]*example|&quot;", "", page.text)
