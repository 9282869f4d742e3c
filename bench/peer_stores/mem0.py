"""mem0, open source: raw adds (`infer=False`), embedded Qdrant on disk, no LLM.

Its embedders are made by a factory from a list of providers, where ours takes the place of one. An
LLM has to be configured; this one has no key, and the network is shut, so a call would fail.

With fastembed installed, mem0 adds a BM25 vector to each memory and mixes its score in. fastembed
would fetch the English stop words from the Hugging Face hub (mem0ai/mem0#6361: there is no setting
for a local path); they are NLTK's, and are given to it here instead. mem0 also lemmatises for BM25
where spaCy and its English model are installed; that model is not on PyPI.
"""

# ruff: noqa: D102 - each method is described once, in base.Peer

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

os.environ["MEM0_TELEMETRY"] = "False"

from mem0 import Memory as Client
from mem0.embeddings.base import EmbeddingBase
from mem0.utils.factory import EmbedderFactory

from bench.peer_stores.base import Embed, Memory, Metadata, Peer

USER = "bench"
ALL = 1_000_000
STOP_WORDS_FILE = Path(__file__).with_name("english_stopwords.txt")


class OurEmbedding(EmbeddingBase):
    """Our vectors, where mem0 wants an embedding model."""

    embedder: ClassVar[Embed]

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002
        """Return the vector of a text."""
        vector: list[float] = self.embedder.embed([text])[0].tolist()
        return vector


class Mem0(Peer):
    """One user of one Memory, cosine only."""

    note = "infer=False, embedded Qdrant, threshold 0, without fastembed"
    keywords = False

    async def open(self, path: Path, embed: Embed) -> None:
        OurEmbedding.embedder = embed
        EmbedderFactory.provider_to_class["langchain"] = f"{__name__}.{OurEmbedding.__name__}"
        self._client = Client.from_config(_config(path, embed.dimension))
        self._client.vector_store._bm25_encoder = _encoder() if self.keywords else False  # noqa: SLF001
        self._own_ids: dict[str, str] = {}

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        added = self._client.add(
            text, user_id=USER, metadata={**metadata, "key": memory_id}, infer=False
        )
        self._own_ids[memory_id] = added["results"][0]["id"]

    async def add_many(self, memories: Sequence[Memory]) -> None:
        for memory in memories:  # there is no call for many with metadata of their own
            await self.add(*memory)

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        found = self._client.search(
            query, top_k=k, filters={"user_id": USER, **(where or {})}, threshold=0.0
        )
        return [hit["metadata"]["key"] for hit in found["results"]]

    async def delete(self, memory_id: str) -> None:
        if memory_id not in self._own_ids:
            self._own_ids |= self._listed()
        self._client.delete(self._own_ids.pop(memory_id))

    async def holds(self, ids: Sequence[str]) -> set[str]:
        return set(ids) & self._listed().keys()

    async def close(self) -> None:
        self._client.vector_store.client.close()
        self._client.close()

    def _listed(self) -> dict[str, str]:
        found = self._client.get_all(filters={"user_id": USER}, top_k=ALL)
        return {hit["metadata"]["key"]: hit["id"] for hit in found["results"]}


class Mem0WithKeywords(Mem0):
    """mem0 with its BM25."""

    note = "the same with fastembed's BM25, its stop words given locally; no lemmas (spaCy's model)"
    keywords = True


def _encoder() -> Any:
    from fastembed.sparse.bm25 import Bm25

    words = set(STOP_WORDS_FILE.read_text().split())
    # A folder with the files that would otherwise be downloaded; the words stand in for them.
    return Bm25("Qdrant/bm25", specific_model_path=str(STOP_WORDS_FILE.parent), stopwords=words)


def _config(path: Path, dimension: int) -> dict[str, Any]:
    store = {
        "collection_name": "memories",
        "path": str(path / "qdrant"),
        "on_disk": True,  # without it, some versions empty the directory first
        "embedding_model_dims": dimension,
    }
    return {
        "vector_store": {"provider": "qdrant", "config": store},
        "embedder": {"provider": "langchain", "config": {"embedding_dims": dimension}},
        "llm": {"provider": "openai", "config": {"api_key": "none: it must never be called"}},
        "history_db_path": str(path / "history.db"),
    }
