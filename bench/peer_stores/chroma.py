"""Chroma: a collection in a PersistentClient, cosine, with an embedding function of its own."""

# ruff: noqa: D102 - each method is described once, in base.Peer

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings

from bench.peer_stores.base import Embed, Memory, Metadata, Peer

COLLECTION = "memories"


class _Function(chromadb.EmbeddingFunction[Any]):
    """Our vectors, where Chroma wants an embedding function."""

    def __init__(self, embed: Embed):
        self._embed = embed

    def __call__(self, input: Sequence[str]) -> Any:  # noqa: A002 - Chroma checks the name
        return list(self._embed.embed(list(input)))

    @staticmethod
    def name() -> str:
        return "bench"

    def get_config(self) -> dict[str, Any]:
        return {}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> Any:
        raise NotImplementedError(config)


class Chroma(Peer):
    """One collection."""

    note = "PersistentClient, hnsw:space cosine, all else by default"

    async def open(self, path: Path, embed: Embed) -> None:
        settings = Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(str(path), settings=settings)
        self._collection = self._client.get_or_create_collection(
            COLLECTION,
            embedding_function=_Function(embed),
            configuration={"hnsw": {"space": "cosine"}},
        )

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        self._collection.add(ids=[memory_id], documents=[text], metadatas=[dict(metadata)])

    async def add_many(self, memories: Sequence[Memory]) -> None:
        ids, texts, metadatas = map(list, zip(*memories, strict=True))
        self._collection.add(ids=ids, documents=texts, metadatas=[dict(one) for one in metadatas])

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        found = self._collection.query(
            query_texts=[query], n_results=k, where=dict(where) if where else None
        )
        return list(found["ids"][0])

    async def delete(self, memory_id: str) -> None:
        self._collection.delete(ids=[memory_id])

    async def holds(self, ids: Sequence[str]) -> set[str]:
        return set(self._collection.get(ids=list(ids), include=[])["ids"])

    async def close(self) -> None:
        self._client.close()
