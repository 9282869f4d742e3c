"""All indexes of one user: one for each kind that has something to index, made when it has.

They stand apart so that a search of one kind costs nothing for the others, and share one centre, so
that their scores compare.

A text that comes alone is indexed when somebody looks, or a few milliseconds later: who has added
it need not wait for that, and of several in a row each takes half as long. Until then its passages
are pending, as they are while a text is embedded; whatever hands out an index, counts its vectors
or saves it calls `index_taken` first.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import is_
from pathlib import Path

import numpy as np

from eventlog import EventStore
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.rows import Row
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.files import of_kind
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import indexed
from memory_actors.search.indexes.pending import EmbeddedText
from memory_actors.search.indexes.rows import SAMPLE_MAX, Sample, centre

TRANSIENT_MAX = 8  # transient indexes: of a hundred messages each, most often
SETTLE_WITHIN_S = 0.005
SETTLED_LATER_MAX = 8  # texts: some 0.8 ms of the loop

Find = Callable[[Kind, str], Row | None]
"""(kind, memory id) -> the living row, or None."""


class UserIndexes:
    """The indexes of one user's memories, by kind; without a `path`, none is kept on disk."""

    def __init__(
        self,
        stream: str,
        path: Path | None,
        *,
        log: EventStore,
        embeddings: Embeddings,
        tasks: BackgroundTasks,
        find: Find,
        version: Callable[[], int] = lambda: 0,
    ):
        self._stream = stream
        self.path = path
        self._log = log
        self.embeddings = embeddings
        self._tasks = tasks
        self._find = find
        self._version = version
        self._of: dict[str, MemoryIndex] = {}
        self._transient: OrderedDict[tuple[str, str | None], MemoryIndex] = OrderedDict()
        self._centre: tuple[Sequence[Sample], Vectors | None] = ((), None)
        self._come: dict[bytes, EmbeddedText] = {}
        """Texts that are still to be indexed, by digest."""
        self._alarm: asyncio.TimerHandle | None = None

    def get(self, kind: Kind) -> MemoryIndex | None:
        """Return the index of a kind, None if there is nothing in it."""
        self.index_taken()
        return self._of.get(kind.NAME)

    def of(self, kinds: Iterable[Kind]) -> list[tuple[Kind, MemoryIndex]]:
        """Return the indexes of some kinds, of those that have one."""
        self.index_taken()
        return [(kind, index) for kind in kinds if (index := self._of.get(kind.NAME)) is not None]

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        indexes = (*self._of.values(), *self._transient.values())
        return sum(index.size_bytes for index in indexes)

    @property
    def wanting(self) -> int:
        """Number of passages that are not indexed yet."""
        return sum(len(index.pending) for index in self._of.values())

    @property
    def vector_bytes(self) -> int:
        """Bytes of the vectors that are searched, as float32."""
        self.index_taken()
        width = 4 * self.embeddings.embedder.dimension
        return width * sum(len(index.dense) for index in self._of.values())

    def centre(self, background: Vectors) -> Vectors:
        """Return where the common part of all vectors lies; `background` is float32 [d].

        The very same array as long as the sample is the same: what rests on it is kept.
        """
        samples = [self._of[name].dense.sample for name in sorted(self._of)]
        sampled, kept = self._centre
        # A sample that changes is another object.
        same = len(samples) == len(sampled) and all(map(is_, samples, sampled))
        if kept is None or not same:
            order = np.concatenate([np.empty(0, np.uint64), *(one.order for one in samples)])
            empty = np.empty((0, len(background)), np.float32)
            vectors = np.concatenate([empty, *(one.vectors.decoded() for one in samples)])
            first = np.argsort(order, kind="stable")[:SAMPLE_MAX]
            kept = centre(background, vectors[first])
            self._centre = (samples, kept)
        return kept

    def follow(self, kind: Kind, old: Row | None, new: Row | None) -> None:
        """Follow a change of a memory's row from `old` to `new`; None is no row."""
        if kind.NAME in self._of or indexed(kind, new):
            self._made(kind).follow(old, new)

    def compare(self, kind: Kind, rows: Iterable[Row]) -> None:
        """Make the index of a kind one of these rows."""
        found = [row for row in rows if indexed(kind, row)]
        if found or kind.NAME in self._of:
            self.made(kind).compare_all(found)

    def take(self, texts: Mapping[bytes, EmbeddedText]) -> None:
        """Index the passages that wanted these texts, by digest; those of one text, soon."""
        self._come |= texts
        if len(texts) > 1 or len(self._come) >= SETTLED_LATER_MAX:
            self.index_taken()
        elif self._alarm is None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(SETTLE_WITHIN_S, self.index_taken)

    def index_taken(self) -> None:
        """Index what has come."""
        if not self._come:
            return
        come = self._come
        self._forget_come()
        for index in self._of.values():
            index.settle(come)

    def _forget_come(self) -> None:
        self._come = {}
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def index_later(self, kind: Kind, drained: Callable[[], Awaitable[None]]) -> None:
        """Index what is pending after a pause. See `Pending.start_later`."""
        self._made(kind).pending.start_later(drained)

    async def catch_up(self, kinds: Iterable[Kind]) -> None:
        """Index what is pending; wait for what is of these kinds, a few seconds at most."""
        self.index_taken()
        for index in self._of.values():
            index.pending.start()
        await self.indexed(kinds)

    def index_what_lacks(self, kind: Kind, versions: Collection[int]) -> bool:
        """Begin to index passages of these events that are still pending; say whether any is."""
        index = self._of.get(kind.NAME)
        if index is None or not index.pending.wants_of(versions, self._come):
            return False
        self.index_taken()
        index.pending.start()
        return True

    async def indexed(self, kinds: Iterable[Kind]) -> None:
        """Wait for memories of these kinds that are just being indexed, a few seconds at most."""
        for _, index in self.of(kinds):
            await index.indexed()

    async def recovered(self, kinds: Iterable[Kind]) -> bool:
        """Embed again what a query missed the token states of; say whether there was any."""
        return any([await index.recovered() for _, index in self.of(kinds)])

    async def load(self, kind: Kind, state: object) -> None:
        """Read the index of a kind in this state from its files and the table of vectors."""
        if any(indexed(kind, row) for row in kind.indexed_rows(state)):  # the first says
            await self.made(kind).load(state)

    async def save(self, *, always: bool = True) -> None:
        """Save the words, which is quick: of all indexes, or of those that have changed."""
        self.index_taken()
        for index in list(self._of.values()):
            await index.save(always=always)

    def retire(self) -> None:
        """Drop the references back to the user, so that its memory is free at once."""
        self._forget_come()
        for index in (*self._of.values(), *self._transient.values()):
            index.retire()
        self._of.clear()
        self._transient.clear()
        del self._find, self._version

    def transient(self, kind: Kind, session_id: str | None) -> MemoryIndex:
        """Return the index of a kind whose rows are indexed when they are asked for.

        Each session has its own, so that an answer does not depend on who asked what before.
        """
        key = kind.NAME, session_id
        index = self._transient.get(key)
        if index is None:
            index = self._transient[key] = self._new(kind)
        self._transient.move_to_end(key)
        if len(self._transient) > TRANSIENT_MAX:
            self._transient.popitem(last=False)
        return index

    def made(self, kind: Kind) -> MemoryIndex:
        """Return the index of a kind, an empty one if there is none yet."""
        self.index_taken()
        return self._made(kind)

    def _made(self, kind: Kind) -> MemoryIndex:
        index = self._of.get(kind.NAME)
        if index is None:
            index = self._of[kind.NAME] = self._new(kind)
        return index

    def _new(self, kind: Kind) -> MemoryIndex:
        path = self.path
        return MemoryIndex(
            self._stream,
            kind,
            None if path is None else of_kind(path, kind.NAME),
            log=self._log,
            embeddings=self.embeddings,
            tasks=self._tasks,
            find=partial(self._find, kind),
            version=self._version,
        )
