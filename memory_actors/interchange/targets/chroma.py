"""Chroma: JSON lines, each of which `collection.add(**json.loads(line))` takes.

Lines, because a collection takes a few thousand records at a time; and no directory, because that
would take the package, and embeddings of the model that the collection is to have: the collection
makes them. Metadata there is flat: what is a list or an object goes as JSON.
"""

from typing import IO, Any, Final

import msgspec

from memory_actors.base.records import Memory
from memory_actors.interchange.targets.target import ExportTarget, metadata_for_others

RECORDS_A_LINE: Final = 1_000  # Chroma takes some 5,000; and so a line fits in memory
CHARACTERS_A_LINE_MAX: Final = 8 << 20


class ChromaWriter:
    """Writes batches."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._begin()

    def _begin(self) -> None:
        self._ids: list[str] = []
        self._documents: list[str] = []
        self._metadatas: list[dict[str, Any]] = []
        self._characters = 0

    def write(self, memory: Memory, user_id: str) -> str | None:
        """Write any memory."""
        own = {"user_id": user_id, "session_id": memory.session_id, "role": memory.role}
        when = {"occurred_at": memory.occurred_at.isoformat()}
        fields = {**metadata_for_others(memory), **own, **when}
        self._ids.append(memory.memory_id)
        self._documents.append(memory.content)
        self._metadatas.append({k: _flat(v) for k, v in fields.items() if v is not None})
        self._characters += len(memory.content)
        if len(self._ids) >= RECORDS_A_LINE or self._characters >= CHARACTERS_A_LINE_MAX:
            self.end()
        return None

    def end(self) -> None:
        """Write the batch that was begun."""
        if self._ids:
            batch = {
                "ids": self._ids, "documents": self._documents, "metadatas": self._metadatas
            }  # fmt: skip
            self._file.write(msgspec.json.encode(batch) + b"\n")
            self._begin()


def _flat(value: Any) -> str | int | float | bool:
    if isinstance(value, str | int | float | bool):
        return value
    return msgspec.json.encode(value).decode()


TARGET: Final = ExportTarget("chroma", "JSON lines that collection.add(**line) takes", ChromaWriter)
