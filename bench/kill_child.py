"""The process that bench/kill.py kills: it writes for several users at once, until it is dead.

Every acknowledged write is reported on the standard output, one JSON line each, after its
acknowledgement. Its other work is one of `BESIDES`; what of that has to be there afterwards, or
must not be, is reported in the same way.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import structlog

from bench.hashed import HashedEmbedder
from bench.opened import live_user, services_of
from memory_actors import Item, Limits, MemorySystem, NotFoundError, Plan, Settings, Tier
from memory_actors.base.api_keys import KeyStore
from memory_actors.compaction.clusters import dbscan

USERS = 8
LIMITS = Limits(
    long_term_memories=300, short_term_messages=20, working_keys=10, entities=60, episodes=40,
    documents=50,
)  # fmt: skip
Beside = Literal[
    "writing", "compacting", "episodes", "keeping", "encrypting", "erasing", "purging"
]  # fmt: skip
"""The child's work besides writing."""
KINDS = ("long_term", "long_term", "long_term", "entity", "episodic", "structured")
GOOD, BAD = "a friend", "a stranger"
"""The sources of a user's memory, one of which is purged."""
COMPACTING = ("compacting", "episodes")
COMPACTING_PAUSE_S = 0.1
"""Time between two writes of a writer. A compaction rests nine tenths of the time while others
write: without the pause, the store grows faster than it is compacted."""
FACTS = 120  # of each: more than are purged in one append


