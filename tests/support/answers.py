"""The answers of a user's memory to every read, as plain data: to be compared later."""

from collections.abc import Sequence
from typing import Any

import msgspec

from memory_actors import MemoryActorsError, MemoryType, UserMemory

KINDS = [kind.value for kind in MemoryType]
QUERIES = ("red apple", "blue car", "tree long ago")
SESSIONS = ("s0", "s1", "s2", "default")


async def answers(user: UserMemory, ids: Sequence[str]) -> dict[str, Any]:
    """Return the answer to each read; `ids` are those of all memories that ever were."""
    said: dict[str, Any] = {
        "list": await user.list_memories(limit=1_000),
        "list by filter": await user.list_memories(["long_term"], filters={"a": 1}),
        "usage": await user.usage(),
        "working": await user.working.items(),
        "collections": await user.documents.collections(),
        "found": await user.documents.find(limit=100),
        "context": await user.context("red apple", "s1"),
    }
    for session in SESSIONS:
        said[f"messages of {session}"] = await user.short_term.messages(session)
    for query in QUERIES:
        said[f"search {query}"] = await user.retrieve(query, top_k=20, explain=True)
        for session in SESSIONS[:2]:
            found = await user.retrieve(query, memory_types=["short_term"], session_id=session)
            said[f"search {query} in {session}"] = found
    for kind in KINDS:
        said[f"search {kind}"] = await user.retrieve("red car", memory_types=[kind], top_k=20)
    for memory_id in ids:
        said[memory_id] = await _about(user, memory_id)
    return {name: msgspec.to_builtins(answer) for name, answer in said.items()}


async def _about(user: UserMemory, memory_id: str) -> list[Any]:
    """Return the results of the reads of one memory, errors by their type."""
    reads = (
        user.get(memory_id), user.history(memory_id), user.entities.get(memory_id),
        user.entities.neighbours(memory_id, 2), user.entities.relationships(memory_id, ended=True),
        user.episodes.get(memory_id), user.documents.get(memory_id), user.expand(memory_id),
    )  # fmt: skip
    found = []
    for read in reads:
        try:
            found.append(await read)
        except MemoryActorsError as error:
            found.append(type(error).__name__)
    return found
