"""memory-actors, through its public API."""

# ruff: noqa: D102 - each method is described once, in base.Peer

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench.opened import at_rest
from bench.peer_stores.base import Embed, Memory, Metadata, Peer
from memory_actors import Item, Limits, MemorySystem, NotFoundError, Plan, Settings, Tier

USER = "bench"
LIMITS = Limits(long_term_memories=1_000_000, long_term_bytes=1 << 40)
BATCH_MAX = 1_000  # of `add_many`


class Ours(Peer):
    """One system with one user."""

    note = "user.add, user.add_many, user.retrieve; commits are synced before they are acknowledged"

    async def open(self, path: Path, embed: Embed) -> None:
        self._stack = AsyncExitStack()
        settings = Settings(tiers={Tier.LOCAL: Plan(limits=LIMITS)})
        system = MemorySystem.open(path, embedder=embed, settings=settings, alerts=[])
        self._system: MemorySystem = await self._stack.enter_async_context(system)
        self._user = self._system.user(USER)

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        await self._user.add(
            text,
            memory_id=memory_id,
            metadata=dict(metadata),
            occurred_at=metadata["occurred_at"],
            session_id=metadata["session"],
            role=metadata["speaker"],
        )

    async def add_many(self, memories: Sequence[Memory]) -> None:
        items = [_item(memory) for memory in memories]
        for start in range(0, len(items), BATCH_MAX):
            await self._user.add_many(items[start : start + BATCH_MAX])

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        hits = await self._user.retrieve(query, memory_types=["long_term"], top_k=k, filters=where)
        return [hit.memory_id for hit in hits]

    async def delete(self, memory_id: str) -> None:
        await self._user.delete(memory_id)

    async def holds(self, ids: Sequence[str]) -> set[str]:
        return {one for one in ids if await self._holds(one)}

    async def settle(self) -> None:
        await at_rest(self._system, USER)

    async def close(self) -> None:
        await self._stack.aclose()

    async def _holds(self, memory_id: str) -> bool:
        try:
            await self._user.get(memory_id)
        except NotFoundError:
            return False
        return True


def _item(memory: Memory) -> Item:
    return Item(
        content=memory.text,
        memory_id=memory.id,
        metadata=dict(memory.metadata),
        occurred_at=memory.metadata["occurred_at"],
        session_id=memory.metadata["session"],
        role=memory.metadata["speaker"],
    )