class Alike(HashedEmbedder):
    """Texts of like length are alike, so that there is something to compact."""

    def _row(self, text: str) -> npt.NDArray[np.float32]:
        topic = np.random.default_rng(len(text) // 100).standard_normal(self.dimension, np.float32)
        return topic + np.float32(0.2) * super()._row(text)


def open_store(store: Path, *, encrypt: bool = False) -> Any:
    """Open a store as child and parent do."""
    settings = Settings(tiers={Tier.LOCAL: Plan(limits=LIMITS)}, recall_audit="plain")
    # Alerts would be logged to the standard output, which is the child's report.
    return MemorySystem.open(store, embedder=Alike(), settings=settings, alerts=[], encrypt=encrypt)


async def _live(store: Path, seed: int, beside: str) -> None:
    if beside in COMPACTING:
        dbscan(np.eye(8, dtype=np.float32), 0.3, 2)  # what it loads would take most of a short life
    async with open_store(store, encrypt=beside == "encrypting") as memory:
        pause_s = COMPACTING_PAUSE_S if beside in COMPACTING else 0.0
        writers = [_write(memory, n % USERS, seed + n, pause_s) for n in range(3 * USERS)]
        others = [BESIDES[beside](memory, store, seed)] if beside in BESIDES else []
        await asyncio.gather(*writers, *others)


async def _write(memory: MemorySystem, number: int, seed: int, pause_s: float) -> None:
    """Write for one user until killed; several writers share each user."""
    rng, user_id = random.Random(seed), f"user {number}"
    user = memory.user(user_id, session_id=f"session {rng.randrange(3)}")
    mine: list[str] = []
    for n in range(1_000_000):
        await asyncio.sleep(pause_s)
        content = f"memory {seed} {n} " + "word " * rng.choice([1, 20, 600])
        choice = rng.random()
        if choice < 0.15 and mine:
            memory_id = mine.pop(rng.randrange(len(mine)))
            await _announced(user_id, memory_id, user.delete(memory_id), None)
        elif choice < 0.3 and mine:
            memory_id = rng.choice(mine)
            await _announced(user_id, memory_id, user.update(memory_id, content=content), content)
        elif choice < 0.5:
            await user.short_term.add_message(content)
        elif choice < 0.6:
            await user.working.set(f"key {rng.randrange(30)}", n, auto_prune=True)
        else:
            kind = rng.choice(KINDS)
            named = {"key": f"{seed} {n}"} if kind == "entity" else {}
            receipt = await user.add_with_auto_prune(content, kind, **named)
            mine.append(receipt.memory_id)
            _say("add", user_id, receipt.memory_id, content, receipt.pruned)


async def _announced(user_id: str, memory_id: str, call: Any, content: str | None) -> None:
    """Report a change before and after it, for in between it may or may not have happened."""
    _say("try", user_id, memory_id)
    try:
        await call
    except NotFoundError:  # pruned by another writer of this user
        return
    _say("done", user_id, memory_id, content)


def _say(op: str, user_id: str, id_: str, content: str | None = None, evicted: Any = ()) -> None:
    line = {"op": op, "user": user_id, "id": id_, "content": content, "evicted": evicted}
    os.write(1, json.dumps(line).encode() + b"\n")


# --- besides


async def _compact(memory: MemorySystem, _store: Path, _seed: int) -> None:
    while True:
        report = await memory.compact(older_than="0h", episodes=False)
        if report.originals:
            _say("compacted", "", "")
        await services_of(memory).log.shrink(force=True)


async def _compact_episodes(memory: MemorySystem, _store: Path, seed: int) -> None:
    """End episodes and compact them, of users who have nothing else: it takes less of a life."""
    for n in range(1_000_000):
        user_id = f"episodic user {n % 2}"
        user = memory.user(user_id)
        for each in range(6):
            goal = f"goal {seed} {n} {each} " + "goal " * 10
            started = await user.episodes.start(goal, auto_prune=True)
            _say("add", user_id, started.memory_id, goal, started.pruned)
            await user.episodes.finish(started.memory_id, "done")
        report = await memory.compact(user_id, older_than="0h", episodes=True)
        if report.originals:
            _say("compacted", "", "")


async def _keep(memory: MemorySystem, _store: Path, _seed: int) -> None:
    """Make backups, of a store in which users come and are erased."""
    for n in range(1_000_000):
        user = memory.user(f"passing {n}")
        await user.add_many([Item(content=f"in passing {n} {each} " * 20) for each in range(5)])
        with tempfile.TemporaryDirectory() as scratch:
            await memory.backup(Path(scratch) / "backup")
        await memory.erase(user.user_id)


async def _erase(memory: MemorySystem, store: Path, seed: int) -> None:
    """Erase users of whom there is something everywhere: also index files, recalls, API keys."""
    for n in range(1_000_000):
        user_id = f"canary{seed}n{n}zq"  # a string that is found nowhere by chance
        user = memory.user(user_id, session_id=user_id)
        await user.add_many([Item(content=note) for note in notes_of(user_id)])
        await user.working.set(user_id, user_id)
        await user.episodes.start(f"{user_id} has a goal")
        await user.entities.add_entity(user_id, "person", [f"{user_id} was observed"])
        await user.retrieve(f"where was {user_id}")
        KeyStore(store).create(user_id)
        async with live_user(memory, user_id) as live:
            await live.snapshot()
        _say("erasing", user_id, "")
        await memory.erase(user_id)
        _say("erased", user_id, "")


def notes_of(user_id: str) -> list[str]:
    """Return the long-term memories of an erased user."""
    return [f"{user_id} was in place {n}" for n in range(5)]


async def _purge(memory: MemorySystem, _store: Path, seed: int) -> None:
    for n in range(1_000_000):
        user_id = f"tainted {seed} {n}"
        user = memory.user(user_id)
        for source in (GOOD, BAD):
            said = user.from_source(source)
            await said.add_many([Item(content=f"{source} said {each}") for each in range(FACTS)])
            await said.entities.add_entity("Ada", "person", [f"{source} saw her"])
        _say("purging", user_id, "")
        await user.purge(BAD)
        _say("purged", user_id, "")


BESIDES: dict[str, Callable[[MemorySystem, Path, int], Awaitable[None]]] = {
    "compacting": _compact,
    "episodes": _compact_episodes,
    "keeping": _keep,
    "encrypting": _keep,
    "erasing": _erase,
    "purging": _purge,
}


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_live(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
