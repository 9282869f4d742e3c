"""Refusals of the memory tool, in the texts that its public documentation gives."""

from types import MappingProxyType
from typing import Final

from memory_actors.base.errors import MemoryActorsError

TEXTS: Final = MappingProxyType(
    {
        "missing": "Error: The path {path} does not exist",
        "missing to view": "The path {path} does not exist. Please provide a valid path.",
        "missing to edit": "Error: The path {path} does not exist. Please provide a valid path.",
        "exists": "Error: File {path} already exists",
        "destination exists": "Error: The destination {path} already exists",
        "no directory": "Error: The path {path} is not a directory",
        "not found": (
            "No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
        ),
        "found often": (
            "No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: "
            "{lines}. Please ensure it is unique"
        ),
        "bad insert_line": (
            "Error: Invalid `insert_line` parameter: {line}. It should be within the range of "
            "lines of the file: [0, {lines}]"
        ),
        "too long": "File {path} exceeds maximum line limit of {lines_max:,} lines.",
        "outside": "Path must start with /memories, got: {path}",
        "escapes": "Path {path} would escape /memories directory",
        "root": "Cannot {verb} the /memories directory itself",
        "bad input": "Error: {what}",
    }
)


class MemoryToolError(MemoryActorsError):
    """The tool refused a command; the message is what the model is to read."""


def refused(why: str, **values: object) -> MemoryToolError:
    """Return the error of a refusal: one of `TEXTS`, with its values."""
    return MemoryToolError(TEXTS[why].format(**values))
