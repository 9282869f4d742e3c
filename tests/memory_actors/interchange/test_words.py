"""Importers lose no word and invent none, whatever place of an export it stands in."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support import foreign
from support.foreign import AT, write_json

from memory_actors import InvalidInputError
from memory_actors.interchange import import_from, plan_import
from memory_actors.interchange.sources.markdown import front_matter, passages
from memory_actors.interchange.sources.port import SourceReading

pytestmark = pytest.mark.anyio


@pytest.fixture
def texts(store, tmp_path: Path) -> Any:
    """Import a value as a JSON file, and return the contents with their roles, and the notes."""

    async def work(program: str, value: Any, **more: Any) -> tuple[list[tuple[str, Any]], str]:
        path = value if isinstance(value, Path) else write_json(tmp_path / "x.json", value)
        async with store() as memory:
            report = await import_from(memory, program, path, user_id="me", **more)
            held = [(one.content, one.role) async for one in memory.user("me").export()]
        return held, " ".join(note.says for note in report.notes)

    return work


# --- Markdown

NESTED = """# A `# b` <!-- c -->

- item
  ```
  [[fenced]] <!-- kept --> # no heading
  ```
- ``[[code]]`` and [[meant]] <!-- gone -->

      [[indented]]

Setext
======
`<!-- kept -->` text
<!-- [[gone]]

# gone -->

