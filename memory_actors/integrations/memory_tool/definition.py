"""Arguments of the tool as JSON schema, and the check of what a model gave."""

from collections.abc import Mapping
from typing import Any

from memory_actors.integrations.memory_tool.errors import refused

_PATH = {"type": "string", "description": "A path under /memories, such as /memories/notes.md."}
_PROPERTIES: dict[str, dict[str, Any]] = {
    "command": {
        "type": "string",
        "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
        "description": "What to do.",
    },
    "path": {**_PATH, "description": "All commands but rename: a path under /memories."},
    "view_range": {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 2,
        "maxItems": 2,
        "description": "view: first and last line of a file, from 1; -1 is the last of all.",
    },
    "file_text": {"type": "string", "description": "create: what the new file says."},
    "old_str": {"type": "string", "description": "str_replace: a text that is there just once."},
    "new_str": {"type": "string", "description": "str_replace: what takes its place."},
    "insert_line": {
        "type": "integer",
        "description": "insert: the line behind which the text goes; 0 is the start.",
    },
    "insert_text": {"type": "string", "description": "insert: the text."},
    "old_path": {**_PATH, "description": "rename: the path of a file or directory."},
    "new_path": {**_PATH, "description": "rename: its new path, where nothing is yet."},
}
_REQUIRED = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
_OPTIONAL = {"view": ("view_range",), "str_replace": ("new_str",)}
_DESCRIPTION = (
    "Your memory: Markdown files under /memories that stay from one conversation to the next. View "
    "/memories before you begin. Write down what will be of use later, and keep it short: files "
    "have a size limit. Commands: view (a directory or a file), create (a new file), str_replace "
    "(a text in a file), insert (lines into a file), delete and rename (a file or a directory)."
)


def definition() -> dict[str, Any]:
    """Return the tool's name, description and JSON schema."""
    return {
        "name": "memory",
        "description": _DESCRIPTION,
        "input_schema": {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in _PROPERTIES.items()},
            "required": ["command"],
        },
    }


def arguments_of(command: object) -> tuple[str, dict[str, Any]]:
    """Return a command's name and its arguments, which are of the right types.

    What a command does not take is left out: models fill in more than they were asked for.

    :raises MemoryToolError: it is no command, or an argument is missing or none.
    """
    if not isinstance(command, Mapping):
        raise refused("bad input", what='a command is an object such as {"command": "view", …}')
    name = command.get("command")
    if not isinstance(name, str) or name not in _REQUIRED:
        raise refused("bad input", what=f"Unknown command: {name}")
    given = {key: command[key] for key in _REQUIRED[name] if command.get(key) is not None}
    for key in _REQUIRED[name]:
        if key not in given:
            raise refused("bad input", what=f"Missing required parameter `{key}` of {name}")
    optional = _OPTIONAL.get(name, ())
    given |= {key: command[key] for key in optional if command.get(key) is not None}
    return name, {key: _checked(key, value) for key, value in given.items()}


def _checked(key: str, value: object) -> object:
    kind = _PROPERTIES[key]["type"]
    if kind == "string" and isinstance(value, str) and _is_unicode(value):
        return value
    if kind == "integer" and _is_int(value):
        return value
    if kind == "array" and isinstance(value, list | tuple) and [*map(_is_int, value)] == [True] * 2:
        return tuple(value)
    raise refused(
        "bad input", what=f"Invalid `{key}` parameter: {value!r:.200}. It should be {_A[kind]}"
    )


_A = {
    "string": "a string of valid Unicode",
    "integer": "a whole number",
    "array": "a list of two whole numbers",
}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
