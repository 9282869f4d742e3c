"""What the memory tool answers when it refuses: the texts that its public documentation gives."""

from memory_actors.base.errors import MemoryActorsError


class MemoryToolError(MemoryActorsError):
    """The tool refused a command; the message is what the model is to read."""


def missing(path: str) -> MemoryToolError:
    """`insert`, `delete`, `rename`: there is nothing at a path."""
    return MemoryToolError(f"Error: The path {path} does not exist")


def missing_to_view(path: str) -> MemoryToolError:
    """`view`: there is nothing at a path."""
    return MemoryToolError(f"The path {path} does not exist. Please provide a valid path.")


def missing_to_edit(path: str) -> MemoryToolError:
    """`str_replace`: there is no file at a path."""
    return MemoryToolError(f"Error: The path {path} does not exist. Please provide a valid path.")


def exists(path: str) -> MemoryToolError:
    """`create`: there is something at a path."""
    return MemoryToolError(f"Error: File {path} already exists")


def destination_exists(path: str) -> MemoryToolError:
    """`rename`: there is something at the new path."""
    return MemoryToolError(f"Error: The destination {path} already exists")


def not_a_directory(path: str) -> MemoryToolError:
    """`create`, `rename`: a file stands where a directory would have to be."""
    return MemoryToolError(f"Error: The path {path} is not a directory")


def not_found_in(path: str, old_str: str) -> MemoryToolError:
    """`str_replace`: the text is not there."""
    return MemoryToolError(
        f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
    )


def found_often(old_str: str, lines: list[int]) -> MemoryToolError:
    """`str_replace`: the text is there more than once."""
    return MemoryToolError(
        f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: "
        f"{', '.join(map(str, lines))}. Please ensure it is unique"
    )


def bad_insert_line(line: object, lines: int) -> MemoryToolError:
    """`insert`: there is no such line."""
    return MemoryToolError(
        f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines "
        f"of the file: [0, {lines}]"
    )


def too_many_lines(path: str, lines_max: int) -> MemoryToolError:
    """`view`: the file is too long."""
    return MemoryToolError(f"File {path} exceeds maximum line limit of {lines_max:,} lines.")


def outside(path: str) -> MemoryToolError:
    """Any command: a path does not begin with /memories."""
    return MemoryToolError(f"Path must start with /memories, got: {path}")


def escapes(path: str) -> MemoryToolError:
    """Any command: a path leads out of /memories, or looks as if it did."""
    return MemoryToolError(f"Path {path} would escape /memories directory")


def is_root(verb: str) -> MemoryToolError:
    """`delete`, `rename`: the path is /memories itself."""
    return MemoryToolError(f"Cannot {verb} the /memories directory itself")


def bad_input(what: str) -> MemoryToolError:
    """Any command: it is none, or one of its parameters is."""
    return MemoryToolError(f"Error: {what}")
