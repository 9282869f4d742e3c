"""mem0: JSON as its `get_all` returns it, {"results": [...]}; each kind by its words.

mem0 has no import: `add(one["memory"], user_id=..., metadata=..., infer=False)` takes each.
"""

from typing import IO, Final

import msgspec

from memory_actors.base.records import Memory
from memory_actors.interchange.targets.target import ExportTarget, metadata_for_others


class Mem0Writer:
    """Writes one JSON object."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._between = b'{"results": [\n'

    def write(self, memory: Memory, user_id: str) -> str | None:
        """Write any memory."""
        when = memory.occurred_at.isoformat()
        said = {
            "id": memory.memory_id,
            "memory": memory.content,
            "user_id": user_id,
            "run_id": memory.session_id,
            "role": memory.role,
            "created_at": when,
            "updated_at": when,
            "metadata": metadata_for_others(memory),
        }
        known = {name: value for name, value in said.items() if value is not None}
        self._file.write(self._between + msgspec.json.encode(known))
        self._between = b",\n"
        return None

    def end(self) -> None:
        """Close the list."""
        self._file.write((b"" if self._between == b",\n" else self._between) + b"\n]}\n")


TARGET: Final = ExportTarget("mem0", "JSON as its get_all returns it", Mem0Writer)
