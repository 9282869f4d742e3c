"""The index of one kind of a user's memories, kept in step with the rows of the state.

What is found is a passage: a text of a row, under a label that no other has (see kinds/kind.py). A
fact is one passage; an entity has one for its name and one for each observation. The vector of a
passage usually comes right after its event: the caller computes it while the log writes, and
`settle` takes it. Until it has come the passage is wanting: kept, readable, but not found by
meaning. One whose vector never came (a failed embedder, a crash before the vectors were written) is
picked up by `index_wanting`, which reads its text from the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import structlog

from eventlog import EventStore
from memory_actors.chores import Chores
from memory_actors.embedding.protocol import Vectors
from memory_actors.embedding.service import EmbeddingService
from memory_actors.indexes.dense import DenseIndex
from memory_actors.kinds.kind import Kind, Passage, Row, version_of

TEXTS_MAX = 64  # passages without a vector embedded in one go
RETRY_S = 5.0  # after the embedder failed
WAIT_S = 5.0  # how long a query waits for memories that are just being indexed
OWNER_BYTES = 250  # of a label: its place in a map, and its mention in a row
INLINE_ROWS_MAX = 32  # vectors read on the loop: cheaper than a hop to a thread

_logger = structlog.get_logger("memory_actors.user")


class MemoryIndex:
    """The memories of one kind by meaning. `dense` is what searches."""

    def __init__(
        self,
        stream: str,
        kind: Kind,
        path: Path,
        *,
        log: EventStore,
        embeddings: EmbeddingService,
        chores: Chores,
        find: Callable[[str], Any],
    ):
        self.dense = DenseIndex(embeddings.embedder.dimension)
        self._stream = stream
        self._kind = kind
        self._path = path
        self._log = log
        self._embeddings = embeddings
        self._chores = chores
        self._find = find
        self._owner: dict[int, str] = {}  # memory id by label
        self._wanting: dict[bytes, set[int]] = {}  # digest -> labels whose vector has not come
        self._changed = False
        self._waits = False  # for an embedder that failed

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return self.dense.size_bytes + OWNER_BYTES * len(self._owner)

    def owner(self, label: int) -> str | None:
        """Return the id of the living memory that a passage belongs to."""
        return self._owner.get(label)

    # --- in step with the state

    def follow(self, old: Sequence[Passage], new: Sequence[Passage], memory_id: str) -> None:
        """Take note that a memory had the `old` passages and has the `new` ones."""
        kept = {passage.label for passage in new}
        for passage in old:
            if passage.label not in kept:
                self._drop(passage)
        for passage in new:
            if passage.label not in self._owner:
                self._owner[passage.label] = memory_id
                self._want(passage)

    def _drop(self, passage: Passage) -> None:
        self._owner.pop(passage.label, None)
        self.dense.remove(passage.label)
        self._unwant(passage)
        self._changed = True

    def compare(self, rows: Iterable[Row]) -> None:
        """Take these for all the rows there are: drop other vectors, want the missing ones."""
        passages = [(p, row.memory_id) for row in rows for p in self._kind.passages(row)]
        self._owner = {passage.label: memory_id for passage, memory_id in passages}
        for label in self.dense.labels():
            if label not in self._owner:
                self.dense.remove(label)
        self._wanting.clear()
        for passage, _ in passages:
            if passage.label not in self.dense:
                self._want(passage)
        self.index_wanting()

    def settle(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Index the passages that wanted these vectors, by digest of what was embedded."""
        for digest, vector in vectors.items():
            for label in self._wanting.pop(digest, ()):
                self.dense.add(label, vector)
                self._changed = True
        self.maintain()

    def maintain(self) -> None:
        """Start the slow part of keeping the index quick, if it pays."""
        if self.dense.wants_maintenance:
            self._chores.start(f"maintenance {self._kind.NAME}", self._maintain)

    async def _maintain(self) -> None:
        self.dense.adopt(await anyio.to_thread.run_sync(self.dense.maintain))

    def _want(self, passage: Passage) -> None:
        self._wanting.setdefault(passage.digest, set()).add(passage.label)

    def _unwant(self, passage: Passage) -> None:
        labels = self._wanting.get(passage.digest, set())
        labels.discard(passage.label)
        if not labels:
            self._wanting.pop(passage.digest, None)

    # --- vectors that did not come with their event

    @property
    def _chore(self) -> str:
        return f"index {self._kind.NAME}"

    def index_wanting(self) -> None:
        """Begin to index what wants a vector."""
        if self._wanting:
            self._chores.start(self._chore, self._index_wanting)

    def index_later(self, drained: Callable[[], Awaitable[None]]) -> None:
        """Do so after a pause, and once `drained` says that what was under way has come."""
        self._chores.start(self._chore, lambda: self._after_a_pause(drained))

    async def indexed(self) -> None:
        """Wait for memories that are just being indexed from the log, for a few seconds at most."""
        chore = self._chores.running(self._chore)
        if chore is None or self._waits:
            return
        done, _ = await asyncio.wait([chore], timeout=WAIT_S)
        if not done:
            _logger.warning("memories not yet searchable", count=len(self._wanting))

    async def _after_a_pause(self, drained: Callable[[], Awaitable[None]]) -> None:
        self._waits = True
        await asyncio.sleep(RETRY_S)
        with anyio.move_on_after(RETRY_S):
            await drained()
        await self._index_wanting()

    async def _index_wanting(self) -> None:
        while self._wanting:
            self._waits = False
            if not await self._index_some():
                self._waits = True
                await asyncio.sleep(RETRY_S)

    async def _index_some(self) -> bool:
        """Embed some of the memories that want a vector; say whether any got one."""
        batch = [(d, min(labels)) for d, labels in islice(self._wanting.items(), TEXTS_MAX)]
        texts = await self._texts(dict(batch))
        vectors, failed = await self._embeddings.embed_each(texts)
        self.settle(vectors)
        for digest in failed:  # to the end of the line, so that others get their turn
            labels = self._wanting.pop(digest, None)
            if labels:
                self._wanting[digest] = labels
        if failed:
            _logger.warning("memories not indexed", count=len(failed))
        return bool(vectors) or not texts

    async def _texts(self, labels: Mapping[bytes, int]) -> dict[bytes, str]:
        """Return the texts of passages, from the log; of those that still live."""
        versions = sorted({version_of(label) for label in labels.values()})
        read = await self._log.read_versions(self._stream, versions)
        events = {recorded.version: recorded for recorded in read}
        texts = {}
        for digest, label in labels.items():
            row = self._find(self._owner.get(label, ""))
            if row is not None:
                texts[digest] = self._kind.passage_text(row, label, events)
        return texts

    # --- files

    async def load(self, rows: Sequence[Row]) -> None:
        """Read the index of these rows from its files and the table of vectors."""
        load = partial(self._loaded, rows)
        inline = len(rows) <= INLINE_ROWS_MAX
        self.dense = load() if inline else await anyio.to_thread.run_sync(load)
        self.compare(rows)
        self.maintain()

    async def save(self) -> None:
        """Keep what would be slow to build again, if it has changed."""
        if self._changed:
            model = self._embeddings.embedder.fingerprint
            await anyio.to_thread.run_sync(self.dense.save, self._path, model)

    def _loaded(self, rows: Sequence[Row]) -> DenseIndex:
        passages = [passage for row in rows for passage in self._kind.passages(row)]
        vectors = self._embeddings.stored([passage.digest for passage in passages])
        labelled = {p.label: vectors[p.digest] for p in passages if p.digest in vectors}
        embedder = self._embeddings.embedder
        return DenseIndex.load(embedder.dimension, labelled, self._path, embedder.fingerprint)
