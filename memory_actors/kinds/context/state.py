"""The context documents of a user: their blocks, their archives, and what each event makes of them.

The text of a living block is in its row, because every write counts the tokens of its document.
Rows in the archive keep their rank, so an entry that comes back has its old place.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog.core.records import AnyRecorded
from memory_actors.kinds.context import events
from memory_actors.kinds.context.events import ArchivedEntry, Section, registry
from memory_actors.kinds.context.markdown import render
from memory_actors.kinds.effects import Deleted, Event
from memory_actors.kinds.kind import BaseKind, rows_dump
from memory_actors.kinds.rows import Draft, Keyed, Place, Row, derived, new_row, reworded

# --- state


class BlockRow(Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A heading or an entry of a document, or an archived entry."""

    document: str
    rank: str
    raw: str | None
    """Its exact text; None for an archived entry: its text is in the log."""
    heading: str | None
    """The title of a heading, None for an entry."""
    pinned: bool
    touched_at_us: int
    """The time at which it was last added, edited, touched or restored."""
    digest: bytes = b""
    """Digest of the indexed text of an archived entry."""
    section: Section | None = None
    """The heading that an archived entry stood under."""

    @property
    def archived(self) -> bool:
        """True if it is in the archive."""
        return self.raw is None


class Synced(msgspec.Struct, frozen=True, array_like=True):
    """The text of a document when a file last was the same."""

    base: tuple[tuple[str, bytes], ...]
    label: str


class DocumentState(msgspec.Struct, frozen=True, array_like=True):
    """One document without its blocks."""

    created_at_us: int
    updated_at_us: int
    synced: Synced | None = None


class ContextState(Keyed[BlockRow], frozen=True):
    """All documents by name, and their blocks.

    The living blocks of a document are one group of the rows, its archive is another.
    """

    documents: Map[str, DocumentState] = Map()
    entries: int = 0
    """Archived ones included, headings not."""
    living_bytes: int = 0
    """Bytes of the blocks: the state has their texts."""


def place(row: BlockRow) -> tuple[str, str]:
    """Return the group of a block, and its key there."""
    return _group(row.document, archived=row.archived), row.memory_id


def _group(document: str, *, archived: bool) -> str:
    return f"{'archive' if archived else 'text'} of {document}"


# --- fold


class DocumentsDraft(Draft[BlockRow]):
    """A state that changes in place, for one fold."""

    __slots__ = ("documents", "entries", "living_bytes")

    def __init__(self, state: ContextState, place: Place[BlockRow]):
        super().__init__(state, place)
        self.documents = state.documents.mutate()
        self.entries, self.living_bytes = state.entries, state.living_bytes

    def put(self, row: BlockRow) -> BlockRow | None:
        """Add a block, or replace the one with its id, which may have been in another place."""
        old = self.discard(row.memory_id)
        super().put(row)
        return old

    def archive(self, entries: Iterable[ArchivedEntry]) -> None:
        """Move entries that are there to the archive."""
        for one in entries:
            if (row := self.rows.get(one.memory_id)) is not None:
                self.put(_in_archive(row, one))

    def _count(self, row: BlockRow, sign: int) -> None:
        super()._count(row, sign)
        self.entries += sign * (row.heading is None)
        self.living_bytes += 0 if row.archived else sign * row.size_bytes

    def fields(self) -> tuple[object, ...]:
        """Return the fields of the state as they have become, in their order."""
        return (*super().fields(), self.documents.finish(), self.entries, self.living_bytes)


