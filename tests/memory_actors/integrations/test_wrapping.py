"""Wrapped clients of OpenAI and Anthropic, against a server on loopback that speaks for both."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.fakes import FakeEmbedder
from support.llm_server import Server

from memory_actors import InvalidInputError, MemorySystem, Settings, UserMemory, sync

pytest.importorskip("openai", reason="needs openai, of the extra dev")
pytest.importorskip("anthropic", reason="needs anthropic, of the extra dev")

from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from memory_actors.integrations.wrapping import wrap_anthropic, wrap_openai

pytestmark = pytest.mark.anyio
KNOWN, ASKED, SAID = "Ada keeps bees in Bern.", "Where does Ada keep bees?", "In Bern."


class Endpoint(NamedTuple):
    """How one endpoint is called, what it answers, and where its prompt is."""

    path: str
    sdk: str
    arguments: dict[str, Any]
    whole: dict[str, Any]
    events: list[dict[str, Any]]
    told: str


def _message(text: str, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": text}


ENDPOINTS = [
    Endpoint(
        "chat.completions.create", "openai",
        {"messages": [{"role": "system", "content": "Be brief."}, _message(ASKED, "user")]},
        {"choices": [{"index": 0, "message": _message(SAID), "finish_reason": "stop"}]},
        [{"choices": [{"index": 0, "delta": {"content": part}}]} for part in ("In ", "Bern.")]
        + [{"choices": []}],
        "messages",
    ),
    Endpoint(
        "responses.create", "openai", {"input": ASKED, "instructions": "Be brief."},
        {"output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
                     "content": [{"type": "output_text", "text": SAID, "annotations": []}]}]},
        [{"type": "response.output_text.delta", "delta": part, "sequence_number": 1, "item_id": "m",
          "output_index": 0, "content_index": 0, "logprobs": []} for part in ("In ", "Bern.")],
        "instructions",
    ),
    Endpoint(
        "messages.create", "anthropic",
        {"max_tokens": 9, "system": "Be brief.",
         "messages": [{"role": "user", "content": [{"type": "text", "text": ASKED}]}]},
        {"id": "m", "type": "message", "role": "assistant", "model": "m",
         "content": [{"type": "text", "text": SAID}],
         "usage": {"input_tokens": 1, "output_tokens": 1}},
        [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}}
         for part in ("In ", "Bern.")],
        "system",
    ),
]  # fmt: skip


@pytest.fixture(params=ENDPOINTS, ids=lambda one: one.path)
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    return request.param


SETTINGS = Settings(check_replay=True, latency_targets_ms={})


@pytest.fixture
def blocking(tmp_path: Path) -> Iterator[sync.UserMemory]:
    with sync.MemorySystem.open(
        tmp_path / "m", embedder=FakeEmbedder(), settings=SETTINGS, alerts=[]
    ) as memory:
        memory.user("ada").add(KNOWN)
        yield memory.user("ada")


@pytest.fixture
async def user(tmp_path: Path) -> AsyncIterator[UserMemory]:
    async with MemorySystem.open(
        tmp_path / "m", embedder=FakeEmbedder(), settings=SETTINGS, alerts=[]
    ) as memory:
        await memory.user("ada").add(KNOWN)
        yield memory.user("ada")


def client_of(endpoint: Endpoint, server: Server, *, is_async: bool) -> Any:
    if endpoint.sdk == "openai":
        kind: Any = AsyncOpenAI if is_async else OpenAI
        return kind(api_key="k", base_url=server.url, max_retries=0)
    kind = AsyncAnthropic if is_async else Anthropic
    return kind(api_key="k", base_url=server.url.removesuffix("/v1"), max_retries=0)


def call_of(client: Any, endpoint: Endpoint) -> Any:
    for name in endpoint.path.split("."):
        client = getattr(client, name)
    return client


def wrapped(client: Any, endpoint: Endpoint, user: Any) -> Any:
    wrap = wrap_openai if endpoint.sdk == "openai" else wrap_anthropic
    return call_of(wrap(client, user), endpoint)


def streamed(events: list[dict[str, Any]]) -> bytes:
    said = [f"event: {one.get('type', 'x')}\ndata: {json.dumps(one)}\n\n" for one in events]
    return "".join([*said, "data: [DONE]\n\n"]).encode()


def turns_of(memories: Any) -> list[tuple[str | None, str]]:
    return sorted((one.role, one.content) for one in memories if one.role)


TURNS = [("assistant", SAID), ("user", ASKED)]


def test_a_call_knows_what_is_remembered_and_is_remembered(
    endpoint: Endpoint, server: Server, blocking: sync.UserMemory
) -> None:
    client = client_of(endpoint, server, is_async=False)
    create = wrapped(client, endpoint, blocking)
    for _ in range(2):  # as after a failure: nothing is stored twice
        server.script = [("sends", json.dumps(endpoint.whole).encode())]
        response = create(model="m", **endpoint.arguments)

    assert SAID in response.model_dump_json()
    told = json.dumps(server.bodies[0][endpoint.told])
    assert KNOWN in told
    assert "Be brief." in told
    assert ASKED not in json.dumps(server.bodies[0].get("system", ""))
    assert turns_of(blocking.list_memories(["long_term"])) == TURNS
    assert [one.content for one in blocking.short_term.messages()] == [ASKED, SAID]


def test_a_stream_is_remembered_at_its_end(
    endpoint: Endpoint, server: Server, blocking: sync.UserMemory
) -> None:
    create = wrapped(client_of(endpoint, server, is_async=False), endpoint, blocking)
    server.script = [("sends", streamed(endpoint.events))]

    with create(model="m", stream=True, **endpoint.arguments) as stream:
        assert turns_of(blocking.list_memories(["long_term"])) == TURNS[1:]
        assert next(stream) is not None
        count = sum(1 for _ in stream)

    assert count == len(endpoint.events) - 1
    assert turns_of(blocking.list_memories(["long_term"])) == TURNS


async def test_an_async_client_does_the_same(
    endpoint: Endpoint, server: Server, user: UserMemory
) -> None:
    client = client_of(endpoint, server, is_async=True)
    create = wrapped(client, endpoint, user)
    server.script = [
        ("sends", json.dumps(endpoint.whole).encode()),
        ("sends", streamed(endpoint.events)),
    ]

    await create(model="m", **endpoint.arguments)
    async with await create(model="m", stream=True, **endpoint.arguments) as stream:
        assert await anext(stream) is not None
        count = len([event async for event in stream])

    assert count == len(endpoint.events) - 1
    assert KNOWN in json.dumps(server.bodies[0][endpoint.told])
    assert turns_of(await user.list_memories(["long_term"])) == TURNS


def test_results_of_tools_are_no_turns(server: Server, blocking: sync.UserMemory) -> None:
    client = wrap_anthropic(client_of(ENDPOINTS[2], server, is_async=False), blocking, "s")
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    server.script = [("sends", json.dumps(ENDPOINTS[2].whole | {"content": [use]}).encode())]
    client.messages.create(model="m", max_tokens=9, messages=messages)
    result = {"type": "tool_result", "tool_use_id": "t", "content": "the output"}
    messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    server.script = [("sends", json.dumps(ENDPOINTS[2].whole).encode())]
    client.with_options(timeout=5).messages.create(model="m", max_tokens=9, messages=messages)

    assert turns_of(blocking.list_memories(["long_term"])) == TURNS
    assert messages[2]["content"] == [result]
    assert "system" in server.bodies[1]


def test_what_the_messages_have_is_not_told_again(
    server: Server, blocking: sync.UserMemory
) -> None:
    client = wrap_openai(client_of(ENDPOINTS[0], server, is_async=False), blocking)
    server.script = [("sends", json.dumps(ENDPOINTS[0].whole).encode())]
    messages: list[Any] = [
        {"role": "user", "content": KNOWN}, {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": ASKED},
    ]  # fmt: skip
    client.chat.completions.create(model="m", messages=messages)

    assert [one["role"] for one in server.bodies[0]["messages"]] == ["user", "assistant", "user"]


async def test_what_would_not_be_remembered_is_refused(server: Server, user: UserMemory) -> None:
    client: Any = client_of(ENDPOINTS[0], server, is_async=False)
    with pytest.raises(InvalidInputError, match=r"memory_actors\.sync"):
        wrap_openai(client, user)
    with pytest.raises(InvalidInputError, match="no client"):
        wrap_anthropic(object(), user)
    with pytest.raises(InvalidInputError, match="UserMemory"):
        wrap_openai(client, "ada")  # type: ignore[arg-type]


def test_a_helper_that_streams_by_itself_is_refused(
    server: Server, blocking: sync.UserMemory
) -> None:
    client = wrap_anthropic(client_of(ENDPOINTS[2], server, is_async=False), blocking)
    with pytest.raises(InvalidInputError, match="stream=True"):
        _ = client.messages.stream
    assert client.models is not None
