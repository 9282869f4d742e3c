"""A small store with something of everything in it, and every question that can be asked of it.

Two users with the same past, so that damage to one can be told from harm to the other. The clock
stands still, ids are numbers and vectors come from hashes: what a store answers is the same each
time, so an answer that differs is a wrong one.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from bench.hashed import HashedTokens
from bench.kill_child import Alike
from bench.opened import at_rest as quiet
from bench.opened import live_user, services_of
from eventlog import EventLogError
from memory_actors import (
    CallableSummarizer,
    Cluster,
    Conversation,
    Item,
    MemoryActorsError,
    MemorySystem,
    Proposal,
    Settings,
)

USERS = ("ada", "ben")
NOW_US = 1_700_000_000_000_000
LIMIT = 1_000
ALL = 60  # more than a user of this store has
TYPED = (MemoryActorsError, EventLogError)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now_us: int = NOW_US):
        self.now_us = now_us

    def __call__(self) -> int:
        """Return microseconds since 1970."""
        return self.now_us


class Ids:
    """m1, m2, m3 and so on."""

    def __init__(self, first: int = 1):
        self._next = first

    def __call__(self, _now_us: int) -> str:
        """Return an id that was not used before."""
        self._next += 1
        return f"m{self._next - 1}"


class Embedder(Alike, HashedTokens):
    """Vectors by the length of a text, so that some are near each other, and token states."""


def summary(cluster: Cluster) -> str:
    """Return a summary that is shorter than what it stands for."""
    return f"Many notes of {len(cluster.texts)} days."


def facts(conversation: Conversation) -> list[Proposal]:
    """Return a fact for each message, and one in the place of the first that is known."""
    found = [Proposal(text=f"Somebody said: {one.text}") for one in conversation.messages]
    known = [one.memory_id for one in conversation.facts[:1]]
    return found + [
        Proposal(action="supersede", text=f"It is otherwise than {one}", replaces=one)
        for one in known
    ]


EMBEDDER = Embedder(64)  # one for all: making its token states takes a while


@asynccontextmanager
async def opened(path: Path, *, first_id: int = 1, **fields: Any) -> AsyncIterator[MemorySystem]:
    """Open a store with the clock, ids and embedder of this module, unless others are given."""
    given = {
        "clock": Clock(), "embedder": EMBEDDER, "new_id": Ids(first_id), "alerts": [],
        "summarizer": CallableSummarizer(summary), "extractor": facts,
        "settings": Settings(deadline_s=10.0, review="untrusted"),
    } | fields  # fmt: skip
    async with MemorySystem.open(path, **given) as memory:
        yield memory


async def fill(memory: MemorySystem, users: tuple[str, ...] = USERS) -> None:
    """Give users a past: all kinds of memory, some of it compressed and archived."""
    for user_id in users:
        await _fill_user(memory, user_id)
    await memory.compact()
    await services_of(memory).log.shrink(force=True)
    for user_id in users:
        async with live_user(memory, user_id) as live:
            await live.snapshot()
        last = f"{user_id} last"
        await memory.user(user_id).add("What came after the compaction.", memory_id=last)


async def made(path: Path) -> tuple[str, str]:
    """Make a store with all of it; return how that ended, as a child says it."""
    async with opened(path) as memory:
        await fill(memory)
    return "made", ""


async def _fill_user(memory: MemorySystem, user_id: str) -> None:
    user, today = memory.user(user_id, session_id="s"), datetime.fromtimestamp(NOW_US / 1e6, UTC)
    old = [
        Item(
            content=f"note {n} " + "of a day long ago " * 8, memory_id=f"{user_id} old {n}",
            occurred_at=today - timedelta(days=120 + n), metadata={"n": n},
        )
        for n in range(12)
    ]  # fmt: skip
    await user.add_many(old)
    for n in range(6):
        content = f"fact {n} " + "that is known " * 30 * (n % 2)
        await user.add(content, memory_id=f"{user_id} fact {n}", metadata={"even": n % 2 == 0})
        await user.short_term.add_message(f"message {n} of {user_id}", role="user")
        await user.working.set(f"key {n}", {"value": n})
        await user.documents.put("things", {"n": n, "text": "thing " * n * 60}, key=f"thing {n}")
        await user.entities.add_entity(f"Entity {n}", "person", [f"observation {n} of {user_id}"])
    for n in range(5):
        await user.entities.relate(f"Entity {n}", "knows", f"Entity {n + 1}")
    started = await user.episodes.start("to get something done")
    await user.episodes.step(started.memory_id, "an action", observation="a result")
    await user.episodes.finish(started.memory_id, "done")
    await user.add("fact 2", metadata={"even": True}, on_duplicate="count")
    await user.update(f"{user_id} fact 0", content="fact 0 has changed")
    await user.delete(f"{user_id} fact 1")


Question = Callable[[], Awaitable[Any]]


def questions(memory: MemorySystem, user_id: str) -> dict[str, Question]:
    """Return everything that can be asked about a user, by a name."""
    user = memory.user(user_id, session_id="s")
    asked: dict[str, Question] = {
        "list": lambda: user.list_memories(limit=LIMIT),
        "usage": user.usage,
        "cost": user.estimate_monthly_cost,
        "search": lambda: user.retrieve("fact that is known", top_k=ALL, explain=True),
        "filtered": lambda: user.retrieve("fact", filters={"even": True}, top_k=ALL),
        "context": lambda: user.context("what is known", limit=ALL),
        "working": user.working.items,
        "messages": user.short_term.messages,
        "documents": lambda: user.documents.find("things", {"n": {"$gte": 2}}),
        "collections": user.documents.collections,
        "neighbours": lambda: user.entities.neighbours("Entity 2", 2),
        "entity": lambda: user.entities.get("Entity 1"),
        "episodes": user.episodes.recent,
        "deleted": lambda: user.history(f"{user_id} fact 1"),
        "archived": lambda: user.history(f"{user_id} old 3"),
        "originals": lambda: _originals(memory, user_id),
    }
    for n in (0, 2, 3, 4, 5):
        asked[f"get {n}"] = lambda n=n: user.get(f"{user_id} fact {n}")
        asked[f"history {n}"] = lambda n=n: user.history(f"{user_id} fact {n}")
    return asked


async def _originals(memory: MemorySystem, user_id: str) -> list[Any]:
    user = memory.user(user_id)
    all_of_them = await user.list_memories(["long_term"], limit=LIMIT)
    summaries = [one.memory_id for one in all_of_them if one.source == "compressed"]
    return [await user.expand(memory_id) for memory_id in sorted(summaries)]


async def at_rest(memory: MemorySystem) -> dict[str, str]:
    """Wait until what is derived has been made again, where it was damaged; return who cannot."""
    refused: dict[str, str] = {}
    for user_id in USERS:
        try:
            await quiet(memory, user_id)
        except TYPED as error:
            refused[f"{user_id} activation"] = str(error)
    return refused


async def answers(memory: MemorySystem) -> tuple[dict[str, Any], dict[str, str]]:
    """Ask everything about everybody: the answers, and the typed errors, by question."""
    answered: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for user_id in USERS:
        for name, ask in questions(memory, user_id).items():
            try:
                answered[f"{user_id} {name}"] = plain(await ask())
            except TYPED as error:
                refused[f"{user_id} {name}"] = f"{type(error).__name__}: {error}"
    return answered, refused


def plain(answer: Any) -> Any:
    """Return an answer to be compared."""
    return msgspec.to_builtins(answer)
