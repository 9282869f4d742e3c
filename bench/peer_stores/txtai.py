"""txtai: dense and sparse index together (`hybrid`), with content, external vectors."""

# ruff: noqa: D102 - each method is described once, in base.Peer

from collections.abc import Mapping, Sequence
from pathlib import Path

from txtai import Embeddings

from bench.peer_stores.base import Embed, Memory, Metadata, Peer
from memory_actors.search.embedding.protocol import Vectors

FOLDER = "index"


class Txtai(Peer):
    """One index, in memory until it is saved."""

    note = "hybrid, content; an add is in memory until save(), which writes everything again"

    async def open(self, path: Path, embed: Embed) -> None:
        def transform(texts: Sequence[str]) -> Vectors:  # txtai calls plain functions only
            return embed.embed(texts)

        self._folder = str(path / FOLDER)
        self._index = Embeddings(
            {"method": "external", "transform": transform, "hybrid": True, "content": True}
        )
        if self._index.exists(self._folder):
            self._index.load(self._folder, config={"transform": transform})

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        await self.add_many([Memory(memory_id, text, metadata)])

    async def add_many(self, memories: Sequence[Memory]) -> None:
        self._index.upsert([(key, {"text": text, **more}, None) for key, text, more in memories])

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        if not where:
            return [hit["id"] for hit in self._index.search(query, k)]
        clauses = "".join(f" and {key} = :{key}" for key in where)
        sql = f"select id, score from txtai where similar(:query){clauses} limit {k}"
        found = self._index.search(sql, parameters={"query": query, **where})
        return [hit["id"] for hit in found]

    async def delete(self, memory_id: str) -> None:
        self._index.delete([memory_id])

    async def holds(self, ids: Sequence[str]) -> set[str]:
        if not self._index.count():
            return set()
        found = self._index.search("select id from txtai", limit=self._index.count())
        return set(ids) & {hit["id"] for hit in found}

    async def persist(self) -> bool:
        self._index.save(self._folder)
        return True

    async def close(self) -> None:
        self._index.close()
