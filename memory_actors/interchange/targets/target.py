"""The port of a target: a way to write memories for another program."""

from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol, TypeAlias

from memory_actors.base.records import Memory


class TargetWriter(Protocol):
    """Writes memories to one file."""

    def write(self, memory: Memory, user_id: str) -> str | None:
        """Take a memory, in the order of an export; return why it has no place there, if so."""
        ...

    def end(self) -> None:
        """Write what is left; nothing comes after it."""
        ...


Begin: TypeAlias = Callable[[IO[bytes]], TargetWriter]


class ExportTarget(NamedTuple):
    """A program that memories go to."""

    name: str
    says: str
    """The output that it writes, in a few words."""
    begin: Begin
    """Begins to write to a file.

    :raises MissingExtraError: it takes a package that is not installed.
    """


def metadata_for_others(memory: Memory) -> dict[str, Any]:
    """Return metadata for a program that knows no kinds, sources and trust: they are beside it."""
    said: dict[str, Any] = {"memory_type": str(memory.memory_type)}
    if memory.origins:
        said |= {"sources": [one.source for one in memory.origins if one.source]}
        said |= {"trust": memory.trust.value}
    own = {"key": memory.key} if memory.key is not None else {}
    return {**own, **memory.metadata, **said}
