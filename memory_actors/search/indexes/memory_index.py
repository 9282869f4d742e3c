"""The index of one kind of a user's memories, kept in step with the rows of the state.

A search finds passages: a passage is a text of a row, under a label that no other has (see
kinds/kind.py). It is found by its vector, its words and its token states, and ranked with its
traits; all four take it in and let it go together, in one order of rows, so that a query reads them
as arrays. The embedding of a passage usually arrives right after its event: the caller embeds the
text while the log writes, and `settle` takes it. Until it has come the passage is pending: kept,
readable, but not found. One that never came (a failed embedder, a crash before it was written) is
picked up by `pending.start`, which reads its text from the log.

An activation takes the index from its file, at the version of the state that it was saved at, and
compares only the memories that the log has events about since, and those that were pending.
"""

import asyncio
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread
import msgspec
import numpy as np

from eventlog import ChainedStore, Dropped, EventStore
from eventlog.core.logs import get_logger
from eventlog.core.waiting import to_the_end
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.passages import Passage, version_of
from memory_actors.kinds.rows import Row, is_summary
from memory_actors.search.dot_products import coded_units
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.indexes.field_columns import FieldIndex
from memory_actors.search.indexes.files import IndexFiles, Kept
from memory_actors.search.indexes.graph import Graph
from memory_actors.search.indexes.labels import NONE
from memory_actors.search.indexes.parts import Parts, SessionOrder, indexed
from memory_actors.search.indexes.pending import EmbeddedText, PendingPassages
from memory_actors.search.indexes.postings import counted
from memory_actors.search.indexes.traits import Trait, spoken, times
from memory_actors.search.indexes.words import words

WAITING_BYTES = 320  # of a passage that is not indexed yet
_logger = get_logger("memory_actors.search.indexes")
INLINE_ROWS_MAX = 32  # vectors read on the loop: cheaper than a hop to a thread
TAIL_MAX = 20_000  # events since the file was written: of more, all memories are looked at
TAIL_AT_ONCE = 1_000
COMPARED_AT_ONCE = 256  # rows, before others get a turn: 5 ms
HELD_AFTER_S = 0.2
HELD_AT_ONCE = 256  # memories whose token states are read: 1 ms
SAVE_EVERY_EVENTS = 1_000  # whatever they are about: those since a file are looked at


class _Waiting(NamedTuple):
    memory_id: str
    place: int