[reference]: [[said]]
"""


def test_code_is_code_for_every_importer() -> None:
    found = list(passages(NESTED))
    assert [(one.text, one.headings) for one in found] == [
        (
            "item\n```\n[[fenced]] <!-- kept --> # no heading\n```",
            ("A `# b`",),
        ),
        ("``[[code]]`` and [[meant]] \n\n    [[indented]]", ("A `# b`",)),
        ("`<!-- kept -->` text", ("Setext",)),
        ("[reference]: [[said]]", ("Setext",)),
    ]
    prose = " ".join(one.prose for one in found)
    assert [word for word in ("fenced", "code", "indented", "kept") if word in prose] == []
    assert "[[meant]]" in prose
    assert "[[said]]" in prose


def test_front_matter_cannot_grow_by_aliases() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    reading = SourceReading()
    fields, _ = front_matter("---\n" + "\n".join(lines) + "\n---\n", reading)
    assert all(isinstance(value, str) for value in fields.values())
    assert len(reading.notes()) == 1


def test_code_of_html_is_code() -> None:
    text = (
        "<pre>\n[[no]]\n\n# none\n</pre>\n\n"
        "<code>[[no]]</code> [[a]] `<code>` [[b]] `</code>`, <CODE> [[c]]\n"
    )
    pre, line = passages(text)
    assert (pre.text, pre.prose) == ("<pre>\n[[no]]\n\n# none\n</pre>", "")
    assert re.findall(r"\[\[\w+", line.prose) == ["[[a", "[[b", "[[c"]


def test_a_front_matter_that_is_no_yaml_keeps_all_lines_of_a_field() -> None:
    text = "---\ntitle: A: B\ntags:\n  - tea\n  - wine\nempty:\nby:\tada\n\tmore: x\n---\n"
    fields, _ = front_matter(text, SourceReading())
    assert fields == {
        "title": "A: B", "tags": "- tea\n  - wine", "empty": "", "by": "ada\n\tmore: x",
    }  # fmt: skip


async def test_notes_of_other_encodings_cost_their_bytes_alone(texts, tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "a.md").write_bytes(b"- caf\xe9\n")
    (tmp_path / "n" / "b.md").write_text("- tea\n")
    held, told = await texts("memory-md", tmp_path / "n")
    assert [text for text, _ in held] == ["caf\ufffd", "tea"]
    assert "not UTF-8" in told


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\0\0", "tea".encode("utf-16"), b"PK\3\4\0"])
async def test_a_file_that_is_no_text_has_no_words(texts, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "a.md").write_bytes(data)
    with pytest.raises(InvalidInputError, match="no text in UTF-8"):
        await texts("memory-md", tmp_path / "n" / "a.md")
    (tmp_path / "n" / "b.md").write_text("tea")
    held, told = await texts("memory-md", tmp_path / "n")
    assert [text for text, _ in held] == ["tea"]
    assert "no text in UTF-8" in told


# --- chats


def chatgpt(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    names = [f"n{n}" for n in range(len(messages))]
    mapping = dict(
        foreign.chatgpt_node(name, names[at - 1] if at else None, names[at + 1 : at + 2], message)
        for at, (name, message) in enumerate(zip(names, messages, strict=True))
    )
    return [{"id": "c", "mapping": mapping, "current_node": names[-1]}]


async def test_speech_and_results_of_tools_are_words_of_chatgpt(texts) -> None:
    speech = {"content_type": "audio_transcription", "text": "I ski", "direction": "in"}
    sound = {"content_type": "audio_asset_pointer", "asset_pointer": "x"}
    found = {"content_type": "tether_quote", "url": "u", "text": "It snows"}
    ran = {"content_type": "execution_output", "text": "42"}
    thought = {"content_type": "thoughts", "thoughts": [{"content": "hm"}]}
    hidden = foreign.chatgpt_message("user", "hidden")
    held, told = await texts(
        "chatgpt",
        chatgpt(
            foreign.chatgpt_message("user", speech, sound),
            {"author": {"role": "assistant"}, "content": thought},
            {**foreign.chatgpt_message("assistant", "run()"), "recipient": "python"},
            {"author": {"role": "tool"}, "content": ran},
            {"author": {"role": "tool"}, "content": found},
            {**hidden, "metadata": {"is_visually_hidden_from_conversation": True}},
            foreign.chatgpt_message("assistant", "Nice."),
        ),
    )
    assert sorted(held) == sorted(
        [("I ski", "user"), ("42", "tool"), ("It snows", "tool"), ("Nice.", "assistant")]
    )
    assert "audio_asset_pointer" in told
    assert "thoughts" in told


async def test_attachments_and_results_of_tools_are_words_of_claude(texts) -> None:
    found = [{"type": "knowledge", "title": "t", "text": "It snows"}, {"type": "image"}]
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "name": "search", "input": {}},
        {"type": "tool_result", "name": "search", "content": found},
        {"type": "voice_note", "title": "v", "text": "Aloud"},
        {"type": "text", "text": "Nice."},
    ]
    reminded = "I ski<long_conversation_reminder>be brief</long_conversation_reminder>"
    pasted = {"file_name": "paste.txt", "extracted_content": "My gate code is 4711"}
    only = foreign.claude_message("u3", "human", text="", attachments=[pasted, {"file_name": "p"}])
    placeholder = foreign.claude_message("u4", "assistant", text="not shown", content=parts[1:2])
    conversation = {
        "uuid": "c",
        "name": "n",
        "chat_messages": [
            foreign.claude_message("u1", "human", text=reminded),
            foreign.claude_message("u2", "assistant", text="", content=parts),
            only,
            placeholder,
        ],
    }
    said = [
        ("I ski", "user"), ("It snows", "tool"), ("Aloud\n\nNice.", "assistant"),
        ("My gate code is 4711", "user"),
    ]  # fmt: skip
    for exported in ([conversation], conversation, {"conversations": [conversation]}):
        held, told = await texts("claude", exported)
        assert sorted(held) == sorted(said)
    for word in ("reminder", "an attachment", "thinking", "tool_use"):
        assert word in told


async def test_words_of_claude_are_found_in_every_form_of_a_part(texts) -> None:
    message = foreign.claude_message
    by_tool = {"type": "mcp_tool_result", "content": [{"type": "text", "text": "It snows"}]}
    failed = {"type": "tool_result", "content": None, "message": "No network"}
    inner = {"type": "rich", "content": {"type": "text", "text": "Deep snow"}}
    reminded = "Quote: <reminder>buy milk</reminder> <system-reminder>be brief</system-reminder>"
    messages = [
        message("u1", "human", text="", content="I ski"),
        message("u2", "human", text="", content={"type": "text", "text": "I row"}),
        message("u3", "assistant", text="", content=[by_tool, failed, inner]),
        message("u4", "human", text=reminded),
    ]
    held, _ = await texts("claude", [{"uuid": "c", "name": "n", "chat_messages": messages}])
    assert sorted(held) == sorted([
        ("I ski", "user"), ("I row", "user"), ("It snows", "tool"), ("No network", "tool"),
        ("Deep snow", "assistant"), ("Quote: <reminder>buy milk</reminder> ", "user"),
    ])  # fmt: skip


async def test_the_machine_of_letta_is_not_the_user(texts) -> None:
    def said(role: str, text: str, **more: Any) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}], "created_at": AT, **more}

    cut = json.dumps({"message": "Hello \ud83d"})
    send = {"function": {"name": "send_message", "arguments": cut}}
    search = {"function": {"name": "search", "arguments": "{}"}}
    messages = [
        said("user", json.dumps({"type": "login", "last_login": "Never", "time": "now"})),
        said("user", json.dumps({"type": "heartbeat", "reason": "x", "time": "now"})),
        said("user", json.dumps({"type": "system_alert", "message": "memory pressure"})),
        said("user", json.dumps({"type": "user_message", "message": "I ski", "time": "now"})),
        said("user", "<system-reminder>be kind</system-reminder>I swim"),
        said("user", '{"type": "cheese", "name": "Brie"}'),
        said("assistant", "They ski. I greet them.", tool_calls=[send]),
        said("tool", json.dumps({"status": "OK", "message": "None"}), name="send_message"),
        said("assistant", "I look it up.", tool_calls=[search]),
        said("tool", json.dumps({"status": "OK", "message": "It snows"}), name="search"),
        said("assistant", "It snows there."),
    ]
    held, told = await texts("letta", {"agents": [{"name": "a", "messages": messages}]})
    assert sorted(held) == sorted([
        ("I ski", "user"), ("I swim", "user"), ('{"type": "cheese", "name": "Brie"}', "user"),
        ("Hello \ufffd", "assistant"), ("It snows", "tool"), ("It snows there.", "assistant"),
    ])  # fmt: skip
    for word in ("login", "heartbeat", "system_alert", "reminder"):
        assert word in told


# --- nothing, and nobody


@pytest.mark.parametrize(
    ("program", "value", "fits"),
    [
        ("mem0", [{"conversation_id": "c", "mapping": {}}], "No other format fits"),
        ("mem0", {"nodes": [{"uuid": "1", "name": "Ada"}]}, "--from zep"),
        ("claude", chatgpt(foreign.chatgpt_message("user", "hi")), "--from chatgpt"),
        ("chatgpt", [{"chat_messages": [{"sender": "human", "text": "hi"}]}], "--from claude"),
        ("mcp-memory", {"content": "hi"}, "no --from"),
        ("letta", [{"memory": "likes tea"}], "--from mem0"),
        ("letta", {"title": "t", "chat": "x"}, "No other format fits"),
    ],
)  # fmt: skip
async def test_nothing_understood_is_a_failure_that_names_the_formats_that_fit(
    tmp_path: Path, program: str, value: Any, fits: str
) -> None:
    path = write_json(tmp_path / "x.json", value)
    with pytest.raises(InvalidInputError, match=f"nothing in .* as {program}: .*{fits}"):
        await plan_import(program, path)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        *((program, {}) for program in ("mem0", "zep", "letta", "chatgpt", "claude")),
        ("mem0", {"conversations": []}), ("chatgpt", {"results": []}), ("zep", []),
        ("claude", {"a": [], "b": []}),
    ],
)  # fmt: skip
async def test_a_file_without_even_an_empty_list_that_is_understood_is_a_failure(
    tmp_path: Path, program: str, value: Any
) -> None:
    path = write_json(tmp_path / "x.json", value)
    with pytest.raises(InvalidInputError, match=r"x\.json.* has nothing in it"):
        await plan_import(program, path)


@pytest.mark.parametrize(
    ("program", "data"),
    [
        ("mem0", "[]"), ("mem0", '{"results": []}'), ("zep", '{"edges": []}'), ("letta", "[]"),
        ("chatgpt", "[]"), ("claude", "[]"), ("claude", '{"conversations": []}'),
        ("letta", '{"agents": []}'), ("mcp-memory", ""), ("mcp-memory", "\n"),
        ("mcp-memory", '{"entities": [], "relations": []}'), ("memory-md", ""),
    ],
)  # fmt: skip
async def test_an_empty_export_is_read_and_has_no_records(
    tmp_path: Path, program: str, data: str
) -> None:
    (tmp_path / "x.json").write_text(data)
    assert (await plan_import(program, tmp_path / "x.json")).records == 0


@pytest.mark.parametrize(
    ("name", "data", "fits"),
    [
        ("a.md", "# Tea\n\n- green\n", "--from basic-memory or --from memory-md"),
        ("a.jsonl", '{"content": "tea"}\n{"content": "wine"}\n', "no --from"),
        ("a.jsonl", '{"type": "entity", "name": "A"}\n{"type": "x"}\n', "--from mcp-memory"),
    ],
)
async def test_a_damaged_file_names_the_formats_that_fit(
    tmp_path: Path, name: str, data: str, fits: str
) -> None:
    (tmp_path / name).write_text(data)
    with pytest.raises(InvalidInputError, match=f"cannot be read as JSON.*It reads with {fits}$"):
        await plan_import("mem0", tmp_path / name)
