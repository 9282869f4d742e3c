"""rank_bm25: keywords alone, in memory. A floor, not a store: each change means a new index."""

# ruff: noqa: D102 - each method is described once, in base.Peer

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rank_bm25 import BM25Okapi

from bench.peer_stores.base import Embed, Memory, Metadata, Peer

_WORD = re.compile(r"\w+")


class RankBM25(Peer):
    """A list of texts, and an index of them that is made when it is first asked."""

    keeps = False
    note = "BM25Okapi over lower-case words, not stemmed; in memory"

    async def open(self, path: Path, embed: Embed) -> None:  # noqa: ARG002 - it needs neither
        self._memories: dict[str, Memory] = {}
        self._index: BM25Okapi | None = None

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        await self.add_many([Memory(memory_id, text, metadata)])

    async def add_many(self, memories: Sequence[Memory]) -> None:
        self._memories |= {memory.id: memory for memory in memories}
        self._index = None

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        if self._index is None:
            self._index = BM25Okapi([_words(one.text) for one in self._memories.values()])
        ids = list(self._memories)
        if not where:
            scores = self._index.get_scores(_words(query))
            return [ids[row] for row in np.argsort(-scores, kind="stable")[:k]]
        rows = [row for row, one in enumerate(ids) if self._matches(one, where)]
        scores = np.asarray(self._index.get_batch_scores(_words(query), rows))
        return [ids[rows[place]] for place in np.argsort(-scores, kind="stable")[:k]]

    async def delete(self, memory_id: str) -> None:
        del self._memories[memory_id]
        self._index = None

    async def holds(self, ids: Sequence[str]) -> set[str]:
        return set(ids) & self._memories.keys()

    async def settle(self) -> None:
        if self._memories:
            await self.search("", 1)

    async def close(self) -> None:
        self._memories.clear()

    def _matches(self, memory_id: str, where: Mapping[str, str]) -> bool:
        return where.items() <= self._memories[memory_id].metadata.items()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
