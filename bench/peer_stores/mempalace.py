"""MemPalace: drawers in its default (Chroma) palace, and its own search over them.

Its embedding functions are built in, by name; ours takes the place of the one it builds by default,
which is the same model, fetched from the network by Chroma. Filters know wings, rooms and source
files only, so the topic of a memory is its room.
"""

# ruff: noqa: D102 - each method is described once, in base.Peer

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mempalace import embedding
from mempalace.palace import get_collection
from mempalace.searcher import search_memories

from bench.peer_stores.base import Embed, Memory, Metadata, Peer, Unavailable

WING = "bench"


class _Function:
    """Our vectors, with what MemPalace and Chroma ask of an embedding function."""

    def __init__(self, embed: Embed):
        self._embed = embed

    def __call__(self, input: Sequence[str]) -> Any:  # noqa: A002 - Chroma checks the name
        return list(self._embed.embed(list(input)))

    embed_query = embed_documents = __call__

    @staticmethod
    def name() -> str:
        return "default"

    def is_legacy(self) -> bool:
        return False

    def get_config(self) -> dict[str, Any]:
        return {}

    def default_space(self) -> str:
        return "cosine"

    def supported_spaces(self) -> list[str]:
        return ["cosine", "l2", "ip"]


class MemPalace(Peer):
    """One wing of one palace."""

    note = "get_collection().upsert and search_memories, default backend and candidate strategy"

    async def open(self, path: Path, embed: Embed) -> None:
        function = _Function(embed)
        embedding.get_embedding_function = lambda *_args, **_kwargs: function
        self._path = str(path)
        self._drawers = get_collection(self._path)

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        await self.add_many([Memory(memory_id, text, metadata)])

    async def add_many(self, memories: Sequence[Memory]) -> None:
        ids, texts, metadatas = map(list, zip(*memories, strict=True))
        self._drawers.upsert(ids=ids, documents=texts, metadatas=list(map(_drawer, metadatas)))

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        room = where["topic"] if where else None
        found = search_memories(query, self._path, room=room, n_results=k)
        if "results" not in found:
            raise Unavailable(str(found))
        return [hit["drawer_id"] for hit in found["results"]]

    async def delete(self, memory_id: str) -> None:
        self._drawers.delete(ids=[memory_id])

    async def holds(self, ids: Sequence[str]) -> set[str]:
        return set(self._drawers.get(ids=list(ids), include=[]).ids)

    async def close(self) -> None:
        self._drawers.close()


def _drawer(metadata: Metadata) -> dict[str, Any]:
    filed = {"wing": WING, "room": metadata["topic"], "filed_at": metadata["occurred_at"]}
    return {**metadata, **filed, "source_file": metadata["session"], "chunk_index": 0}
