"""Each kind of memory of one user, held at a number and used through the public API.

A subject adds one thing at a time; `fill` asks for many at once, and the user's actor batches them.
What `add` is to be given is drawn before it is awaited, so that a clock around it measures the call.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from bench.workload import CATEGORIES, metadata, unique_sentences
from memory_actors import Item, Limits, MemorySystem, NotFoundError, Receipt

WIDTH = 256  # adds under way at a time when filling
ADD_MANY = 1_000
STEPS = "steps"
Call = Callable[[], Awaitable[Any]]


class Subject(ABC):
    """One kind of memory. Its name is also the user's."""

    name: ClassVar[str]
    undoes: ClassVar[bool] = True
    """Whether an add can be taken back, so that each add of many is the n-th."""
    refuses: ClassVar[bool] = True
    """Whether at the limit an add is refused unless it may prune."""

    def __init__(self, memory: MemorySystem, limits: Limits, seed: int, user: str | None = None):
        self.user_id = user or self.name
        self.user = memory.user(self.user_id, session_id="session 1")
        self.limits = limits
        self.rng = random.Random(f"{seed} {self.user_id}")
        self.texts = unique_sentences(self.rng)
        self.ids: dict[str, None] = {}

    @property
    @abstractmethod
    def full(self) -> int:
        """How many the quota allows."""

    @abstractmethod
    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Add one more."""

    def queries(self) -> Mapping[str, Call]:
        """Return what makes each typical query, by name."""
        return {}

    @property
    def held(self) -> int:
        """How many there are."""
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
        return self.user.retrieve(
            next(self.texts), memory_types=[kind], top_k=10, filters=filters
        )


class WorkingKeys(Subject):
    """Keys with values of some 60 bytes; the 101st evicts the least recently used one."""

    name = "working"

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._next = 0

    @property
    def full(self) -> int:
        """All keys."""
        return self.limits.working_keys

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Set a new key."""
        self._next += 1
        value = {"at": self.rng.random(), "what": next(self.texts)[:24]}
        return self.user.working.set(f"key {self._next}", value, auto_prune=auto_prune)

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        return {
            "working.get": lambda: self.user.working.get(f"key {self._next}"),
            "working.items": lambda: self.user.working.items(),
            "retrieve (working)": lambda: self.retrieve("working"),
        }


class Messages(Subject):
    """One full session, and beside it as many others as there may be, with a message each."""

    name = "short_term"
    refuses = False

    @property
    def full(self) -> int:
        """All messages of a session."""
        return self.limits.short_term_messages

    async def fill(self, count: int) -> None:
        """Open the other sessions first."""
        others = self.limits.short_term_sessions - 1
        if count == self.full - 1 and not self.ids:
            for first in range(0, others, WIDTH):
                numbers = range(first, min(others, first + WIDTH))
                await asyncio.gather(*(self._say(f"other {number}") for number in numbers))
        await super().fill(count)

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Say something."""
        del auto_prune
        return self._say(None)

    def _say(self, session_id: str | None) -> Awaitable[Receipt]:
        return self.user.short_term.add_message(
            next(self.texts), role="user", session_id=session_id
        )

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        return {
            "short_term.messages": lambda: self.user.short_term.messages(),
            "short_term.messages (last 20)": lambda: self.user.short_term.messages(last=20),
            "retrieve (short_term)": lambda: self.retrieve("short_term"),
        }


class Sessions(Messages):
    """Full sessions, as many as it takes."""

    name = "short_term, many sessions"

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._given = 0

    @property
    def full(self) -> int:
        """All messages of all sessions."""
        return self.limits.short_term_messages * self.limits.short_term_sessions

    async def fill(self, count: int) -> None:
        """Fill one session after the other."""
        await Subject.fill(self, count)

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Say something in the session that is not full."""
        del auto_prune
        number = self._given // self.limits.short_term_messages
        self._given += 1
        return self._say(f"session {number}")

    async def undo(self, receipt: Receipt) -> None:
        """Take it back, and its place."""
        await super().undo(receipt)
        self._given -= 1


