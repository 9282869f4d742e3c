"""Long-term memory, held at a number of facts."""

from collections.abc import Awaitable, Mapping
from typing import Any

from bench.subjects.base import Call, Subject
from bench.workload import CATEGORIES, metadata
from memory_actors import Item, Receipt

ADD_MANY = 1_000


class Memories(Subject):
    """Facts."""

    name = "long_term"

    @property
    def full(self) -> int:
        """All memories."""
        return self.limits.long_term_memories

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Add a fact."""
        return self.user.add(next(self.texts), metadata=self.metadata(), auto_prune=auto_prune)

    def metadata(self) -> dict[str, Any]:
        """Return metadata: a `category` has a tenth of all facts, a `bucket` a hundredth."""
        return metadata(self.rng) | {"bucket": self.rng.randrange(100)}

    async def fill(self, count: int) -> None:
        """Add in batches."""
        while self.held < count:
            some = range(min(ADD_MANY, count - self.held))
            items = [Item(content=next(self.texts), metadata=self.metadata()) for _ in some]
            for receipt in await self.user.add_many(items):
                self.note(receipt)

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        return {
            "get": lambda: self.user.get(self.any_id()),
            "retrieve (long_term)": lambda: self.retrieve("long_term"),
            "retrieve, filter of 10 %": lambda: self.retrieve("long_term", self.tenth()),
            "retrieve, filter of 1 %": lambda: self.retrieve("long_term", self.hundredth()),
        }

    def tenth(self) -> dict[str, Any]:
        """Return a filter that a tenth matches."""
        return {"category": f"category {self.rng.randrange(CATEGORIES)}"}

    def hundredth(self) -> dict[str, Any]:
        """Return a filter that a hundredth matches."""
        return {"bucket": self.rng.randrange(100)}