class ContextDocuments(BaseKind[ContextState, BlockRow]):
    """Folds events into documents and their blocks. Events about unknown blocks change nothing."""

    DRAFT = DocumentsDraft
    Dump = rows_dump("ContextDump", BlockRow, documents=(dict[str, DocumentState], {}))
    registry = registry
    initial = ContextState()
    place = staticmethod(place)

    def apply(self, draft: DocumentsDraft, recorded: AnyRecorded) -> None:
        """Fold one event into a draft."""
        event, now_us, documents = recorded.data, recorded.recorded_at_us, draft.documents
        if isinstance(event, events.DocumentCreated | events.DocumentSynced):
            document = documents.get(event.document) or DocumentState(now_us, now_us)
            if isinstance(event, events.DocumentSynced):
                document = replace(document, synced=Synced(event.base, event.label))
            documents[event.document] = document
            return
        for name in self._with_new_text(draft, event):
            document = documents.get(name) or DocumentState(now_us, now_us)
            documents[name] = replace(document, updated_at_us=now_us)
        if isinstance(event, events.EntriesArchived):
            draft.archive(event.entries)
        else:
            super().apply(draft, recorded)
        if isinstance(event, events.DocumentRenamed):
            was = documents.pop(event.document, None)
            documents[event.to] = was or DocumentState(now_us, now_us)
        elif isinstance(event, events.ContextDocumentDeleted):
            documents.pop(event.document, None)

    def _with_new_text(self, draft: DocumentsDraft, event: Event) -> set[str]:
        if isinstance(event, events.BlockInserted):
            return {event.document}
        if not isinstance(event, events.BlockEdited | Deleted | events.EntriesArchived):
            return set()
        rows = filter(None, map(draft.rows.get, self.registry.keys(event)))
        return {row.document for row in rows}

    def begun(self, recorded: AnyRecorded, _draft: Draft[BlockRow]) -> BlockRow:
        """Return the row of a block that was put into a document."""
        event: events.BlockInserted = recorded.data
        now_us = recorded.recorded_at_us
        row = new_row(
            BlockRow,
            recorded,
            size_bytes=len(event.raw.encode()),
            occurred_at_us=now_us if event.occurred_at_us is None else event.occurred_at_us,
            touched_at_us=getattr(event, "touched_at_us", now_us),
        )
        if isinstance(event, events.BlockImported) and event.archived is not None:
            return _in_archive(row, event.archived)
        return row

    def changed(self, row: BlockRow, recorded: AnyRecorded) -> BlockRow:
        """Return a block after an event about it."""
        event = recorded.data
        if isinstance(event, events.DocumentRenamed):
            return replace(row, document=event.to)
        if isinstance(event, events.EntriesPinned):
            return replace(row, pinned=event.pinned)
        if isinstance(event, events.EntriesTouched):
            return replace(row, touched_at_us=recorded.recorded_at_us)
        if event.metadata is not None:
            row = replace(row, metadata=event.metadata)
        if event.raw is None:
            return row
        touched_us = row.touched_at_us if event.spacing else recorded.recorded_at_us
        said = {"raw": event.raw, "heading": event.heading, "touched_at_us": touched_us}
        return reworded(row, recorded, **said)

    # --- snapshots

    def dump(self, state: ContextState) -> object:
        """Return the rows of all documents, and the documents by name."""
        documents = dict(sorted(state.documents.items()))
        return derived(self.Dump, state, rows=state.in_order(), documents=documents)

    def load(self, dumped: Any) -> ContextState:
        """Return the state back."""
        return self.of_rows(dumped.rows, documents=Map(dumped.documents))


def _in_archive(row: BlockRow, archived: ArchivedEntry) -> BlockRow:
    return replace(row, raw=None, digest=archived.digest, section=archived.section)


# --- in order


def in_order(rows: Iterable[BlockRow]) -> list[BlockRow]:
    """Return rows in the order of their document."""
    return sorted(rows, key=lambda row: (row.rank, row.memory_id))


def blocks(state: ContextState, document: str) -> list[BlockRow]:
    """Return the living blocks of a document in order; none of one that is not there."""
    return in_order(state.of_group(_group(document, archived=False)))


def archive(state: ContextState, document: str) -> list[BlockRow]:
    """Return the archived entries of a document in the order of their places."""
    return in_order(state.of_group(_group(document, archived=True)))


def everything(state: ContextState, document: str) -> list[BlockRow]:
    """Return the living blocks of a document and its archived entries, in one order."""
    groups = (_group(document, archived=archived) for archived in (False, True))
    return in_order(row for group in groups for row in state.of_group(group))


def text(rows: Iterable[BlockRow]) -> str:
    """Return the text of living blocks in their order."""
    return render(row.raw or "" for row in rows)


def under_sections(rows: Iterable[BlockRow]) -> Iterator[tuple[BlockRow, BlockRow | None]]:
    """Yield each entry of living blocks in order, and the heading it stands under."""
    heading = None
    for row in rows:
        if row.heading is None:
            yield row, heading
        else:
            heading = row


def block(state: ContextState, memory_id: str) -> BlockRow | None:
    """Return a heading, an entry or an archived entry by id."""
    row: BlockRow | None = state.rows.get(memory_id)
    return row
