"""The LangGraph store: SqliteStore with a vector index.

The index is an extension (sqlite-vec), and some builds of Python, pyenv's among them, have an
sqlite3 that loads none. pysqlite3 is the same module with a library of its own that does.
"""

# ruff: noqa: D102 - each method is described once, in base.Peer

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

from bench.peer_stores.base import Embed, Memory, Metadata, Peer, Unavailable

NAMESPACE = ("bench", "memories")
# Said with each put, since the store ignores its own setting `fields` and would embed the metadata
# too (langchain-ai/langgraph#8808).
FIELDS = ["text"]


class LangGraph(Peer):
    """One namespace."""

    note = "SqliteStore as from_conn_string makes it; index=['text'] with each put (#8808)"

    async def open(self, path: Path, embed: Embed) -> None:
        def vectors(texts: Sequence[str]) -> list[list[float]]:
            found: list[list[float]] = embed.embed(list(texts)).tolist()
            return found

        # As SqliteStore.from_conn_string connects.
        self._connection = _sqlite().connect(
            str(path / "store.sqlite"), check_same_thread=False, isolation_level=None
        )
        self._store = SqliteStore(
            self._connection,
            index={"dims": embed.dimension, "embed": vectors, "fields": FIELDS},
        )
        self._store.setup()

    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        self._store.put(NAMESPACE, memory_id, {"text": text, **metadata}, index=FIELDS)

    async def add_many(self, memories: Sequence[Memory]) -> None:
        self._store.batch(
            [PutOp(NAMESPACE, key, {"text": text, **more}, FIELDS) for key, text, more in memories]
        )

    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        found = self._store.search(
            NAMESPACE, query=query, limit=k, filter=dict(where) if where else None
        )
        return [item.key for item in found]

    async def delete(self, memory_id: str) -> None:
        self._store.delete(NAMESPACE, memory_id)

    async def holds(self, ids: Sequence[str]) -> set[str]:
        return {one for one in ids if self._store.get(NAMESPACE, one) is not None}

    async def close(self) -> None:
        self._connection.close()


def _sqlite() -> Any:
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    try:
        import pysqlite3
    except ImportError:
        raise Unavailable(
            "this Python's sqlite3 loads no extensions (sqlite-vec): pip install pysqlite3-binary"
        ) from None
    return pysqlite3
