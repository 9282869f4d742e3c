"""The index of one kind of a user's memories, kept in step with the rows of the state.

What is found is a passage: a text of a row, under a label that no other has (see kinds/kind.py). It
is found by its vector, its words and its token states, and ranked with its traits; all four take it
in and let it go together, in one order of rows, so that a query reads them as arrays. What a
passage needs usually comes right after its event: the caller embeds the text while the log writes,
and `settle` takes it. Until it has come the passage is pending: kept, readable, but not found. One
that never came (a failed embedder, a crash before it was written) is picked up by `pending.start`,
which reads its text from the log.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from eventlog import EventStore
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.kinds.kind import Kind, Passage, Row, is_summary, version_of
from memory_actors.search.embedding.service import Embeddings
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.fields import FieldIndex
from memory_actors.search.indexes.late import LateIndex
from memory_actors.search.indexes.lexical import LexicalIndex
from memory_actors.search.indexes.parts import (
    IndexedRow,
    IndexFiles,
    Parts,
    SessionOrder,
    indexed,
    kept_rows,
)
from memory_actors.search.indexes.pending import EmbeddedText, Pending
from memory_actors.search.indexes.traits import Trait, Traits, spoken, times, was_said

OWNER_BYTES = 320  # of a label: its place in a map with its digest, and its mention in a row
INLINE_ROWS_MAX = 32  # vectors read on the loop: cheaper than a hop to a thread
STATES_CHUNK = 256  # token states read in one go after an activation


class _Owner(msgspec.Struct, frozen=True, gc=False):
    memory_id: str
    digest: bytes
    place: int


class _Catalogue(NamedTuple):
    """All passages of a kind: their owners, the metadata of those, and what is not indexed yet."""

    owners: dict[int, _Owner]
    fields: FieldIndex[int]
    pending: list[Passage]


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
        find: Callable[[str], Any],
    ):
        self._stream = stream
        self._kind = kind
        self._files = None if path is None else IndexFiles(kind, path, embeddings, self._fetch)
        self._log = log
        self._embeddings = embeddings
        self._tasks = tasks
        self._find = find
        self._owners: dict[int, _Owner] = {}  # by label
        self.pending = Pending(kind.NAME, self._texts, self.settle, embeddings, tasks)
        self._order = SessionOrder()
        self._lost: set[int] = set()  # labels whose token states were not where they should be
        self._changed = False
        self.dense = DenseIndex(embeddings.embedder.dimension)
        self.words = LexicalIndex()
        self.late = LateIndex(self._fetch, embeddings.codebook)
        self.traits = Traits()
        self.fields: FieldIndex[int] = FieldIndex()
        """The metadata of memories, by their number in `traits.owners`."""

    def retire(self) -> None:
        """Drop the references back to this index and its user."""
        self.pending.retire()
        del self._find, self._files, self.late

    @property
    def parts(self) -> Parts:
        """The indexes that a query searches: taken on the loop, and read from any thread."""
        return Parts(self.traits.count, self.dense, self.words, self.late, self.traits)

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        parts = (self.dense, self.words, self.late, self.traits, self.fields)
        return sum(part.size_bytes for part in parts) + OWNER_BYTES * len(self._owners)

    def owner(self, label: int) -> str | None:
        """Return the id of the living memory that a passage belongs to."""
        owner = self._owners.get(label)
        return None if owner is None else owner.memory_id

    # --- in step with the state

    def follow(self, old: Row | None, new: Row | None) -> None:
        """Follow a change of a memory's row from `old` to `new`; None is no row."""
        row = new or old
        if row is None:
            return
        before, after = indexed(self._kind, old), indexed(self._kind, new)
        if before != after:
            kept = {passage.label for passage in after}
            gone = [passage for passage in before if passage.label not in kept]
            fresh = [passage for passage in after if passage.label not in self._owners]
            for passage in gone:
                self._order.leave(passage.label, self._kind.chain(row))
                self._owners.pop(passage.label, None)
                self.parts.forget(passage.label)
                self.pending.discard(passage)
                self._changed = True
            for passage in fresh:
                self._owners[passage.label] = _owner(row, passage)
                self.pending.add(passage)
        if after:
            self._describe(row, after)
        elif before:
            self.fields.drop(self.traits.owners.of(row.memory_id))

    def _describe(self, row: Row, passages: Sequence[Passage]) -> None:
        """Note the metadata and times that queries filter by."""
        self.fields.put(self.traits.owners.of(row.memory_id), row.shown_metadata)
        known = times(row)
        for passage in passages:
            place = self.dense.row_of(passage.label)
            if place is not None:
                self.traits.retime(place, known)

    def compare(self, rows: Sequence[Row]) -> None:
        """Make the index one of these rows: forget others, and begin to index what is missing."""
        found = [(row, indexed(self._kind, row)) for row in rows]
        labels = {passage.label for _, passages in found for passage in passages}
        for label in self.dense.labels():
            if label not in labels:
                self.parts.forget(label)
        self._take(_catalogued(self.parts, found))
        for row, passages in found:
            self._describe(row, passages)

    def _take(self, catalogue: _Catalogue) -> None:
        self._owners, self.fields, pending = catalogue
        self.pending.clear()
        for passage in sorted(pending):  # as they came: sessions are in order
            self.pending.add(passage)
        self.pending.start()

    def settle(self, texts: Mapping[bytes, EmbeddedText]) -> None:
        """Index the passages that wanted these texts, by digest, and keep their embeddings.

        What nobody wanted is of an event that never came, or has gone: it is not kept.
        """
        wanted = [(label, digest) for digest in texts for label in self.pending.pop(digest)]
        for label, digest in sorted(wanted):  # most go to an end
            row = self._find(self.owner(label) or "")
            if row is not None and label not in self.dense:
                self._put(label, row, texts[digest])
        if wanted and self._files is not None:
            self._embeddings.keep({digest: texts[digest].embedded for _, digest in wanted})
        self.maintain()

    def _put(self, label: int, row: Row, text: EmbeddedText) -> None:
        place, chain = self._owners[label].place, self._kind.chain(row)
        neighbours = self._order.place(label, place, chain, self.parts)
        self.dense.add(label, text.embedded.vector)
        self.words.add(label, text.text, *neighbours)
        if text.embedded.tokens is not None:
            self.late.add(label, text.embedded.tokens)
        says, summary, said = spoken(text.text), is_summary(row), was_said(row)
        self.traits.append(Trait(row.memory_id, times(row), chain, place, says, summary, said))
        self._changed = True

    # --- for who gives the passages, each with its text: nothing of that is kept on disk

    def retain(self, labels: Collection[int]) -> list[int]:
        """Forget all but these passages; return those that are not indexed yet."""
        for label in [label for label in self._owners if label not in labels]:
            del self._owners[label]
            self.parts.forget(label)
        self.maintain()
        return [label for label in labels if label not in self._owners]

    def insert(self, row: Row, passage: Passage, text: EmbeddedText) -> None:
        """Index a passage of a row."""
        self._owners[passage.label] = _owner(row, passage)
        if passage.label not in self.dense:
            self._put(passage.label, row, text)

    # --- kept quick

    def maintain(self) -> None:
        """Start the slow part of keeping the index quick, if it pays."""
        if self.dense.wants_maintenance or self.words.wants_maintenance:
            self._tasks.start(f"maintenance {self._kind.NAME}", self._maintain)

    async def _maintain(self) -> None:
        """Make rows anew in all parts at once, so that their orders stay the same."""
        anew = self.dense.wants_new_rows or self.words.wants_maintenance
        view, saved = (self.dense.view(), self.words.saved()) if anew else (None, None)
        made = await anyio.to_thread.run_sync(self.dense.maintain, view)
        words = None
        if saved is not None:
            words = await anyio.to_thread.run_sync(LexicalIndex.restored, saved)
        if view is None or words is None or saved is None:
            self.dense = self.dense.adopted(made)
            return
        words.catch_up(self.words, saved)
        self.traits = self.traits.taken(kept_rows(view, self.dense.view()))
        self.dense = self.dense.adopted(made)
        self.words = words

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
            if label in self._owners:
                self.pending.add(Passage(label, self._owners[label].digest))
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
        found = self._states(labels)
        self._lost.update(label for label, one in zip(labels, found, strict=True) if one is None)
        return found

    def _states(self, labels: Sequence[int]) -> list[bytes | None]:
        owners = [self._owners.get(label) for label in labels]
        tokens = self._embeddings.tokens([owner.digest for owner in owners if owner is not None])
        return [None if owner is None else tokens.get(owner.digest) for owner in owners]

    # --- files

    async def load(self, state: Any) -> None:
        """Read the index of a kind in this state from its files and the table of vectors."""
        if self._kind.tally(state).count <= INLINE_ROWS_MAX:
            loaded = self._loaded(state)
        else:
            loaded = await anyio.to_thread.run_sync(self._loaded, state)
        parts, catalogue = loaded
        self.dense, self.words, self.late, self.traits = parts[1:]
        self._take(catalogue)
        self.maintain()
        if len(self.late):
            self._tasks.start(f"states {self._kind.NAME}", self._hold_states)

    def _loaded(self, state: Any) -> tuple[Parts, _Catalogue]:
        assert self._files is not None, "what is not kept on disk is not loaded from it"
        found = [(row, indexed(self._kind, row)) for row in self._kind.rows(state)]
        rows = [(row, passages) for row, passages in found if passages]
        parts = self._files.load(rows)
        return parts, _catalogued(parts, rows)

    async def _hold_states(self) -> None:
        """Read token states into memory after an activation, as many as may be there.

        What is not there is no loss yet: a query that wants it finds out. Of an older store nothing
        is there until the model is loaded.
        """
        labels = sorted(self._owners, reverse=True)
        for start in range(0, len(labels), STATES_CHUNK):
            chunk = labels[start : start + STATES_CHUNK]
            fetched = await anyio.to_thread.run_sync(self._states, chunk)
            found = zip(chunk, fetched, strict=True)
            if not self.late.hold({label: data for label, data in found if data is not None}):
                return

    async def save(self) -> None:
        """Save the graph and the words, if they have changed."""
        if self._changed and self._files is not None:
            await anyio.to_thread.run_sync(self._files.save_graph, self.dense)
            await self.save_words()

    async def save_words(self) -> None:
        """Save the words, which is quick."""
        if self._files is not None:
            await anyio.to_thread.run_sync(self._files.save_words, self.parts.kept())


def _catalogued(parts: Parts, rows: Iterable[IndexedRow]) -> _Catalogue:
    """Return what is known of the passages of these rows."""
    owners: dict[int, _Owner] = {}
    fields: FieldIndex[int] = FieldIndex()
    pending = []
    for row, passages in rows:
        fields.put(parts.traits.owners.of(row.memory_id), row.shown_metadata)
        for passage in passages:
            owners[passage.label] = _owner(row, passage)
            if passage.label not in parts.dense:
                pending.append(passage)
    return _Catalogue(owners, fields, pending)


def _owner(row: Row, passage: Passage) -> _Owner:
    return _Owner(row.memory_id, passage.digest, passage.place)
