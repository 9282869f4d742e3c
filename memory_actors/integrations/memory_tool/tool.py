"""The six commands of the memory tool that LLM vendors ship, on context documents.

Results and errors have the texts of the public documentation of `memory_20250818`, and where that
gives none, those of the vendor's Python SDK; docs/context.md lists which.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from typing import Annotated, Any, ClassVar, Final

import anyio.to_thread
import msgspec

from memory_actors.base import errors
from memory_actors.base.records import JsonObject
from memory_actors.integrations.memory_tool import paths
from memory_actors.kinds.context.alignment import Placed, align
from memory_actors.kinds.context.markdown import LINES, render
from memory_actors.kinds.passages import text_digest
from memory_actors.sharing.system import UserMemory

# --- the parameters of the commands, and the check of what a model gave


def _parameter(kind: object, words: str, length: int | None = None) -> object:
    return Annotated[kind, msgspec.Meta(description=words, min_length=length, max_length=length)]


COMMANDS: Final = ("view", "create", "str_replace", "insert", "delete", "rename")
PARAMETERS: Final[Mapping[str, Any]] = {
    "path": _parameter(str, "All commands but rename: a path under /memories."),
    "view_range": _parameter(
        list[int], "view: first and last line of a file, from 1; -1 is the last of all.", 2
    ),
    "file_text": _parameter(str, "create: what the new file says."),
    "old_str": _parameter(str, "str_replace: a text that is there just once."),
    "new_str": _parameter(str, "str_replace: what takes its place."),
    "insert_line": _parameter(int, "insert: the line behind which the text goes; 0 is the start."),
    "insert_text": _parameter(str, "insert: the text."),
    "old_path": _parameter(str, "rename: the path of a file or directory."),
    "new_path": _parameter(str, "rename: its new path, where nothing is yet."),
}  # fmt: skip
"""The types and the words of all parameters; the words begin with the commands that take them."""
_DESCRIPTION = (
    "Your memory: Markdown files under /memories that stay from one conversation to the next. View "
    "/memories before you begin. Write down what will be of use later, and keep it short: files "
    "have a size limit. Commands: view (a directory or a file), create (a new file), str_replace "
    "(a text in a file), insert (lines into a file), delete and rename (a file or a directory)."
)
_A = {
    str: "a string of valid Unicode",
    int: "a whole number",
    list[int]: "a list of two whole numbers",
}


def command_parameters(command: str) -> dict[str, bool]:
    """Return the names of a command's parameters, with True for those that are required."""
    parameters = list(signature(getattr(MemoryTool, f"_{command}")).parameters.values())[1:]
    return {one.name: one.default is one.empty for one in parameters}


def arguments_of(command: object) -> tuple[str, dict[str, object]]:
    """Return a command's name and its arguments, which are of the right types.

    Arguments that a command does not take are left out: models fill in more than they were asked
    for.

    :raises MemoryToolError: it is no command, or an argument is missing or none.
    """
    if not isinstance(command, Mapping):
        raise paths.refused(
            "bad input", what='a command is an object such as {"command": "view", …}'
        )
    name, given = command.get("command"), JsonObject()
    if name not in COMMANDS:
        raise paths.refused("bad input", what=f"Unknown command: {name}")
    for key, is_required in command_parameters(name).items():
        if (value := command.get(key)) is not None:
            given[key] = _checked(key, value)
        elif is_required:
            raise paths.refused("bad input", what=f"Missing required parameter `{key}` of {name}")
    return name, given


def _checked(key: str, value: object) -> object:
    try:
        msgspec.json.encode(value)  # halves of surrogate pairs cannot be
        return msgspec.convert(value, PARAMETERS[key])
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        said = _A[PARAMETERS[key].__origin__]
        raise paths.refused(
            "bad input", what=f"Invalid `{key}` parameter: {value!r:.200}. It should be {said}"
        ) from error


# --- the tool

