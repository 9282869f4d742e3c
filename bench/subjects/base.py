"""One kind of memory of one user, held at a number and used through the public API.

A subject adds one thing at a time; `fill` asks for many at once, and the user's actor batches them.
The arguments of a call are drawn before it is awaited, so a clock around the await measures only
the call.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from bench.workload import unique_sentences
from memory_actors import Limits, MemorySystem, Receipt

WIDTH = 256  # adds under way at a time when filling
Call = Callable[[], Awaitable[Any]]


class Subject(ABC):
    """One kind of memory. Its name is also the user's."""

    name: ClassVar[str]
    undoes: ClassVar[bool] = True
    """True if an add can be taken back, so that each add of many is the n-th."""
    refuses: ClassVar[bool] = True
    """True if at the limit an add is refused unless it may prune."""

    def __init__(self, memory: MemorySystem, limits: Limits, seed: int, user: str | None = None):
        self.user_id = user or self.name
        self.use(memory)
        self.limits = limits
        self.rng = random.Random(f"{seed} {self.user_id}")
        self.texts = unique_sentences(self.rng)
        self.ids: dict[str, None] = {}

    def use(self, memory: MemorySystem) -> None:
        """Go on with the same store, opened again."""
        self.user = memory.user(self.user_id, session_id="session 1")

    @property
    @abstractmethod
    def full(self) -> int:
        """The number that the quota allows."""

    @abstractmethod
    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Add one more."""

    def queries(self) -> Mapping[str, Call]:
        """Return the function for each typical query, by name."""
        return {}

    async def prepare(self) -> None:  # noqa: B027 - most have nothing to add
        """Add what a full user has beside what counts here."""

    @property
    def held(self) -> int:
        """The number that there is."""
        return len(self.ids)

    async def fill(self, count: int) -> None:
        """Add until there are that many."""
        while self.held < count:
            width = min(WIDTH, count - self.held)
            for receipt in await asyncio.gather(*(self.add() for _ in range(width))):
                self.note(receipt)

    def note(self, receipt: Receipt) -> None:
        """Take note of what came of an add."""
        for gone in (*receipt.evicted, *receipt.pruned):
            self.ids.pop(gone, None)
        if receipt.operation.startswith(("add", "set")):
            self.ids[receipt.memory_id] = None

    async def undo(self, receipt: Receipt) -> None:
        """Take an add back."""
        await self.user.delete(receipt.memory_id)
        self.ids.pop(receipt.memory_id, None)

    def any_id(self) -> str:
        """Return the id of one that is there. Slow: before the clock starts."""
        return self.rng.choice(list(self.ids))

    def retrieve(self, kind: str, filters: Mapping[str, Any] | None = None) -> Awaitable[Any]:
        """Search one kind for a text that was never seen."""
        return self.user.retrieve(next(self.texts), memory_types=[kind], top_k=10, filters=filters)
