"""LanceDB: one table with a vector column and a full-text index, hybrid search, RRF."""

# ruff: noqa: D102 - each method is described once, in base.Peer

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

os.environ.setdefault("LANCEDB_LOG", "error")  # else a deprecation warning a query

import lancedb
from lancedb.embeddings import TextEmbeddingFunction, register
from lancedb.index import FTS
from lancedb.pydantic import LanceModel, Vector

from bench.peer_stores.base import Embed, Memory, Metadata, Peer

TABLE = "memories"


@register("bench")
class OurFunction(TextEmbeddingFunction):  # type: ignore[misc]
    """Our vectors, where LanceDB wants an embedding function."""

    embedder: ClassVar[Embed]

    def ndims(self) -> int:
        """Return the length of each vector."""
        return self.embedder.dimension

    def generate_embeddings(self, texts: Any, *_args: Any, **_kwargs: Any) -> list[Any]:
        """Return one vector a text."""
        return list(self.embedder.embed([str(text) for text in texts]))


class LanceDB(Peer):
    """One table."""

    note = "hybrid, RRF; full-text index made by the first upkeep, extended by optimize()"

    async def open(self, path: Path, embed: Embed) -> None:
        OurFunction.embedder = embed
        self._db = lancedb.connect(str(path))
        if TABLE in self._db.list_tables().tables:
            self._table = self._db.open_table(TABLE)
        else:
            self._table = self._db.create_table(TABLE, schema=_schema())
            self._table.create_index("text", config=FTS())

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        self._table.add([{"id": memory_id, "text": text, **metadata}])

    async def add_many(self, memories: Sequence[Memory]) -> None:
        self._table.add([{"id": key, "text": text, **more} for key, text, more in memories])

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        asked = self._table.search(query, query_type="hybrid").limit(k)
        if where:
            asked = asked.where(" AND ".join(f"{key} = {_quoted(where[key])}" for key in where))
        return [row["id"] for row in asked.select(["id"]).to_list()]

    async def delete(self, memory_id: str) -> None:
        self._table.delete(f"id = {_quoted(memory_id)}")

    async def holds(self, ids: Sequence[str]) -> set[str]:
        return set(ids) & set(self._table.to_arrow()["id"].to_pylist())

    async def settle(self) -> None:
        self._table.optimize()

    async def close(self) -> None:
        del self._table, self._db


def _schema() -> type[LanceModel]:
    function = OurFunction.create()

    class Row(LanceModel):  # type: ignore[misc]
        id: str
        text: str = function.SourceField()
        vector: Vector(function.ndims()) = function.VectorField()  # type: ignore[valid-type]
        session: str
        speaker: str
        occurred_at: str
        topic: str

    return Row


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
