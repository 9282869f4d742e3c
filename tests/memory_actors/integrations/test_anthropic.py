"""The memory tool of Anthropic's SDK: its words, its ways, and a real tool runner."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.llm_server import Server

from memory_actors import InvalidInputError, Settings, sync

pytest.importorskip("anthropic", reason="needs anthropic, of the extra dev")

from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError

from memory_actors.integrations.anthropic import (
    AsyncMemoryActorsTool,
    MemoryActorsTool,
)

NOTES = "/memories/notes.md"


@pytest.fixture
def user(tmp_path: Path) -> Iterator[sync.UserMemory]:
    settings = Settings(check_replay=True, latency_targets_ms={})
    with sync.MemorySystem.open(
        tmp_path / "memory", embedder=FakeEmbedder(), settings=settings, alerts=[]
    ) as memory:
        yield memory.user("ada")


@pytest.fixture
def tool(user: sync.UserMemory) -> MemoryActorsTool:
    made = MemoryActorsTool(user)
    made.call({"command": "create", "path": NOTES, "file_text": "one\ntwo"})
    return made


def test_a_file_is_a_document_of_the_user(tool, user) -> None:
    assert user.context.document("notes.md").render() == "one\ntwo"
    said = tool.call({"command": "view", "path": NOTES})
    assert said == f"Here's the content of {NOTES} with line numbers:\n     1\tone\n     2\ttwo"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ({"command": "create", "path": NOTES, "file_text": "a"}, f"File {NOTES} already exists"),
        (
            {"command": "insert", "path": "/memories/no", "insert_line": 0, "insert_text": "a"},
            "The path /memories/no does not exist. Please provide a valid path.",
        ),
        (
            {"command": "insert", "path": NOTES, "insert_line": 5, "insert_text": "a"},
            "Invalid `insert_line` parameter: 5. It should be within the range [0, 2].",
        ),
        ({"command": "delete", "path": "/memories/no"}, "The path /memories/no does not exist"),
        (
            {"command": "delete", "path": "/memories/a/.."},
            "Cannot delete the /memories directory itself",
        ),
        (
            {"command": "view", "path": "/memories/../secret"},
            "Path /memories/../secret would escape /memories directory",
        ),
        (
            {"command": "view", "path": "/memories/%2e%2e/secret"},
            "Path /memories/%2e%2e/secret would escape /memories directory",
        ),
        ({"command": "view", "path": "/a/./b"}, "Path must start with /memories, got: /a/./b"),
        (
            {"command": "view", "path": 7},
            "Invalid `path` parameter: 7. It should be a string of valid Unicode",
        ),
        ({"command": "grep"}, "Unknown command: grep"),
        ("view", 'a command is an object such as {"command": "view", …}'),
    ],
)  # fmt: skip
def test_refusals_are_errors_of_the_sdk_in_its_words(tool, command: Any, words: str) -> None:
    with pytest.raises(ToolError) as raised:
        tool.call(command)
    assert str(raised.value) == raised.value.content == words


def test_all_files_can_be_cleared(tool, user) -> None:
    tool.call({"command": "create", "path": "/memories/a/b.md", "file_text": "x"})
    assert tool.clear_all_memory() == tool.clear_all_memory() == "All memory cleared"
    assert user.context.documents() == []


def test_an_async_user_needs_an_async_client() -> None:
    wrong: Any = object()
    with pytest.raises(InvalidInputError, match="AsyncMemoryActorsTool"):
        MemoryActorsTool(wrong)


def reply(*content: dict[str, Any]) -> tuple[str, bytes]:
    stop = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
    message = {
        "id": "m", "type": "message", "role": "assistant", "model": "scripted",
        "content": list(content), "stop_reason": stop, "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return "sends", json.dumps(message).encode()


def use(**command: Any) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": " ".join(command.values()),
        "name": "memory",
        "input": command,
    }


TALK = (
    reply(use(command="create", path="/memories/ada.md", file_text="- skis in Davos")),
    reply({"type": "text", "text": "Noted."}),
)
RECALL = (
    reply(use(command="view", path="/memories/ada.md")),
    reply(use(command="view", path="/memories/no.md")),
    reply({"type": "text", "text": "You ski in Davos."}),
)


def results(server: Server) -> list[dict[str, Any]]:
    """Return the results of tools that the model was given, once each."""
    messages = [one for body in server.bodies for one in body["messages"]]
    parts = [part for one in messages for part in one["content"] if isinstance(part, dict)]
    found = {part["tool_use_id"]: part for part in parts if part["type"] == "tool_result"}
    return list(found.values())


RUN: dict[str, Any] = {"max_tokens": 100, "model": "scripted"}


def test_claude_remembers_in_one_conversation_and_recalls_in_the_next(server, tool) -> None:
    """The real client and tool runner, with a server that says what a model would."""
    client = Anthropic(api_key="none", base_url=server.url.removesuffix("/v1"))
    for script, text in ((TALK, "I ski in Davos"), (RECALL, "Where do I ski?")):
        server.script += script
        messages: Any = [{"role": "user", "content": text}]
        last = client.beta.messages.tool_runner(messages=messages, tools=[tool], **RUN).until_done()
    assert server.bodies[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    _, found, missed = results(server)
    assert "- skis in Davos" in str(found["content"])
    assert not found.get("is_error")
    assert missed["is_error"]
    assert missed["content"] == (
        "The path /memories/no.md does not exist. Please provide a valid path."
    )
    assert last.content[0].text == "You ski in Davos."


@pytest.mark.anyio
async def test_the_async_client_does_the_same(server, open_memory) -> None:
    async with (
        open_memory() as memory,
        AsyncAnthropic(api_key="none", base_url=server.url.removesuffix("/v1")) as client,
    ):
        for script, text in ((TALK, "I ski in Davos"), (RECALL, "Where do I ski?")):
            server.script += script
            tool = AsyncMemoryActorsTool(memory.user("ada"))
            messages: Any = [{"role": "user", "content": text}]
            runner = client.beta.messages.tool_runner(messages=messages, tools=[tool], **RUN)
            await runner.until_done()
        assert await tool.clear_all_memory() == "All memory cleared"
    _, found, missed = results(server)
    assert "- skis in Davos" in str(found["content"])
    assert missed["is_error"]
