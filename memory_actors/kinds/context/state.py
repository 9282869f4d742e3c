"""The context documents of a user: their blocks, their archives, and what each event makes of them.

The text of a living block is in its row: a document is small, and every write counts its tokens.
An archived entry leaves its text in the log. Rows of both kinds keep their rank, so an entry that
comes back stands where it stood.
"""

from collections.abc import Iterable, Iterator

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.kinds import kind
from memory_actors.kinds.context.events import (
    ArchivedEntry,
    BlockEdited,
    BlockImported,
    BlockInserted,
    BlockRemoved,
    ContextDocumentDeleted,
    DocumentCreated,
    DocumentRenamed,
    DocumentSynced,
    EntriesArchived,
    EntriesPinned,
    EntriesTouched,
    Event,
    Section,
)
from memory_actors.kinds.context.markdown import render
from memory_actors.kinds.rows import new_row

# --- state


class BlockRow(kind.Row, frozen=True, kw_only=True, array_like=True, gc=False):
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


class DocumentState(msgspec.Struct, frozen=True):
    """One document: its blocks and archived entries by id."""

    created_at_us: int
    updated_at_us: int
    blocks: Map[str, BlockRow] = Map()
    archived: Map[str, BlockRow] = Map()
    synced: Synced | None = None


class ContextState(msgspec.Struct, frozen=True):
    """All documents by name, and where each block is."""

    documents: Map[str, DocumentState] = Map()
    names: Map[str, str] = Map()
    """The document of each block or archived entry, by id."""
    entries: int = 0
    """Archived ones included, headings not."""
    size_bytes: int = 0
    """Bytes of all blocks and archived entries."""
    stored_bytes: int = 0
    living_bytes: int = 0
    """Bytes of the blocks: the state has their texts."""


# --- fold


def fold(state: ContextState, events: Iterable[Recorded[Event]]) -> ContextState:
    """Fold many events into the state."""
    draft = _DocumentsDraft(state)
    for recorded in events:
        draft.apply(recorded)
    return draft.finish()


class _Pages:
    """A document that changes in place."""

    def __init__(self, document: DocumentState):
        self.created_at_us = document.created_at_us
        self.updated_at_us = document.updated_at_us
        self.blocks = document.blocks.mutate()
        self.archived = document.archived.mutate()
        self.synced = document.synced

    def finish(self) -> DocumentState:
        blocks, archived = self.blocks.finish(), self.archived.finish()
        return DocumentState(self.created_at_us, self.updated_at_us, blocks, archived, self.synced)


class _DocumentsDraft:
    """A state that changes in place, for one fold. Events about unknown blocks change nothing."""

    def __init__(self, state: ContextState):
        self._documents = state.documents.mutate()
        self._names = state.names.mutate()
        self._open: dict[str, _Pages] = {}
        self._entries, self._living_bytes = state.entries, state.living_bytes
        self._size_bytes, self._stored_bytes = state.size_bytes, state.stored_bytes

    def apply(self, recorded: Recorded[Event]) -> None:
        """Fold one event."""
        event = recorded.data
        if isinstance(event, BlockInserted):
            self._open_pages(event.document, recorded.recorded_at_us)
            self._put(_inserted(event, recorded), recorded.recorded_at_us)
        elif isinstance(event, EntriesArchived):
            for one in event.entries:
                row = self._row(one.memory_id)
                gone = None if row is None else _in_archive(row, one)
                self._put(gone, recorded.recorded_at_us)
        elif isinstance(event, BlockRemoved):
            self._drop(event.memory_id, recorded.recorded_at_us)
        elif isinstance(event, BlockEdited):
            self._put(_edited(self._row(event.memory_id), event, recorded), recorded.recorded_at_us)
        elif isinstance(event, EntriesTouched | EntriesPinned):
            for memory_id in event.memory_ids:
                self._put(_marked(self._row(memory_id), event, recorded), None)
        else:
            self._apply_to_document(event, recorded)

    def _apply_to_document(
        self,
        event: DocumentCreated | DocumentRenamed | ContextDocumentDeleted | DocumentSynced,
        recorded: Recorded[Event],
    ) -> None:
        if isinstance(event, ContextDocumentDeleted):
            for memory_id in event.memory_ids:
                self._drop(memory_id, None)
            self._open.pop(event.document, None)
            self._documents.pop(event.document, None)
        elif isinstance(event, DocumentRenamed):
            self._rename(event, recorded.recorded_at_us)
        else:
            pages = self._open_pages(event.document, recorded.recorded_at_us)
            if isinstance(event, DocumentSynced):
                pages.synced = Synced(event.base, event.label)

    def _rename(self, event: DocumentRenamed, now_us: int) -> None:
        document = self._open_pages(event.document, now_us).finish()
        del self._open[event.document]
        self._documents.pop(event.document, None)
        self._open[event.to] = _Pages(
            replace(
                document,
                blocks=_named(document.blocks, event.to),
                archived=_named(document.archived, event.to),
            )
        )
        for memory_id in (*document.blocks, *document.archived):
            self._names[memory_id] = event.to

    def load(self, dumped: "DumpedDocument") -> None:
        """Take in a document of a dump."""
        document = DocumentState(dumped.created_at_us, dumped.updated_at_us, synced=dumped.synced)
        self._open[dumped.name] = _Pages(document)
        for row in dumped.rows:
            self._put(row, None)

    # --- rows

    def _open_pages(self, name: str, now_us: int) -> _Pages:
        """Return a document that changes in place; one that is not there begins."""
        pages = self._open.get(name)
        if pages is None:
            document = self._documents.get(name) or DocumentState(now_us, now_us)
            pages = self._open[name] = _Pages(document)
        return pages

    def _row(self, memory_id: str) -> BlockRow | None:
        name = self._names.get(memory_id)
        if name is None:
            return None
        pages = self._open_pages(name, 0)
        return pages.blocks.get(memory_id) or pages.archived.get(memory_id)

    def _put(self, row: BlockRow | None, now_us: int | None) -> None:
        """Replace the row with the same id; `now_us` is None if the text stays the same."""
        if row is None:
            return
        self._drop(row.memory_id, None)
        pages = self._open_pages(row.document, 0)
        (pages.archived if row.archived else pages.blocks)[row.memory_id] = row
        self._names[row.memory_id] = row.document
        self._count(row, 1)
        if now_us is not None:
            pages.updated_at_us = now_us

    def _drop(self, memory_id: str, now_us: int | None) -> None:
        row = self._row(memory_id)
        if row is None:
            return
        pages = self._open_pages(row.document, 0)
        del (pages.archived if row.archived else pages.blocks)[memory_id]
        del self._names[memory_id]
        self._count(row, -1)
        if now_us is not None:
            pages.updated_at_us = now_us

    def _count(self, row: BlockRow, sign: int) -> None:
        self._entries += sign * (row.heading is None)
        self._size_bytes += sign * row.size_bytes
        self._stored_bytes += sign * row.stored_bytes
        self._living_bytes += 0 if row.archived else sign * row.size_bytes

    def finish(self) -> ContextState:
        """Return the new state."""
        for name, pages in self._open.items():
            self._documents[name] = pages.finish()
        return ContextState(
            self._documents.finish(),
            self._names.finish(),
            self._entries,
            self._size_bytes,
            self._stored_bytes,
            self._living_bytes,
        )


