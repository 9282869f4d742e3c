"""The index of one kind as it would have been at a version, made in memory from rows and texts.

Vectors and token states come from the table where they are still there, and are computed again
where they are not; nothing is written.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import anyio.to_thread

from eventlog import EventStore
from memory_actors.kinds.kind import Kind, Passage
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.embedding.service import Embeddings
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import indexed
from memory_actors.search.indexes.pending import Text
from memory_actors.search.reading import Found, texts

PAGE = 256  # passages read, embedded and indexed at a time


class _Said(NamedTuple):
    """A passage with its text."""

    passage: Passage
    row: Any
    text: str


async def fill(
    index: MemoryIndex, kind: Kind, rows: Sequence[Any], log: EventStore, stream: str,
    embeddings: Embeddings,
) -> None:  # fmt: skip
    """Index these rows, which are all of a kind that have something to index.

    :raises EmbedderError: a text had to be embedded again, and could not be.
    :raises PayloadDropped: retention has dropped one of the texts.
    """
    said: list[_Said] = []
    for start in range(0, len(rows), PAGE):
        said += await _said(kind, rows[start : start + PAGE], log, stream)
    said.sort(key=lambda one: (one.passage.place, one.passage.label))  # most go to an end
    for start in range(0, len(said), PAGE):
        page = said[start : start + PAGE]
        embedded = await _embedded(page, embeddings)
        await anyio.to_thread.run_sync(_insert, index, page, embedded)
    index.compare(rows)


async def _said(kind: Kind, rows: Sequence[Any], log: EventStore, stream: str) -> list[_Said]:
    events = await texts(log, stream, [Found(kind, row) for row in rows])
    said = []
    for row in rows:
        for passage in indexed(kind, row):
            text = kind.passage_text(row, passage.label, events)
            said.append(_Said(passage, row, text))
    return said


async def _embedded(page: Sequence[_Said], embeddings: Embeddings) -> dict[bytes, Embedded]:
    wanted = {one.passage.digest: one.text for one in page}
    embedded, failed = await embeddings.embed_each(wanted, background=True)
    if failed:
        raise next(iter(failed.values()))
    return embedded


def _insert(index: MemoryIndex, page: Sequence[_Said], embedded: dict[bytes, Embedded]) -> None:
    """Index a page."""
    for passage, row, text in page:
        index.insert(row, passage, Text(text, embedded[passage.digest]))
