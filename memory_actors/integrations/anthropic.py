"""The memory tool of Anthropic's Python SDK, on a user's context documents.

`MemoryActorsTool` and `AsyncMemoryActorsTool` go where the SDK takes its own tool on a local
directory: into `tools=[...]` of a tool runner. memory_tool/tool.py documents the commands; here are
the SDK's words, where they are other ones, and its two ways that differ: an insert ends the file
with a line feed, and `.` and `..` in a path are resolved as long as they stay inside.
"""

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from memory_actors import sync
from memory_actors.base.errors import InvalidInputError, importing
from memory_actors.integrations.adapting import NEEDS, AnyUser, checked_user, reach
from memory_actors.integrations.memory_tool.paths import ROOT, MemoryToolError
from memory_actors.integrations.memory_tool.tool import MemoryTool
from memory_actors.sharing.system import UserMemory

with importing(NEEDS, "anthropic"):
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError

CLEARED: Final = "All memory cleared"
PATHS: Final = ("path", "old_path", "new_path")
WORDS: Final[Mapping[str, str]] = {
    "missing to insert": "The path {path} does not exist. Please provide a valid path.",
    "bad insert_line": (
        "Invalid `insert_line` parameter: {line}. It should be within the range [0, {lines}]."
    ),
}
"""The SDK's words for a refusal, where they are not those of `TEXTS` without "Error: "."""


class MemoryActorsTool(BetaAbstractMemoryTool):
    """The tool for `client.beta.messages.tool_runner(tools=[MemoryActorsTool(user)], ...)`.

    `user` is that of a `memory_actors.sync.MemorySystem`, as the client is not async, either.
    `cache_control` is the SDK's.
    """

    def __init__(self, user: sync.UserMemory, *, cache_control: object = None):
        super().__init__(cache_control=cache_control)
        if not isinstance(user, sync.UserMemory):
            raise InvalidInputError(
                "a client that is not async takes the user of a memory_actors.sync.MemorySystem: "
                "give that one, or use AsyncMemoryActorsTool with AsyncAnthropic"
            )
        self._user = user

    def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Carry out a command as a model gave it, and return the text for the model.

        :raises ToolError: it is refused; the message is the text for the model.
        """
        return sync.on_loop(self._user, partial(carried_out, command=input))

    def execute(self, command: Any) -> str:
        """Carry out a command. See `call`."""
        return self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        """Delete all files of the user."""
        return sync.on_loop(self._user, cleared)


class AsyncMemoryActorsTool(BetaAsyncAbstractMemoryTool):
    """The memory tool for `AsyncAnthropic`; `user` is async, or that of a `memory_actors.sync`."""

    def __init__(self, user: AnyUser, *, cache_control: object = None):
        super().__init__(cache_control=cache_control)
        self._user = checked_user(user)

    async def call(self, input: object) -> str:  # noqa: A002 - the SDK's name
        """Carry out a command as a model gave it. See `MemoryActorsTool.call`."""
        return await reach(self._user, partial(carried_out, command=input))

    async def execute(self, command: Any) -> str:
        """Carry out a command. See `call`."""
        return await self.call(command.to_dict())

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """Delete all files of the user."""
        return await reach(self._user, cleared)


class _Tool(MemoryTool):
    ends_files = True


async def carried_out(user: UserMemory, command: object) -> str:
    """Carry out a command and return the text for the model; refusals raise `ToolError`."""
    if isinstance(command, Mapping):
        resolved = {name: _resolved(command[name]) for name in PATHS if name in command}
        command = {**command, **resolved}
    try:
        return await _Tool(user).execute(command)
    except MemoryToolError as error:
        said = WORDS[error.why].format(**error.values) if error.why in WORDS else str(error)
        raise ToolError(said.removeprefix("Error: ")) from error


async def cleared(user: UserMemory) -> str:
    """Delete all files of a user, and say so."""
    await _Tool(user).clear()
    return CLEARED


def _resolved(path: object) -> object:
    """Return a path without `.` and `..`, unless they lead out: those the tool refuses."""
    if not isinstance(path, str) or not {".", ".."} & {*path.split("/")}:
        return path
    normal = posixpath.normpath(path)
    return normal if path.startswith(ROOT) and f"{normal}/".startswith(f"{ROOT}/") else path
