"""The reference MCP memory server: its file of JSON lines. It has entities and relations alone.

It knows no time, so a relationship that is over has no place in it.
"""

from typing import IO, Final

import msgspec

from memory_actors.base.records import Memory, MemoryType
from memory_actors.interchange.targets.target import Target

NO_GRAPH: Final = "the server has entities and relations alone"
OVER: Final = "a relationship that is over: the server knows no time"


class GraphWriter:
    """Writes one line for each entity and relation."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    def write(self, memory: Memory, user_id: str) -> str | None:  # noqa: ARG002 - a file has one user
        """Write an entity or a relationship that holds."""
        if memory.memory_type != MemoryType.ENTITY:
            return NO_GRAPH
        data = memory.data
        if "relation" not in data:
            self._line(
                type="entity", name=data["name"], entityType=data["type"],
                observations=list(data["observations"]),
            )  # fmt: skip
            return None
        if data.get("valid_to") is not None:
            return OVER
        ends = {"from": data["source"], "to": data["target"]}
        self._line(type="relation", **ends, relationType=data["relation"])
        return None

    def end(self) -> None:
        """Nothing is left."""

    def _line(self, **fields: object) -> None:
        self._file.write(msgspec.json.encode(fields) + b"\n")


TARGET: Final = Target("mcp-memory", "the file of the reference MCP memory server", GraphWriter)