class MemoryIndex:
    """The memories of one kind, found by meaning, words and token states.

    Without a `path` nothing of it is kept on disk, and no embedding that it asks for.
    """

    def __init__(
        self,
        stream: str,
        kind: Kind,
        path: Path | None,
        *,
        log: EventStore,
        embeddings: Embeddings,
        tasks: BackgroundTasks,
        find: Callable[[str], Row | None],
        version: Callable[[], int],
    ):
        self._stream = stream
        self._kind = kind
        self._files = None if path is None else IndexFiles(path, embeddings, self._fetch)
        self._log = log
        self._embeddings = embeddings
        self._tasks = tasks
        self._find = find
        self._version = version
        self._waiting: dict[int, _Waiting] = {}  # by label
        self.pending = PendingPassages(kind.NAME, self._texts, self.settle, embeddings, tasks)
        self._order = SessionOrder()
        self.synced: Any = None
        """Set by retrieval for an index in memory: the state that the index was last synced with.
        It is None once a query has changed it."""
        self._lost: set[int] = set()  # labels whose token states were not where they should be
        self._changed = False
        self._saved_version = 0
        dimension, codebook = embeddings.embedder.dimension, embeddings.codebook
        self._use(Parts.empty(dimension, self._fetch, codebook))
        self._describe_anew()

    def _use(self, parts: Parts) -> None:
        _, self.rows, self.dense, self.words, self.late, self.traits = parts

    def _describe_anew(self) -> None:
        owners = self.traits.owners
        self.fields: FieldIndex = FieldIndex(self._metadata, lambda: len(owners))
        """The metadata of memories, by their number in `traits.owners`."""

    def _metadata(self, number: int) -> Mapping[str, object] | None:
        row = self._find(self.traits.owners[number])
        return None if row is None else row.shown_metadata

    def retire(self) -> None:
        """Drop the references back to this index and its user."""
        self.pending.retire()
        del self._find, self._version, self._files, self.late, self.fields

    @property
    def parts(self) -> Parts:
        """The indexes that a query searches: taken on the loop, and read from any thread."""
        rows = self.rows
        return Parts(rows.count, rows, self.dense, self.words, self.late, self.traits)

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        parts = (self.rows, self.dense, self.words, self.late, self.traits, self.fields)
        return sum(part.size_bytes for part in parts) + WAITING_BYTES * len(self._waiting)

    def owner(self, label: int) -> str | None:
        """Return the id of the living memory that a passage belongs to."""
        if (waiting := self._waiting.get(label)) is not None:
            return waiting.memory_id
        row = self.rows.row_of(label)
        return None if row is None else self.traits.owner_at(row)

    # --- in step with the state

    def follow(self, old: Row | None, new: Row | None) -> None:
        """Follow a change of a memory's row from `old` to `new`; None is no row."""
        row = new or old
        if row is None:
            return
        before, after = indexed(self._kind, old), indexed(self._kind, new)
        if before != after:
            kept = {passage.label for passage in after}
            for passage in before:
                if passage.label not in kept:
                    self._forget(passage.label, self._kind.chain(row))
                    self.pending.discard(passage)
            self._await(row, after)
            self.maintain()
        if before or after:
            self._retime(row, after)
            number = self.traits.owners.of(row.memory_id)
            self.fields.follow(number, row.shown_metadata if after else None)

    def _forget(self, label: int, chain: str | None) -> None:
        self._order.leave(label, chain)
        self._waiting.pop(label, None)
        self.parts.forget(label)
        self._changed = True

    def _await(self, row: Row, passages: Iterable[Passage]) -> None:
        for passage in passages:
            if passage.label not in self.rows and passage.label not in self._waiting:
                self._waiting[passage.label] = _Waiting(row.memory_id, passage.place)
                self.pending.add(passage)

    def _retime(self, row: Row, passages: Sequence[Passage]) -> None:
        """Note the times that queries filter by."""
        known = times(row)
        for passage in passages:
            place = self.rows.row_of(passage.label)
            if place is not None:
                self.traits.retime(place, known)

    def compare_all(self, rows: Iterable[Row]) -> None:
        """Make the index one of these rows: forget others, and begin to index what is missing."""
        for _ in self._all_compared(rows):
            pass

    def _all_compared(self, rows: Iterable[Row]) -> Iterator[None]:
        self.pending.clear()
        self._waiting.clear()
        self._describe_anew()
        yield from self._compared(range(len(self.traits.owners)), rows)

    def _compared(self, numbers: Collection[int], rows: Iterable[Row]) -> Iterator[None]:
        """Compare rows, and the memories that have these numbers; yield now and then."""
        # Only rows and numbers are kept; passages are made again below, for the garbage collector
        # would visit each.
        found, firsts, kept = list[Row](), array("q"), array("q")
        for place, row in enumerate(rows):
            labels = [passage.label for passage in indexed(self._kind, row)]
            if labels:
                found.append(row)
                firsts.append(labels[0])
                kept.extend(labels)
            if place % COMPARED_AT_ONCE == 0:
                yield
        owners = self.traits.view(self.rows.count).owners
        known = self.rows.labels[self.rows.alive & np.isin(owners, list(numbers))]
        for label in known[~np.isin(known, np.asarray(kept))].tolist():
            self._forget(label, None)
        self._order = SessionOrder()
        # By their first labels: most passages go to the end of their session.
        for place, which in enumerate(np.argsort(np.asarray(firsts), kind="stable").tolist()):
            row, passages = found[which], indexed(self._kind, found[which])
            self._await(row, passages)
            self._retime(row, passages)
            if place % COMPARED_AT_ONCE == 0:
                yield
        self.pending.start()

    def settle(self, texts: Mapping[bytes, EmbeddedText]) -> None:
        """Index the passages that wanted these texts, by digest, and keep their embeddings.

        An unwanted embedding belongs to an event that never came, or has gone: it is not kept.
        """
        wanted = [(label, digest) for digest in texts for label in self.pending.pop(digest)]
        for label, digest in sorted(wanted):  # most go to an end
            waiting = self._waiting.pop(label, None)
            row = None if waiting is None else self._find(waiting.memory_id)
            if row is not None and waiting is not None:
                self._put(Passage(label, digest, waiting.place), row, texts[digest])
        if wanted and self._files is not None:
            self._embeddings.keep({digest: texts[digest].embedded for _, digest in wanted})
        self.maintain()

    def _put(self, passage: Passage, row: Row, text: EmbeddedText) -> None:
        (label, digest, place), chain, one = passage, self._kind.chain(row), text.embedded
        parts = self.parts
        says, summary = spoken(text.text), is_summary(row)
        said = getattr(row, "role", None) is not None  # a turn, not a fact
        trait = Trait(row.memory_id, times(row), chain, place, says, summary, said, digest)
        vector = one.coded or coded_units(one.vector[None])
        beside = self._order.place(label, place, chain, parts)
        parts.put(label, vector, counted(words(text.text)), one.tokens, trait, beside)
        self._changed = True

    # --- for who gives the passages, each with its text: nothing of that is kept on disk

    def retain(self, labels: Collection[int]) -> list[int]:
        """Forget all but these passages; return those that are not indexed yet."""
        for label in self.rows.there():
            if label not in labels:
                self.parts.forget(label)
        self.maintain()
        return [label for label in labels if label not in self.rows]

    def insert(self, row: Row, passage: Passage, text: EmbeddedText) -> None:
        """Index a passage of a row."""
        if passage.label not in self.rows:
            self._put(passage, row, text)

    # --- kept quick

    def maintain(self) -> None:
        """Start the slow part of keeping the index quick, if it pays."""
        if self.rows.wants_maintenance or self.words.postings.wants_lists:
            self._tasks.start(f"maintenance {self._kind.NAME}", self._maintain)
        self._extend_graph()

    def _extend_graph(self) -> None:
        if self._files is not None and self.dense.wants_graph:
            self._tasks.start(f"graph {self._kind.NAME}", self._grow_graph)

    async def _maintain(self) -> None:
        if self.rows.wants_maintenance:
            then, kept = self.parts, np.flatnonzero(self.rows.alive)
            fresh = await anyio.to_thread.run_sync(then.taken, kept)
            self._use(then.caught_up(fresh, kept))
        if (postings := self.words.postings).wants_lists:
            postings.adopt(await anyio.to_thread.run_sync(postings.listed))
        self.maintain()

    async def _grow_graph(self) -> None:
        """Take the rows into the graph that it lacks, in a thread, and save it now and then."""
        files = self._files
        assert files is not None, "only an index with files has a graph"
        while (dense := self.dense).wants_graph:
            if dense.graph is None:
                saved = await anyio.to_thread.run_sync(files.read_graph)
                chains = [await self._chain_at(version_of(one.newest)) for one in saved]
                ours = [one for one, at in zip(saved, chains, strict=True) if one.chain == at]
                dense.graph = await anyio.to_thread.run_sync(
                    Graph.restored, ours, dense.rows, dense.view()
                )
            else:
                await anyio.to_thread.run_sync(dense.graph.grow, dense.view())
                await self._write_graph(files, dense.graph)

    async def _write_graph(self, files: IndexFiles, graph: Graph) -> None:
        """Write the segments that have no file."""
        for number, segment in enumerate(graph.segments):
            if segment.saved is not None:
                chain = await self._chain_at(version_of(segment.saved.newest))
                saved = msgspec.structs.replace(segment.saved, chain=chain)
                writing = anyio.to_thread.run_sync(files.write_segment, number, saved)
                await to_the_end(writing)  # whoever is cancelled waits
                segment.saved = None

    async def _follow_up(self) -> None:
        """Finish an activation; the first answers need few token states, and no lists of words."""
        await asyncio.sleep(HELD_AFTER_S)
        self.maintain()
        labels = self.late.unheld
        for end in range(len(labels), 0, -HELD_AT_ONCE):  # the newest first
            some = labels[max(0, end - HELD_AT_ONCE) : end].tolist()
            packed = await anyio.to_thread.run_sync(self._fetch, some)
            self.late.hold(some, packed)
            if not self.late.has_room:
                return

    # --- what did not come with its event

    async def indexed(self) -> None:
        """Wait for memories that are just being indexed from the log, for a few seconds at most."""
        await self.pending.settled()
        self.pending.start()

    async def recovered(self) -> bool:
        """Embed again those whose token states were missed; say whether there was any.

        They were damaged, or deleted with another user's memory of the same text. Waits for a few
        seconds at most.
        """
        if not self._lost or self._files is None:
            return False
        while self._lost:
            label = self._lost.pop()
            row = self.rows.row_of(label)
            if row is not None:
                (digest,) = self.traits.digests(slice(row, row + 1))
                self.pending.add(Passage(label, digest))
        self.pending.start()
        await self.pending.settled()
        return True

    async def _texts(self, labels: Mapping[bytes, int]) -> dict[bytes, str]:
        """Return the texts of passages, from the log; of those that still live."""
        versions = sorted({version_of(label) for label in labels.values()})
        read = await self._log.read_versions(self._stream, versions)
        events = {recorded.version: recorded for recorded in read}
        texts = {}
        for digest, label in labels.items():
            row = self._find(self.owner(label) or "")
            if row is not None:
                texts[digest] = self._kind.passage_text(row, label, events)
        return texts

    def _fetch(self, labels: Sequence[int]) -> list[bytes | None]:
        """Return token states that are not held; from any thread."""
        parts = self.parts
        rows = parts.rows.rows_of_all(labels)
        there = np.flatnonzero(rows != NONE)
        digests = parts.traits.digests(rows[there])
        tokens = self._embeddings.tokens(digests, parts.traits.numbers(rows[there]))
        found: list[bytes | None] = [None] * len(labels)
        for place, digest in zip(there.tolist(), digests, strict=True):
            found[place] = tokens.get(digest)
        self._lost.update(label for label, one in zip(labels, found, strict=True) if one is None)
        return found

    # --- files

    async def load(self, state: object) -> None:
        """Read the index of a kind in this state from its files and the table of vectors."""
        files = self._files
        assert files is not None, "what is not kept on disk is not loaded from it"
        shared = self._embeddings.shared
        is_small = shared is None and self._kind.tally(state).count <= INLINE_ROWS_MAX
        if shared is not None:
            file = await files.fetch(shared)
        else:
            file = files.read() if is_small else await anyio.to_thread.run_sync(files.read)
        if file is not None and file.chain != await self._chain_at(file.version):
            _logger.warning("an index file is of another past: built anew", kind=self._kind.NAME)
            file = None
        loaded = files.load(file) if is_small else await anyio.to_thread.run_sync(files.load, file)
        self._use(loaded.parts)
        self._describe_anew()
        self._saved_version = loaded.version or 0
        self._changed = not self.traits.numbers().all()  # a file without them is written anew
        self._tasks.start(f"token states {self._kind.NAME}", self._follow_up)
        changed = await self._changed_since(loaded.version)
        if changed is None:
            for _ in self._all_compared(self._kind.rows(state)):
                await asyncio.sleep(0)
        elif changed or loaded.doubtful:
            memory_ids = changed | loaded.doubtful
            numbers = {self.traits.owners.find(memory_id) for memory_id in memory_ids} - {None}
            rows = filter(None, map(self._find, memory_ids))
            for _ in self._compared(cast("set[int]", numbers), rows):
                pass
        self._extend_graph()

    async def _changed_since(self, version: int | None) -> set[str] | None:
        """Return the memories that changed since a version, or None if that is unknown."""
        count = -1 if version is None else self._version() - version
        if version is None or not 0 <= count <= TAIL_MAX:
            return None
        changed: set[str] = set()
        while count > 0:
            events = await self._log.read_stream(
                self._stream, version, min(count, TAIL_AT_ONCE), dropped="mark"
            )
            if not events or any(isinstance(one.data, Dropped) for one in events):
                return None
            of_kind = set(self._kind.registry.classes())
            for one in events:
                if type(one.data) in of_kind:
                    changed.update(self._kind.registry.keys(one.data))
            version, count = version + len(events), count - len(events)
        return changed

    async def save(self, *, always: bool = True) -> None:
        """Save the words; unless `always`, if they changed or the state did much since."""
        much = self._version() - self._saved_version >= SAVE_EVERY_EVENTS
        if self._files is not None and (always or self._changed or much):
            self._saved_version = self._version()
            await self._log.flush()  # working memory is acknowledged before it is in the log
            chain = await self._chain_at(self._saved_version)
            # A copy of now, quickly made.
            waiting = tuple({one.memory_id for one in self._waiting.values()})
            words, rows = self.words.saved(), np.flatnonzero(self.rows.alive)
            kept = Kept(self._saved_version, waiting, self.parts, words, rows, chain)
            await self._files.save_words(kept)

    async def _chain_at(self, version: int) -> bytes:
        """Return the chain of the event of a version, where the log tells it."""
        log = self._log
        return await log.chain_at(self._stream, version) if isinstance(log, ChainedStore) else b""
