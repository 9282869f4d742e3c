"""The index of one user's long-term memories, kept in step with the rows of the state.

A row is found by its label, the version of the event that has its text. Its vector usually comes
right after the event: the caller computes it while the log writes, and `settle` takes it. Until it
has come the memory is wanting: kept, readable, but not found by meaning. A memory whose vector
never came (a failed embedder, a crash before the vectors were written) is picked up by
`index_wanting`, which reads its text from the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from eventlog import EventStore
from memory_actors.chores import Chores
from memory_actors.embedding.protocol import Vectors
from memory_actors.embedding.service import EmbeddingService
from memory_actors.embedding.spoken import spoken
from memory_actors.indexes.dense import DenseIndex
from memory_actors.kinds.long_term import Row

TEXTS_MAX = 64  # memories without a vector embedded in one go
RETRY_S = 5.0  # after the embedder failed
WAIT_S = 5.0  # how long a query waits for memories that are just being indexed
INLINE_ROWS_MAX = 32  # vectors read on the loop: cheaper than a hop to a thread

_logger = structlog.get_logger("memory_actors.user")


class MemoryIndex:
    """Long-term memories by meaning. `dense` is what searches."""

    def __init__(
        self,
        stream: str,
        path: Path,
        *,
        log: EventStore,
        embeddings: EmbeddingService,
        chores: Chores,
    ):
        self.dense = DenseIndex(embeddings.embedder.dimension)
        self._stream = stream
        self._path = path
        self._log = log
        self._embeddings = embeddings
        self._chores = chores
        self._rows: dict[int, Row] = {}  # by label
        self._wanting: dict[bytes, set[int]] = {}  # digest -> labels whose vector has not come
        self._changed = False
        self._waits = False  # for an embedder that failed

    def row_of(self, label: int) -> Row | None:
        """Return the living memory that a label stands for."""
        return self._rows.get(label)

    # --- in step with the state

    def follow(self, old: Row | None, new: Row | None) -> None:
        """Take note that a memory's row was `old` and is `new`; None is no row."""
        moved = old is None or new is None or old.version != new.version
        if old is not None and moved:
            del self._rows[old.version]
            self.dense.remove(old.version)
            self._unwant(old)
            self._changed = True
        if new is not None:
            self._rows[new.version] = new
            if moved:
                self._want(new)

    def compare(self, rows: Sequence[Row]) -> None:
        """Take these for all the rows there are: drop other vectors, want the missing ones."""
        self._rows = {row.version: row for row in rows}
        for label in self.dense.labels():
            if label not in self._rows:
                self.dense.remove(label)
        self._wanting.clear()
        for row in rows:
            if row.version not in self.dense:
                self._want(row)
        self.index_wanting()

    def settle(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Index the memories that wanted these vectors, by digest of what was embedded."""
        for digest, vector in vectors.items():
            for label in self._wanting.pop(digest, ()):
                self.dense.add(label, vector)
                self._changed = True
        self.maintain()

    def maintain(self) -> None:
        """Start the slow part of keeping the index quick, if it pays."""
        if self.dense.wants_maintenance:
            self._chores.start("maintenance", self._maintain)

    async def _maintain(self) -> None:
        self.dense.adopt(await anyio.to_thread.run_sync(self.dense.maintain))

    def _want(self, row: Row) -> None:
        self._wanting.setdefault(row.digest, set()).add(row.version)

    def _unwant(self, row: Row) -> None:
        labels = self._wanting.get(row.digest, set())
        labels.discard(row.version)
        if not labels:
            self._wanting.pop(row.digest, None)

    # --- vectors that did not come with their event

    def index_wanting(self) -> None:
        """Begin to index what wants a vector."""
        if self._wanting:
            self._chores.start("index", self._index_wanting)

    def index_later(self, drained: Callable[[], Awaitable[None]]) -> None:
        """Do so after a pause, and once `drained` says that what was under way has come."""
        self._chores.start("index", lambda: self._after_a_pause(drained))

    async def indexed(self) -> None:
        """Wait for memories that are just being indexed from the log, for a few seconds at most."""
        chore = self._chores.running("index")
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
        batch = [min(labels) for labels in islice(self._wanting.values(), TEXTS_MAX)]
        events = await self._log.read_versions(self._stream, batch)
        texts = {
            row.digest: spoken(recorded.data.content, row.role)
            for recorded, row in zip(events, map(self.row_of, batch), strict=True)
            if row is not None  # else it went while its text was read
        }
        vectors, failed = await self._embeddings.embed_each(texts)
        self.settle(vectors)
        for digest in failed:  # to the end of the line, so that others get their turn
            labels = self._wanting.pop(digest, None)
            if labels:
                self._wanting[digest] = labels
        if failed:
            _logger.warning("memories not indexed", count=len(failed))
        return bool(vectors) or not texts

    # --- files

    async def load(self, rows: Sequence[Row]) -> None:
        """Read the index of these rows from its files and the table of vectors."""
        if not rows:
            return
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
        vectors = self._embeddings.stored([row.digest for row in rows])
        labelled = {row.version: vectors[row.digest] for row in rows if row.digest in vectors}
        embedder = self._embeddings.embedder
        return DenseIndex.load(embedder.dimension, labelled, self._path, embedder.fingerprint)
