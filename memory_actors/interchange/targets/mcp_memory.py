"""The reference MCP memory server: its file of JSON lines. It has entities and relations alone.

It knows no time, so a relationship that is over has no place in it. Nor may two entities have one
name there: of those that share one, all but the first have their type in their name.
"""

from typing import IO, Final

import msgspec

from memory_actors.base.records import Memory, MemoryType
from memory_actors.interchange.targets.target import ExportTarget
from memory_actors.kinds.entity.graph import name_key

NO_GRAPH: Final = "the server has entities and relations alone"
OVER: Final = "a relationship that is over: the server knows no time"


class GraphWriter:
    """Writes one line for each entity and relation."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._names: dict[str, str] = {}
        """The names that entities have there, by their ids: an export has them before relations."""
        self._taken: set[str] = set()

    def write(self, memory: Memory, user_id: str) -> str | None:  # noqa: ARG002 - a file has one user
        """Write an entity or a relationship that holds."""
        if memory.memory_type != MemoryType.ENTITY:
            return NO_GRAPH
        data = memory.data
        if "relation" not in data:
            # A name that no other entity has, kept for what relates it.
            name = str(memory.data["name"])
            if name_key(name) in self._taken:
                name = f"{name} ({memory.data['type']})"
            self._taken.add(name_key(name))
            self._names[memory.memory_id] = name
            self._line(
                type="entity", name=name, entityType=data["type"],
                observations=list(data["observations"]),
            )  # fmt: skip
            return None
        if data.get("valid_to") is not None:
            return OVER
        source, target = (
            self._names.get(data[f"{end}_id"], data[end]) for end in ("source", "target")
        )
        ends = {"from": source, "to": target}
        self._line(type="relation", **ends, relationType=data["relation"])
        return None

    def end(self) -> None:
        """Nothing is left."""

    def _line(self, **fields: object) -> None:
        self._file.write(msgspec.json.encode(fields) + b"\n")


TARGET: Final = ExportTarget(
    "mcp-memory", "the file of the reference MCP memory server", GraphWriter
)
