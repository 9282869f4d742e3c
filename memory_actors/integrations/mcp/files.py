"""`--tools files`: the six commands of the memory tool, on context documents."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from memory_actors.integrations.mcp.tool import Tool, ToolAnswer, ToolCall
from memory_actors.integrations.memory_tool import MemoryTool
from memory_actors.integrations.memory_tool.tool import PARAMETERS, command_parameters

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
    takes = msgspec.defstruct(
        command.title().replace("_", ""),
        [_field(*one) for one in command_parameters(command).items()],
        frozen=True, kw_only=True, forbid_unknown_fields=True,
    )  # fmt: skip

    async def run(call: ToolCall) -> ToolAnswer:
        given = {name: getattr(call.given, name) for name in takes.__struct_fields__}
        text = await MemoryTool(call.user).execute({"command": command, **given})
        return ToolAnswer(FilesAnswer(text), text=text)

    return Tool(
        command, command.replace("_", " ").title(), COMMANDS[command], takes, FilesAnswer, run,
        reads=command == "view", destroys=command in ("delete", "str_replace", "rename"),
    )  # fmt: skip


def _field(name: str, is_required: bool) -> tuple[Any, ...]:
    """Return a parameter as a field of a struct, with its words for one command alone."""
    kind, (meta,) = PARAMETERS[name].__origin__, PARAMETERS[name].__metadata__
    words = msgspec.Meta(description=meta.description.rpartition(": ")[2])
    if is_required:
        return name, Annotated[kind, words]
    return name, Annotated[kind | None, words], None


TOOLS: Final[Sequence[Tool]] = tuple(map(_tool, COMMANDS))
