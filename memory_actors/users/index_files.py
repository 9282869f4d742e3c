"""The index files of users: their place in a data directory, and their removal."""

from pathlib import Path
from typing import Final

from eventlog.core.frame import stream_id
from eventlog.files.datafile import remove_named

INDEXES: Final = "indexes"


def index_path(directory: Path, stream: str) -> Path:
    """Return the path prefix of a user's index files in a data directory."""
    return directory / INDEXES / stream_id(stream).hex()


def remove_indexes(directory: Path, stream: str) -> int:
    """Remove a user's index files; return how many there were.

    :raises StorageFailed: they cannot be looked for, or one cannot be removed.
    """
    begin = index_path(directory, stream)
    return remove_named(begin.parent, lambda name: name.startswith(f"{begin.name}."))


def remove_all_indexes(directory: Path) -> None:
    """Remove the index files of every user.

    :raises StorageFailed: they cannot be looked for, or one cannot be removed.
    """
    remove_named(directory / INDEXES, lambda _name: True)