def _named(rows: Map[str, BlockRow], name: str) -> Map[str, BlockRow]:
    return Map({one: replace(row, document=name) for one, row in rows.items()})


def _inserted(event: BlockInserted, recorded: Recorded[Event]) -> BlockRow:
    now_us = recorded.recorded_at_us
    row = new_row(
        BlockRow,
        recorded,
        size_bytes=len(event.raw.encode()),
        occurred_at_us=now_us if event.occurred_at_us is None else event.occurred_at_us,
        touched_at_us=event.touched_at_us if isinstance(event, BlockImported) else now_us,
    )
    if isinstance(event, BlockImported) and event.archived is not None:
        return _in_archive(row, event.archived)
    return row


def _in_archive(row: BlockRow, archived: ArchivedEntry) -> BlockRow:
    return replace(row, raw=None, digest=archived.digest, section=archived.section)


def _edited(row: BlockRow | None, event: BlockEdited, recorded: Recorded[Event]) -> BlockRow | None:
    if row is None:
        return None
    if event.metadata is not None:
        row = replace(row, metadata=event.metadata)
    if event.raw is None:
        return row
    return replace(
        row,
        version=recorded.version,
        size_bytes=len(event.raw.encode()),
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
        raw=event.raw,
        heading=event.heading,
        touched_at_us=row.touched_at_us if event.spacing else recorded.recorded_at_us,
    )


def _marked(
    row: BlockRow | None, event: EntriesTouched | EntriesPinned, recorded: Recorded[Event]
) -> BlockRow | None:
    if row is None:
        return None
    if isinstance(event, EntriesPinned):
        return replace(row, pinned=event.pinned)
    return replace(row, touched_at_us=recorded.recorded_at_us)


# --- in order


def place(row: BlockRow) -> tuple[str, str]:
    """Return the sort key of a document's rows."""
    return row.rank, row.memory_id


def in_order(rows: Iterable[BlockRow]) -> list[BlockRow]:
    """Return rows in the order of their document."""
    return sorted(rows, key=place)


def blocks(state: ContextState, document: str) -> list[BlockRow]:
    """Return the living blocks of a document in order; none of one that is not there."""
    found = state.documents.get(document)
    return [] if found is None else in_order(found.blocks.values())


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
    name = state.names.get(memory_id)
    if name is None:
        return None
    document = state.documents[name]
    return document.blocks.get(memory_id) or document.archived.get(memory_id)


# --- snapshot


class DumpedDocument(msgspec.Struct, frozen=True, array_like=True):
    """One document, its rows in order."""

    name: str
    created_at_us: int
    updated_at_us: int
    rows: list[BlockRow]
    synced: Synced | None


class ContextDump(msgspec.Struct, frozen=True):
    """The documents by name."""

    documents: list[DumpedDocument] = []


def loaded(dumped: ContextDump) -> ContextState:
    """Return the state of a dump."""
    draft = _DocumentsDraft(ContextState())
    for document in dumped.documents:
        draft.load(document)
    return draft.finish()
