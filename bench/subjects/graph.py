"""A graph, held at a number of entities or of relationships."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any

from bench.subjects.base import WIDTH, Call, Subject
from memory_actors import Receipt


class Entities(Subject):
    """Entities with two observations, and two relationships for each, between any two of them."""

    name = "entity"

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.links: dict[str, None] = {}
        self._names: list[str] = []

    @property
    def full(self) -> int:
        """All entities."""
        return self.limits.entities

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Add an entity."""
        self._names.append(f"{next(self.texts)[:30]} {len(self._names)}")
        said = [next(self.texts), next(self.texts)]
        return self.user.entities.add_entity(self._names[-1], "thing", said, auto_prune=auto_prune)

    async def fill(self, count: int) -> None:
        """Add entities, then what relates them."""
        await super().fill(count)
        links = count * self.limits.relationships // self.limits.entities
        while len(self.links) < links:
            ends, width = list(self.ids), min(WIDTH, links - len(self.links))
            for receipt in await asyncio.gather(*(self.relate(ends) for _ in range(width))):
                if receipt.operation == "add":
                    self.links[receipt.memory_id] = None

    def relate(self, ends: list[str], *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Relate two entities."""
        source, target = self.rng.sample(ends, 2)
        return self.user.entities.relate(
            source, f"relation {self.rng.randrange(20)}", target, auto_prune=auto_prune
        )

    def note(self, receipt: Receipt) -> None:
        """Take note of relationships, too, that went with their entities."""
        super().note(receipt)
        for gone in receipt.pruned:
            self.links.pop(gone, None)

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        entities = self.user.entities
        return {
            "entities.get": lambda: entities.get(self.any_id()),
            "entities.relationships": lambda: entities.relationships(self.any_id()),
            "entities.neighbours (depth 2)": lambda: entities.neighbours(self.any_id(), 2),
            "retrieve (entity)": lambda: self.retrieve("entity"),
        }


class Relationships(Entities):
    """Entities with relationships, of which the relationships are counted."""

    name = "relationship"

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._ends: list[str] = []

    @property
    def full(self) -> int:
        """All relationships."""
        return self.limits.relationships

    @property
    def held(self) -> int:
        """The number of relationships."""
        return len(self.links)

    async def fill(self, count: int) -> None:
        """Add half as many entities first."""
        wanted = max(2, count * self.limits.entities // self.limits.relationships)
        while len(self.ids) < wanted:
            width = min(WIDTH, wanted - len(self.ids))
            for receipt in await asyncio.gather(*(Entities.add(self) for _ in range(width))):
                Entities.note(self, receipt)
        self._ends = list(self.ids)
        await Subject.fill(self, count)

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Relate two entities."""
        return self.relate(self._ends, auto_prune=auto_prune)

    def note(self, receipt: Receipt) -> None:
        """Take note of what came of it: most often a new one."""
        for gone in receipt.pruned:
            self.links.pop(gone, None)
        if receipt.operation.startswith("add"):
            self.links[receipt.memory_id] = None

    async def undo(self, receipt: Receipt) -> None:
        """Undo an add, if it was new."""
        if receipt.memory_id in self.links:
            await self.user.delete(receipt.memory_id)
            del self.links[receipt.memory_id]

    def queries(self) -> Mapping[str, Call]:
        """Return none: they are those of the entities."""
        return {}
