"""The memory tool: results and errors to the letter, and nothing outside of /memories."""

from typing import Any

import pytest
from support.context import FakeContext

from memory_actors import MemoryTool, MemoryToolError

pytestmark = pytest.mark.anyio
REFUSED = r"must start with|would escape|Invalid path"


NOTES = "/memories/notes.txt"


def ask(command: str, path: str | None = None, **more: Any) -> dict[str, Any]:
    return {"command": command, **({} if path is None else {"path": path}), **more}


class Tool:
    """A tool over documents in memory, with short calls."""

    def __init__(self) -> None:
        self.user = FakeContext()
        self.tool = MemoryTool(self.user)

    async def __call__(self, command: str, path: str | None = None, **more: Any) -> str:
        return await self.tool.call(ask(command, path, **more))

    async def text(self, name: str) -> str:
        return self.user.held[name].text


@pytest.fixture
async def tool() -> Tool:
    made = Tool()
    for name, text in (
        ("notes.txt", "Hello World\nThis is line two\n"),
        ("trips/rome.md", "# Rome\n\n- see the Forum\n"),
        ("trips/2024/oslo.md", "x" * 1536),
        ("trips/2024/deep/er.md", "x" * 2048),
    ):
        assert "successfully" in await made("create", f"/memories/{name}", file_text=text)
    return made


# --- view


async def test_a_directory_is_listed_two_levels_deep_with_sizes(tool) -> None:
    await tool("create", "/memories/.hidden/a", file_text="x")
    await tool("create", "/memories/node_modules/a", file_text="x")
    assert await tool("view", "/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden "
        "items and node_modules:\n"
        "3.6K\t/memories\n"
        "29B\t/memories/notes.txt\n"
        "3.5K\t/memories/trips/\n"
        "3.5K\t/memories/trips/2024/\n"
        "24B\t/memories/trips/rome.md"
    )
    assert await tool("view", "/memories/trips/") == (
        "Here're the files and directories up to 2 levels deep in /memories/trips/, excluding "
        "hidden items and node_modules:\n"
        "3.5K\t/memories/trips/\n"
        "3.5K\t/memories/trips/2024/\n"
        "2K\t/memories/trips/2024/deep/\n"
        "1.5K\t/memories/trips/2024/oslo.md\n"
        "24B\t/memories/trips/rome.md"
    )


async def test_a_file_is_shown_with_line_numbers_six_wide(tool) -> None:
    assert await tool("view", "/memories/notes.txt") == (
        "Here's the content of /memories/notes.txt with line numbers:\n"
        "     1\tHello World\n     2\tThis is line two\n     3\t"
    )


@pytest.mark.parametrize(
    ("view_range", "shown"),
    [([2, 2], [2]), ([2, -1], [2, 3]), ([0, 1], [1]), ([3, 9], [3]), ([3, 1], []), ([9, -1], [])],
)
async def test_a_range_of_lines_is_shown(tool, view_range, shown: list[int]) -> None:
    said = await tool("view", "/memories/notes.txt", view_range=view_range)
    lines = said.split("\n")[1:]
    assert [int(line.split("\t")[0]) for line in lines if line] == shown


