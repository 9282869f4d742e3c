"""A tool, without the protocol: a name, words for models, schemas, and a function.

Arguments are read leniently, as clients and models write numbers, nulls and nested JSON in several
ways.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.json_text import decoded
from memory_actors.base.records import JsonObject
from memory_actors.sharing.system import UserMemory

Progress: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Told how many of how many steps are done."""


class ToolAnswer(NamedTuple):
    """The result of a tool."""

    structured: object
    """A struct: `structuredContent`, and as JSON the text."""
    text: str | None = None
    """The text for the model, if it is not that JSON."""
    note: str | None = None
    """A second text: what was searched, where `structured` has a shape that cannot say it."""
    meta: Mapping[str, object] | None = None
    """The second text for programs."""


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

    def arguments(self, given: Mapping[str, object] | None) -> msgspec.Struct:
        """Return the arguments that a model gave as a struct, or raise `InvalidInputError`."""
        wanted = schema(self.takes)
        try:
            return msgspec.convert(_lenient(dict(given or {}), wanted), self.takes, strict=False)
        except msgspec.ValidationError as error:
            reason = _reason(error, given or {}, wanted)
            raise InvalidInputError(f"{self.name}: {reason}") from error


DEPTH: Final = 8  # no tool takes deeper objects
UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*?)`( - at `\$.*)?", re.DOTALL)
SYNONYMS: Final = {"top_k": "limit", "memory_id": "id", "entity_ref": "id"}
"""Names of the Python API that a tool takes for its own."""


def _lenient(value: object, wanted: JsonObject) -> object:
    """Return a value without nulls for optional fields, and with JSON in texts decoded."""
    kind = wanted.get("type")
    if kind in ("integer", "number", "boolean") and isinstance(value, str):
        return value.strip()
    if kind in ("array", "object") and isinstance(value, str):
        within = decoded(value)
        value = within if isinstance(within, list | dict) else value
    if kind == "array" and value is not None:
        items = value if isinstance(value, list | tuple) else [value]
        return [_lenient(one, wanted["items"]) for one in items]
    fields = wanted.get("properties")
    if not isinstance(value, dict) or fields is None:
        return value
    named = {}
    for name, one in value.items():
        own = SYNONYMS.get(name, name)
        is_meant = own in fields and own not in value and name not in fields
        named[own if is_meant else name] = one
    for name in fields.keys() & named.keys() - {*wanted.get("required", ())}:
        # An optional field is left out with null, or with a blank where no text goes.
        is_text = fields[name]["type"] == "string"
        if named[name] is None or (not is_text and str(named[name]).strip() in ("", "null")):
            del named[name]
    return {name: _lenient(one, fields.get(name, {})) for name, one in named.items()}


def _reason(error: msgspec.ValidationError, given: Mapping[str, object], wanted: JsonObject) -> str:
    fields, required = wanted["properties"], wanted.get("required", ())
    takes = [name if name in required else f"{name} (optional)" for name in fields]
    takes_all = f"It takes {', '.join(takes)}" if takes else "It takes no arguments"
    nested = UNKNOWN.fullmatch(str(error))
    unknown = [nested[1]] if nested else [name for name in given if name not in fields]
    if not unknown:
        return f"{str(error).replace(' - at `$', ' - at `')}. {takes_all}"
    known = {name: name for name in (_names(wanted) if nested else fields)}
    known |= {name: own for name, own in SYNONYMS.items() if own in known and name not in known}
    if not known:
        return f"there is no argument `{unknown[0]:.80}`. {takes_all}"
    bare = {name.replace("_", ""): own for name, own in known.items()}  # camel case is snake case
    (nearest,) = get_close_matches(unknown[0].replace("_", "").casefold(), bare, 1, 0)
    meant = f"did you mean `{bare[nearest]}`?"
    return f"there is no argument `{unknown[0]:.80}`: {meant} {takes_all}"


def _names(wanted: JsonObject) -> Iterator[str]:
    for name, one in wanted.get("properties", {}).items():
        yield name
        yield from _names(one.get("items", one))


def schema(of: type[msgspec.Struct], *, depth: int = DEPTH) -> dict[str, object]:
    """Return the JSON schema of a struct, in the subset that all clients accept.

    Each value has one `type`: references are replaced by what they name, a union by its first
    text or other member, and every array says what its items are. `depth` levels of objects say
    what they hold.
    """
    root, shared = msgspec.json.schema_components([of], ref_template="{name}")
    found = _one_type(root[0], shared, depth)
    found.pop("description", None)  # the tool has its own
    return {"properties": {}, **found}


def _one_type(said: JsonObject, shared: JsonObject, depth: int) -> dict[str, object]:
    if "$ref" in said:
        said = {**shared[said["$ref"]], "description": said.get("description")}
    members = [one for one in said.get("anyOf", ()) if one.get("type") != "null"]
    if members:
        texts = [one for one in members if one.get("type") == "string"]
        said = {**(texts or members)[0], "description": said.get("description")}
        return _one_type(said, shared, depth)
    kept = {name: said[name] for name in ("type", "description", "enum") if said.get(name)}
    kept.setdefault("type", "string")  # of an enumeration
    if kept["type"] == "array":
        kept["items"] = _one_type(said.get("items", {}), shared, depth)
    if depth and said.get("properties"):
        fields = said["properties"].items()
        kept["properties"] = {name: _one_type(one, shared, depth - 1) for name, one in fields}
        kept |= {"required": said["required"]} if said.get("required") else {}
    return kept


def builtins(value: object) -> object:
    """Return a struct as JSON has it."""
    return msgspec.to_builtins(value, str_keys=True)
