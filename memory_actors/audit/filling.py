"""The index of one kind as it would have been at a version, made in memory from rows and texts.

Vectors and token states come from the table where they are still there, and are computed again
where they are not; nothing is written. In a session a memory that was reworded stands where it
stood before, as in the index of a live user, so the passages go in by when each began.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import anyio.to_thread

from eventlog import EventStore
from memory_actors.effects import BEGINS, effect
from memory_actors.embedding.of_user import Embeddings
from memory_actors.embedding.protocol import Embedded
from memory_actors.indexes.memory_index import MemoryIndex
from memory_actors.indexes.parts import indexed
from memory_actors.indexes.wanting import Text
from memory_actors.kinds.kind import Kind, Passage, Updated, index_of, label, version_of
from memory_actors.reading import Found, texts

PAGE = 256  # passages read, embedded and indexed at a time


class _Said(NamedTuple):
    """A passage with its text."""

    place: int
    """A label: that of the passage, or the one it would have if it had never been reworded."""
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
    said.sort(key=lambda one: (one.place, one.passage.label))
    ends: dict[str, int] = {}
    for start in range(0, len(said), PAGE):
        page = said[start : start + PAGE]
        embedded = await _embedded(page, embeddings)
        await anyio.to_thread.run_sync(_insert, index, kind, page, embedded, ends)
    index.compare(rows)


async def _said(kind: Kind, rows: Sequence[Any], log: EventStore, stream: str) -> list[_Said]:
    events = await texts(log, stream, [Found(kind, row) for row in rows])
    said = []
    for row in rows:
        for passage in indexed(kind, row):
            text, place = kind.passage_text(row, passage.label, events), passage.label
            reworded = isinstance(events[version_of(place)].data, Updated)
            if reworded and kind.chain(row) is not None:
                place = await _place(row, passage, log, stream)
            said.append(_Said(place, passage, row, text))
    return said


async def _place(row: Any, passage: Passage, log: EventStore, stream: str) -> int:
    """Return the label that a reworded passage of a memory would have as it began."""
    before = version_of(passage.label)
    about = await log.versions_about(stream, row.memory_id)
    earlier = [version for version in about if version < before]
    for recorded in reversed(await log.read_versions(stream, earlier, dropped="mark")):
        if effect(recorded.tag, recorded.data, row.memory_id) in BEGINS:
            return label(recorded.version, index_of(passage.label))
    return passage.label


async def _embedded(page: Sequence[_Said], embeddings: Embeddings) -> dict[bytes, Embedded]:
    wanted = {one.passage.digest: one.text for one in page}
    embedded, failed = await embeddings.embed_each(wanted, keep=False, background=True)
    if failed:
        raise next(iter(failed.values()))
    return embedded


def _insert(
    index: MemoryIndex,
    kind: Kind,
    page: Sequence[_Said],
    embedded: dict[bytes, Embedded],
    ends: dict[str, int],
) -> None:
    """Index a page, each passage behind the one before it in its session."""
    for _, passage, row, text in page:
        chain = kind.chain(row)
        after = None if chain is None else ends.get(chain)
        index.insert(row, passage, Text(text, embedded[passage.digest]), after)
        if chain is not None:
            ends[chain] = passage.label
