"""Working memory, held at a number of keys."""

from collections.abc import Awaitable, Mapping
from typing import Any

from bench.subjects.base import Call, Subject
from memory_actors import Receipt


class WorkingKeys(Subject):
    """Keys with values of some 60 bytes; the 101st evicts the least recently used one."""

    name = "working"

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._next = 0
        self._last = ""

    @property
    def full(self) -> int:
        """All keys."""
        return self.limits.working_keys

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Set a new key."""
        self._next += 1
        value = {"at": self.rng.random(), "what": next(self.texts)[:24]}
        return self._set(f"key {self._next}", value, auto_prune)

    async def _set(self, key: str, value: Any, auto_prune: bool) -> Receipt:
        receipt = await self.user.working.set(key, value, auto_prune=auto_prune)
        self._last = key
        return receipt

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        return {
            "working.get": lambda: self.user.working.get(self._last),
            "working.items": lambda: self.user.working.items(),
            "retrieve (working)": lambda: self.retrieve("working"),
        }