# --- errors to the letter


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (
            ask("view", path="/memories/no"),
            "The path /memories/no does not exist. Please provide a valid path.",
        ),
        (
            ask("create", path=NOTES, file_text=""),
            "Error: File /memories/notes.txt already exists",
        ),
        (
            ask("create", path="/memories/trips", file_text=""),
            "Error: File /memories/trips already exists",
        ),
        (
            ask("create", path="/memories/notes.txt/a", file_text=""),
            "Error: The path /memories/notes.txt is not a directory",
        ),
        (
            ask("str_replace", path="/memories/no", old_str="a", new_str="b"),
            "Error: The path /memories/no does not exist. Please provide a valid path.",
        ),
        (
            ask("str_replace", path="/memories/trips", old_str="a", new_str="b"),
            "Error: The path /memories/trips does not exist. Please provide a valid path.",
        ),
        (
            ask("str_replace", path=NOTES, old_str="No", new_str=""),
            (
                "No replacement was performed, old_str `No` did not appear verbatim in "
                "/memories/notes.txt."
            ),
        ),
        (
            ask("str_replace", path=NOTES, old_str="", new_str="a"),
            (
                "No replacement was performed, old_str `` did not appear verbatim in "
                "/memories/notes.txt."
            ),
        ),
        (
            ask("str_replace", path=NOTES, old_str="l", new_str=""),
            (
                "No replacement was performed. Multiple occurrences of old_str `l` in lines: "
                "1, 1, 1, 2. Please ensure it is unique"
            ),
        ),
        (
            ask("insert", path="/memories/no", insert_line=0, insert_text="a"),
            "Error: The path /memories/no does not exist",
        ),
        (
            ask("insert", path="/memories", insert_line=0, insert_text="a"),
            "Error: The path /memories does not exist",
        ),
        (
            ask("insert", path=NOTES, insert_line=3, insert_text="a"),
            (
                "Error: Invalid `insert_line` parameter: 3. It should be within the range of lines "
                "of the file: [0, 2]"
            ),
        ),
        (
            ask("insert", path=NOTES, insert_line=-1, insert_text=""),
            (
                "Error: Invalid `insert_line` parameter: -1. It should be within the range of "
                "lines of the file: [0, 2]"
            ),
        ),
        (
            ask("delete", path="/memories/no"),
            "Error: The path /memories/no does not exist",
        ),
        (ask("delete", path="/memories"), "Cannot delete the /memories directory itself"),
        (
            ask("rename", old_path="/memories/no", new_path="/memories/a"),
            "Error: The path /memories/no does not exist",
        ),
        (
            ask("rename", old_path=NOTES, new_path="/memories/trips"),
            "Error: The destination /memories/trips already exists",
        ),
        (
            ask("rename", old_path="/memories/trips", new_path="/memories/trips/a"),
            "Error: /memories/trips cannot be moved into itself",
        ),
        (
            ask("rename", old_path="/memories", new_path="/memories/a"),
            "Cannot rename the /memories directory itself",
        ),
        (
            ask("view", path="/etc/passwd"),
            "Path must start with /memories, got: /etc/passwd",
        ),
        (
            ask("view", path="/memories/../etc/passwd"),
            "Path /memories/../etc/passwd would escape /memories directory",
        ),
        (ask("drop"), "Error: Unknown command: drop"),
        ({}, "Error: Unknown command: None"),
        (ask("view"), "Error: Missing required parameter `path` of view"),
        (
            ask("view", path=5),
            "Error: Invalid `path` parameter: 5. It should be a string of valid Unicode",
        ),
        (
            ask("view", path=NOTES, view_range=[1]),
            "Error: Invalid `view_range` parameter: [1]. It should be a list of two whole numbers",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
async def test_what_is_refused_is_answered_as_documented(tool, command, answer: str) -> None:
    held = {name: document.text for name, document in tool.user.held.items()}
    assert await tool.tool.call(command) == answer
    assert {name: document.text for name, document in tool.user.held.items()} == held
    with pytest.raises(MemoryToolError) as refused:
        await tool.tool.execute(command)
    assert str(refused.value) == answer


@pytest.mark.parametrize(
    "path",
    [
        "..", "/", "", "memories/a", "/memoriesX/a", "~/a", "C:\\memories\\a", "/memories/..",
        "/memories/.", "/memories/a/../../b", "/memories/a/./b", "/memories\\..\\a",
        "/memories/..\\a", "/memories/%2e%2e/a", "/memories/%2E%2E%2Fa", "/memories/%252e%252e/a",
        "/memories/..%2fa", "/memories/%5c..%5ca", "/memories/a%00", "/memories/a\x00b",
        "/memories/\uff0e\uff0e/a", "/memories/.. /a", "/memories/\n..", "/memories/a\u202eb",
    ],
)  # fmt: skip
async def test_no_path_leads_out(tool, path: str) -> None:
    before = dict(tool.user.held)
    calls = [
        ("view", {}), ("create", {"file_text": "x"}), ("delete", {}),
        ("str_replace", {"old_str": "x", "new_str": "y"}),
        ("insert", {"insert_line": 0, "insert_text": "x"}),
    ]  # fmt: skip
    for command, more in calls:
        with pytest.raises(MemoryToolError, match=REFUSED):
            await tool.tool.execute({"command": command, "path": path, **more})
    for old, new in ((path, "/memories/new"), ("/memories/notes.txt", path)):
        with pytest.raises(MemoryToolError, match=REFUSED):
            await tool.tool.execute({"command": "rename", "old_path": old, "new_path": new})
    assert tool.user.held == before


async def test_a_document_whose_name_is_no_path_is_not_served(tool) -> None:
    for name in ("../a", "a//b", "/a", "a/", "a\nb"):
        await tool.user.create(name, "x")
    assert (await tool("view", "/memories")).count("\n") == 5
    assert await tool("delete", "/memories/a") == "Error: The path /memories/a does not exist"


# --- writes


async def test_a_text_is_replaced_and_shown(tool) -> None:
    await tool("create", "/memories/a", file_text="1\n2\n3\n4 old\n5\n6\n7\n")
    assert await tool("str_replace", "/memories/a", old_str="old", new_str="new\nnewer") == (
        "The memory file has been edited. Here is the snippet showing the change (with line "
        "numbers):\n     2\t2\n     3\t3\n     4\t4 new\n     5\tnewer\n     6\t5"
    )
    assert await tool.text("a") == "1\n2\n3\n4 new\nnewer\n5\n6\n7\n"
    await tool("str_replace", "/memories/a", old_str="1\n")
    assert (await tool.text("a")).startswith("2\n")


@pytest.mark.parametrize(
    ("line", "text", "after"),
    [
        (0, "x\n", "x\na\nb"),
        (1, "x", "a\nx\nb"),
        (2, "x\ny\n", "a\nb\nx\ny\n"),
        (1, "", "a\n\nb"),
    ],
)
async def test_lines_are_inserted(tool, line: int, text: str, after: str) -> None:
    await tool("create", "/memories/a", file_text="a\nb")
    said = await tool("insert", "/memories/a", insert_line=line, insert_text=text)
    assert said == "The file /memories/a has been edited."
    assert await tool.text("a") == after


async def test_directories_are_renamed_and_deleted_as_a_whole(tool) -> None:
    said = await tool("rename", old_path="/memories/trips", new_path="/memories/past/trips")
    assert said == "Successfully renamed /memories/trips to /memories/past/trips"
    assert sorted(tool.user.held) == [
        "notes.txt", "past/trips/2024/deep/er.md", "past/trips/2024/oslo.md", "past/trips/rome.md"
    ]  # fmt: skip
    assert await tool("delete", "/memories/past") == "Successfully deleted /memories/past"
    assert list(tool.user.held) == ["notes.txt"]


async def test_an_edit_applies_to_the_newest_text(tool) -> None:
    """An edit is made on the text that somebody else has just written."""
    document = tool.user.held["notes.txt"]
    document.before_append = [lambda: document.set("Hello World\nmeanwhile\n")]
    await tool("str_replace", "/memories/notes.txt", old_str="World", new_str="you")
    assert document.text == "Hello you\nmeanwhile\n"


def test_the_definition_names_every_parameter() -> None:
    made = MemoryTool.definition()
    schema = made["input_schema"]
    assert made["name"] == "memory"
    assert schema["properties"]["command"]["enum"] == [
        "view", "create", "str_replace", "insert", "delete", "rename"
    ]  # fmt: skip
    assert set(schema["properties"]) == {
        "command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line",
        "insert_text", "old_path", "new_path",
    }  # fmt: skip
