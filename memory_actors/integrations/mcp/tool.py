"""The notion of a tool, without the protocol: a name, words for models, schemas, and a function.

What it takes and returns are structs: their JSON schemas are shown to models, and arguments are
read as them, so a schema and what is accepted cannot differ.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.sharing.system import UserMemory

Progress: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Told how many of how many steps are done."""


class ToolAnswer(NamedTuple):
    """The result of a tool."""

    structured: Any
    """A struct: `structuredContent`, and as JSON the text."""
    text: str | None = None
    """The text for the model, if it is not that JSON."""
    note: str | None = None
    """A second text: what was searched, where `structured` has a shape that cannot say it."""
    meta: Mapping[str, Any] | None = None
    """The second text for programs."""
    changed: bool = False
    """True if memory may be another than before."""


class ToolCall(NamedTuple):
    """A call of a tool."""

    user: UserMemory
    given: Any
    """The arguments, as the struct that the tool takes."""
    progress: Progress


Run: TypeAlias = Callable[[ToolCall], Awaitable[ToolAnswer]]


class Tool(NamedTuple):
    """A tool for models."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    returns: type[msgspec.Struct]
    run: Run
    reads: bool = False
    """True if it changes nothing."""
    destroys: bool = False
    """True if it takes something out of memory."""
    repeats: bool = False
    """True if to call it again changes nothing more."""

    def arguments(self, given: Mapping[str, Any] | None) -> msgspec.Struct:
        """Return arguments as a model gave them.

        :raises InvalidInputError: they are not what the tool takes.
        """
        try:
            return msgspec.convert(dict(given or {}), self.takes)
        except msgspec.ValidationError as error:
            wanted = ", ".join(
                field.encode_name + ("" if field.required else " (optional)")
                for field in msgspec.structs.fields(self.takes)
            )
            raise InvalidInputError(
                f"{self.name}: {str(error).replace(' - at `$', ' - at `')}. It takes {wanted}"
            ) from error


def schema(of: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a struct, with `type: object` at its root, as tools need it."""
    root, shared = msgspec.json.schema_components([of], ref_template="#/$defs/{name}")
    name = root[0]["$ref"].rpartition("/")[2]
    found = {key: value for key, value in shared.pop(name).items() if key != "title"}
    found.pop("description", None)  # that is the tool's
    return {**found, "$defs": shared} if shared else found


def builtins(value: Any) -> Any:
    """Return a struct as JSON has it."""
    return msgspec.to_builtins(value, str_keys=True)
