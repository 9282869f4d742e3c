"""Ten conversations with answers as small models give them, over both protocols."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.llm_server import Server

from memory_actors import InvalidInputError
from memory_actors.extraction.llm import extractor_of

pytest.importorskip("openai", reason="openai is not installed: pip install 'memory-actors[llm]'")
pytestmark = pytest.mark.anyio

CONVERSATIONS = sorted((Path(__file__).parent / "conversations").glob("*.json"))


@pytest.fixture(params=["ollama", "openai", "url"])
def name(request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a model of the server of the tests."""
    monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1"))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    named = {"ollama": "ollama:qwen3:4b", "openai": "openai:tiny", "url": f"{server.url}#qwen3:4b"}
    return named[request.param]


@pytest.mark.parametrize("file", CONVERSATIONS, ids=lambda file: file.stem)
async def test_what_a_small_model_answers_becomes_facts(
    file: Path, name: str, server: Server, open_memory: Any
) -> None:
    """The outcome is the same over each protocol."""
    told = json.loads(file.read_text("utf-8"))
    server.script = [("says", *one) for one in told["answers"]]
    async with open_memory(extractor=name) as memory:
        user = memory.user("u")
        for fact in told["facts"]:
            await user.add(fact)
        for role, text in told["messages"]:
            await user.short_term.add_message(text, role=role)
        done = await user.extract()
        assert [[one.action, one.content, one.came] for one in done.facts] == told["outcomes"]
        assert (len(done.message_ids), done.messages_left) == (len(told["messages"]), 0)
        kept = await user.list_memories(memory_types=["long_term"])
        assert sorted(one.content for one in kept) == told["facts_after"]
    assert not server.script, "each answer was asked for"


def asked(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that a request asks for."""
    own = body.get("format")
    return own or body["response_format"]["json_schema"]["schema"]  # type: ignore[no-any-return]


async def test_each_protocol_is_asked_for_the_schema_and_with_its_own_prompt(
    name: str, server: Server, open_memory: Any
) -> None:
    server.script = [("says", '{"proposals": []}')]
    async with open_memory(extractor=name) as memory:
        user = memory.user("u")
        await user.short_term.add_message("I like tea. " * 1_000, role="user")
        assert (await user.extract()).extractor == f"llm:{'tiny' if 'tiny' in name else 'qwen3:4b'}"
    (body,), (headers,) = server.bodies, server.headers
    assert list(asked(body)["properties"]) == ["proposals"]
    system = body["messages"][0]["content"]
    assert ("Example:" in system) is not name.startswith("openai:")
    assert ("sk-of-openai" in headers["authorization"]) is name.startswith("openai:")
    if name.startswith("ollama:"):
        size = len("".join(one["content"] for one in body["messages"])) // 3
        assert body["options"]["num_ctx"] >= max(8_192, size + body["options"]["num_predict"])
        assert body["options"]["temperature"] == 0
        assert (body["stream"], body["think"]) == (False, False)


async def test_the_connections_to_a_named_model_are_closed_with_its_extractor(name: str) -> None:
    extractor: Any = extractor_of(name)
    await extractor.aclose()
    assert extractor._client._client.is_closed()


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("ollama:", "which model"),
        ("openai:", "which model"),
        ("openai:gpt-4o-mini", "OPENAI_API_KEY"),
        ("klingon:x", "extractor must be"),
        ("gpt-4o-mini", "extractor must be"),
        ("http://", "base URL"),
    ],
)
async def test_a_name_that_names_no_model_is_refused(
    named: str, why: str, server: Server, open_memory: Any
) -> None:
    with pytest.raises(InvalidInputError, match=why):
        async with open_memory(extractor=named):
            pass