class Memories(Subject):
    """Facts."""

    name = "long_term"

    @property
    def full(self) -> int:
        """All memories."""
        return self.limits.long_term_memories

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Add a fact."""
        return self.user.add(
            next(self.texts), metadata=self.metadata(), auto_prune=auto_prune
        )

    def metadata(self) -> dict[str, Any]:
        """Return metadata: a filter of one `category` matches a tenth, of a `bucket` a hundredth."""
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
        return self.user.entities.add_entity(
            self._names[-1], "thing", said, auto_prune=auto_prune
        )

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
    """The same, but the relationships are what is counted."""

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
        """How many there are."""
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
        """Take it back, if it was new."""
        if receipt.memory_id in self.links:
            await self.user.delete(receipt.memory_id)
            del self.links[receipt.memory_id]

    def queries(self) -> Mapping[str, Call]:
        """Return none: they are those of the entities."""
        return {}


class Episodes(Subject):
    """Episodes with all the steps they keep; the older half is finished."""

    name = "episodic"
    refuses = False

    @property
    def full(self) -> int:
        """All episodes of an agent."""
        return self.limits.episodes

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Start an episode."""
        return self.user.episodes.start(next(self.texts), auto_prune=auto_prune)

    async def fill(self, count: int) -> None:
        """Start episodes, take their steps, finish some."""
        known = set(self.ids)
        await super().fill(count)
        fresh = [episode for episode in self.ids if episode not in known]
        for number, episode in enumerate(fresh):
            await self._use(episode, finish=number < len(fresh) // 2)

    async def _use(self, episode: str, *, finish: bool) -> None:
        steps = range(self.limits.episode_steps)
        await asyncio.gather(*(self.step(episode) for _ in steps))
        if finish:
            await self.user.episodes.finish(episode, next(self.texts))

    def step(self, episode: str) -> Awaitable[Receipt]:
        """Take a step."""
        return self.user.episodes.step(
            episode, next(self.texts), observation=next(self.texts)
        )

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        episodes = self.user.episodes
        return {
            "episodes.get": lambda: episodes.get(self.any_id()),
            "episodes.recent (20)": lambda: episodes.recent(),
            "retrieve (episodic)": lambda: self.retrieve("episodic"),
        }


class Steps(Episodes):
    """Running episodes; the 51st step of one evicts another of its steps."""

    name = "episodic, steps"
    undoes = False

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._given = 0

    @property
    def full(self) -> int:
        """All steps of all episodes of an agent."""
        return self.limits.episodes * self.limits.episode_steps

    @property
    def held(self) -> int:
        """How many steps there are."""
        return min(self._given, self.full)

    async def fill(self, count: int) -> None:
        """Start the episodes that it takes to the limit, then take steps."""
        episodes = min(self.limits.episodes, count // self.limits.episode_steps + 10)
        while len(self.ids) < episodes:
            receipt = await Episodes.add(self)
            self.ids[receipt.memory_id] = None
        await Subject.fill(self, count)

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Take a step in the first episode that is not full; in any, if all are."""
        del auto_prune
        number, ids = self._given // self.limits.episode_steps, list(self.ids)
        self._given += 1
        return self.step(ids[number] if number < len(ids) else self.rng.choice(ids))

    def note(self, receipt: Receipt) -> None:
        """Nothing: a step has no id."""

    def queries(self) -> Mapping[str, Call]:
        """Return none: they are those of the episodes."""
        return {}


class Documents(Subject):
    """Documents of some 350 bytes in one collection."""

    name = "structured"
    notes = ""

    @property
    def full(self) -> int:
        """All documents."""
        return self.limits.documents

    def add(self, *, auto_prune: bool = False) -> Awaitable[Receipt]:
        """Put a document."""
        return self.user.documents.put("items", self._document(), auto_prune=auto_prune)

    def _document(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "sku": rng.randrange(1_000_000),
            "name": next(self.texts),
            "category": f"category {rng.randrange(CATEGORIES)}",
            "price": round(rng.uniform(1, 1_000), 2),
            "stock": {"here": rng.randrange(100), "ordered": rng.randrange(10)},
            "tags": [f"tag {rng.randrange(30)}" for _ in range(3)],
            "notes": self.notes,
        }

    def queries(self) -> Mapping[str, Call]:
        """Return the queries."""
        return {
            "documents.get": lambda: self.user.documents.get(self.any_id()),
            "documents.find, eq": lambda: self._find({"category": "category 3"}),
            "documents.find, range": lambda: self._find({"price": {"gte": 100, "lt": 110}}),
            "documents.find, and / or": lambda: self._find(BOTH),
            "documents.find, ordered page": lambda: self.user.documents.find(
                "items", order_by=["category", "-price"], limit=20, offset=100
            ),
            "retrieve (structured)": lambda: self.retrieve("structured"),
        }

    def _find(self, filters: Mapping[str, Any]) -> Awaitable[Any]:
        return self.user.documents.find("items", filters, limit=20)


BOTH = {
    "and": [
        {"price": {"gt": 500}},
        {"or": [{"tags": {"contains": "tag 7"}}, {"stock.here": {"lt": 5}}]},
    ]
}


class LargeDocuments(Documents):
    """Documents of 8 KB: together nearly the quota by size, and more than is kept in memory."""

    name = "structured, 8 KB each"
    notes = "a word and " * 720


SUBJECTS: tuple[type[Subject], ...] = (
    WorkingKeys, Messages, Memories, Entities, Relationships, Episodes, Steps, Documents,
)  # fmt: skip


def found(error: type[Exception] = NotFoundError) -> type[Exception]:
    """Return what a query of something that has gone raises."""
    return error
