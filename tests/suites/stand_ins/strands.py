"""Strands' store in a JSON file: ours, with the file as a view of the memories.

After each write the memories of the user are written to the file, so that a test which reads the
file sees what the store holds. Nothing is read from the file.
"""

import json
from itertools import count
from pathlib import Path
from typing import Any

import strands.vended_memory_stores as parent
import strands.vended_memory_stores.test_memory_store as package
from strands.vended_memory_stores.test_memory_store import store as module
from strands.vended_memory_stores.test_memory_store.types import TestMemoryAddResult

from memory_actors import InvalidInputError
from memory_actors.integrations.adapting import reach
from memory_actors.integrations.strands import MemoryActorsStore
from suites.stand_ins.memories import user_of

_numbers = count()


class TestMemoryStore(MemoryActorsStore):
    """Ours, made as theirs is."""

    __test__ = False

    def __init__(self, *, path: str | None = None, persist: bool = True, **config: Any):
        if path is not None and not path.strip():
            raise InvalidInputError("path must not be empty")
        self._path = Path(path) if path is not None and persist else None
        place = path if self._path else f"ephemeral {next(_numbers)}"
        super().__init__(user_of(place, new_id=_new_id), **config)

    async def add(self, content: str, metadata: Any = None) -> TestMemoryAddResult:
        receipt = await super().add(content, metadata)
        if self._path is not None:
            held = await reach(self._user, lambda user: user.list_memories(limit=1_000))
            records = [
                {
                    "id": memory.memory_id,
                    "content": memory.content,
                    "metadata": memory.metadata,
                    "createdAt": memory.created_at.isoformat(),
                }
                for memory in held
            ]
            self._path.write_text(json.dumps(records, indent=2))
        return TestMemoryAddResult(id=receipt.memory_id)


def _new_id(_now_us: int) -> str:
    return module._new_id()


def install() -> None:
    """Put it there."""
    parent.TestMemoryStore = package.TestMemoryStore = module.TestMemoryStore = TestMemoryStore
