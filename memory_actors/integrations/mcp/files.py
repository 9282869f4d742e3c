"""`--tools files`: the six commands of the memory tool, on context documents."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from memory_actors.integrations.mcp.tool import Tool, ToolAnswer, ToolCall
from memory_actors.integrations.memory_tool import MemoryTool
from memory_actors.integrations.memory_tool.tool import command_parameters

TYPES: Final[dict[str, Any]] = {"string": str, "integer": int, "array": list[int]}
COMMANDS: Final = {
    "view": (
        "View a directory or a file of your memory. View /memories before you begin.\n"
        'Example: {"path": "/memories"}'
    ),
    "create": (
        "Create a new file of your memory.\n"
        'Example: {"path": "/memories/ann.md", "file_text": "- likes tea\\n"}'
    ),
    "str_replace": (
        "Replace a text that is in a file of your memory just once.\n"
        'Example: {"path": "/memories/ann.md", "old_str": "tea", "new_str": "coffee"}'
    ),
    "insert": (
        "Insert lines into a file of your memory, behind a line.\n"
        'Example: {"path": "/memories/ann.md", "insert_line": 1, "insert_text": "- lives in Oslo"}'
    ),
    "delete": (
        'Delete a file or a directory of your memory.\nExample: {"path": "/memories/ann.md"}'
    ),
    "rename": (
        "Rename or move a file or a directory of your memory.\n"
        'Example: {"old_path": "/memories/ann.md", "new_path": "/memories/people/ann.md"}'
    ),
}


class FilesAnswer(msgspec.Struct, frozen=True):
    """The text that the command answers."""

    result: str


def _tool(command: str) -> Tool:
    required, optional = command_parameters(command)
    takes = msgspec.defstruct(
        command.title().replace("_", ""),
        [(name, _worded(schema)) for name, schema in required.items()]
        + [(name, _worded(schema, optional=True), None) for name, schema in optional.items()],
        frozen=True, kw_only=True, forbid_unknown_fields=True,
    )  # fmt: skip

    async def run(call: ToolCall) -> ToolAnswer:
        given = {name: getattr(call.given, name) for name in takes.__struct_fields__}
        text = await MemoryTool(call.user).execute({"command": command, **given})
        return ToolAnswer(FilesAnswer(text), text=text, changed=command != "view")

    return Tool(
        command, command.replace("_", " ").title(), COMMANDS[command], takes, FilesAnswer, run,
        reads=command == "view", destroys=command in ("delete", "str_replace", "rename"),
    )  # fmt: skip


def _worded(schema: dict[str, Any], *, optional: bool = False) -> Any:
    kind = TYPES[schema["type"]]
    words = schema["description"].rpartition(": ")[2]
    return Annotated[kind | None if optional else kind, msgspec.Meta(description=words)]


TOOLS: Final[Sequence[Tool]] = tuple(map(_tool, COMMANDS))