TRIES_MAX = 10  # an edit that somebody else's got ahead of is made again on what there is now

Edit = Callable[[str], tuple[str, str]]


class MemoryTool:
    """Serves the commands view, create, str_replace, insert, delete and rename for one user."""

    ends_files: ClassVar[bool] = False
    """True if an insert also ends the file with a line feed, as the vendor's Python SDK does."""

    def __init__(self, user: UserMemory):
        self._context = user.context

    @staticmethod
    def definition() -> dict[str, object]:
        """Return name, description and JSON schema, for models that do not have the tool built in.

        For those that have: `{"type": "memory_20250818", "name": "memory"}`.
        """
        properties: dict[str, object] = {
            "command": {"type": "string", "enum": [*COMMANDS], "description": "What to do."}
        }
        properties |= {name: msgspec.json.schema(kind) for name, kind in PARAMETERS.items()}
        return {
            "name": "memory",
            "description": _DESCRIPTION,
            "input_schema": {
                "type": "object", "properties": properties, "required": ["command"],
            },
        }  # fmt: skip

    async def call(self, command: object) -> str:
        """Carry out a command as a model gave it; return the text for the model, errors too.

        Errors that the model did not cause are raised: the log cannot be written, the system is
        closed, …
        """
        try:
            return await self.execute(command)
        except paths.MemoryToolError as error:
            return str(error)

    async def execute(self, command: object) -> str:
        """Carry out a command and return the text for the model.

        :raises MemoryToolError: it is refused; the message is the text for the model.
        """
        name, arguments = arguments_of(command)
        try:
            return str(await getattr(self, f"_{name}")(**arguments))
        except errors.QuotaExceededError as error:
            # A model has no command that archives.
            said = str(error).removesuffix(".")
            raise paths.MemoryToolError(
                f"Error: {said}. Shorten or delete something first."
            ) from error
        except (errors.InvalidInputError, errors.NotFoundError) as error:
            raise paths.MemoryToolError(f"Error: {error}") from error

    async def clear(self) -> None:
        """Delete all files. This is no command of the tool: models do not have it."""
        for _ in range(TRIES_MAX):
            with suppress(errors.NotFoundError):  # somebody else deleted one of them
                return await self._context.delete_all(list(await self._sizes()))
        raise _busy(paths.ROOT)

    # --- the commands: a parameter with a default may be left out

    async def _view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        name, sizes = paths.name_of(path), await self._sizes()
        if name in sizes:
            first, last = view_range or (1, -1)
            blocks = await self._context.document(name).blocks()
            return paths.view_of_file(path, render(block.raw for block in blocks), first, last)
        if name and not any(paths.is_under(file, name) for file in sizes):
            raise paths.refused("missing to view", path=path)
        return paths.view_of_directory(path, name, sizes)

    async def _create(self, path: str, file_text: str) -> str:
        name = await self._new_name(path, "exists")
        try:
            await self._context.create(name, file_text)
        except errors.InvalidInputError:
            await self._new_name(path, "exists")  # somebody else was first
            raise
        return f"File created successfully at: {path}"

    async def _str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        def edit(text: str) -> tuple[str, str]:
            if not old_str or old_str not in text:
                raise paths.refused("not found", old_str=old_str, path=path)
            if text.count(old_str) > 1:
                raise paths.refused(
                    "found often", old_str=old_str, lines=_lines_with(text, old_str)
                )
            at = text.index(old_str)
            new = text[:at] + new_str + text[at + len(old_str) :]
            return new, (
                "The memory file has been edited. Here is the snippet showing the change (with "
                f"line numbers):\n{paths.snippet(new, at)}"
            )

        return await self._edit(path, "missing to edit", edit)

    async def _insert(self, path: str, insert_line: int, insert_text: str) -> str:
        def edit(text: str) -> tuple[str, str]:
            lines = LINES.findall(text)
            if not 0 <= insert_line <= len(lines):
                raise paths.refused("bad insert_line", line=insert_line, lines=len(lines))
            added = insert_text if insert_text.endswith("\n") else f"{insert_text}\n"
            before = "".join(lines[:insert_line])
            end = "" if before.endswith("\n") or not before else "\n"
            new = "".join([before, end, added, *lines[insert_line:]])
            ended = new if new.endswith("\n") or not self.ends_files else f"{new}\n"
            return ended, f"The file {path} has been edited."

        return await self._edit(path, "missing to insert", edit)

    async def _delete(self, path: str) -> str:
        name = paths.name_of(path)
        if not name:
            raise paths.refused("root", verb="delete")
        for _ in range(TRIES_MAX):
            with suppress(errors.NotFoundError):  # somebody else deleted one of them
                await self._context.delete_all(await self._files_at(name, path))
                return f"Successfully deleted {path}"
        raise _busy(path)

    async def _rename(self, old_path: str, new_path: str) -> str:
        old = paths.name_of(old_path)
        if not old:
            raise paths.refused("root", verb="rename")
        for _ in range(TRIES_MAX):
            files = await self._files_at(old, old_path)
            new = await self._new_name(new_path, "destination exists")
            if paths.is_under(new, old):
                raise paths.refused("bad input", what=f"{old_path} cannot be moved into itself")
            with suppress(errors.NotFoundError):  # somebody else moved one of them
                await self._rename_all({file: new + file.removeprefix(old) for file in files})
                return f"Successfully renamed {old_path} to {new_path}"
        raise _busy(old_path)

    # --- documents as files

    async def _sizes(self) -> dict[str, int]:
        found = await self._context.documents()
        return {one.name: one.size_bytes for one in found if paths.is_reachable(one.name)}

    async def _files_at(self, name: str, path: str) -> list[str]:
        sizes = await self._sizes()
        files = [name] if name in sizes else [file for file in sizes if paths.is_under(file, name)]
        if not files:
            raise paths.refused("missing", path=path)
        return files

    async def _new_name(self, path: str, taken: str) -> str:
        """Return the name for something new: nothing is there, and no file where directories go."""
        name, sizes = paths.name_of(path), await self._sizes()
        if not name or name in sizes or any(paths.is_under(file, name) for file in sizes):
            raise paths.refused(taken, path=path)
        for parent in paths.parents(name):
            if parent in sizes:
                raise paths.refused("no directory", path=paths.path_of(parent))
        return name

    async def _rename_all(self, names: Mapping[str, str]) -> None:
        try:
            await self._context.rename_all(names)
        except errors.InvalidInputError:
            sizes = await self._sizes()
            for new in names.values():
                if new in sizes:  # somebody else was first
                    raise paths.refused("destination exists", path=paths.path_of(new)) from None
            raise

    async def _edit(self, path: str, missing: str, edit: Edit) -> str:
        """Edit a file; again if somebody else has written to it since it was read."""
        name = paths.name_of(path)
        document = self._context.document(name) if name else None
        for _ in range(TRIES_MAX):
            if document is None or name not in await self._sizes():
                raise paths.refused(missing, path=path)
            blocks = [Placed(b.block_id, b.raw, b.heading) for b in await document.blocks()]
            text = render(block.raw for block in blocks)
            new, answer = edit(text)
            await document.check_text(new)
            new_id = self._context.new_entry_id
            changes = await anyio.to_thread.run_sync(align, blocks, new, new_id)
            try:
                await document.change(changes, expected=text_digest(text))
            except errors.StaleDocumentError:
                continue
            return answer
        raise _busy(path)


def _busy(path: str) -> errors.UnavailableError:
    return errors.UnavailableError(f"{path} keeps changing: try again later")


def _lines_with(text: str, old_str: str) -> str:
    lines, at = [], text.find(old_str)
    while at >= 0:
        lines.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old_str, at + 1)
    return ", ".join(lines)
