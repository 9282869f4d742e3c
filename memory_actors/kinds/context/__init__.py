"""Context documents: Markdown that an agent loads into every prompt, and an archive beside it.

A document is a sequence of blocks, headings and entries, each with an id, its exact text and a rank
that it is sorted by. Headings are no memories: they are not counted, found or listed.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import astuple, replace

from memory_actors.base.context_documents import InsertBlock
from memory_actors.base.errors import (
    InvalidInputError,
    NotFoundError,
    QuotaExceededError,
    StaleDocumentError,
)
from memory_actors.base.quota import Limits
from memory_actors.base.records import JsonObject
from memory_actors.kinds.commands import Command, is_known
from memory_actors.kinds.context import commands, sizes
from memory_actors.kinds.context.commands import BUDGET
from memory_actors.kinds.context.draft import DocumentDraft, restored
from memory_actors.kinds.context.events import (
    BlockData,
    BlockEdited,
    BlockInserted,
    BlockRemoved,
    ContextDocumentDeleted,
    DocumentCreated,
    DocumentRenamed,
    DocumentSynced,
    EntriesPinned,
    EntriesTouched,
)
from memory_actors.kinds.context.markdown import check_entry, entry_raw, entry_text, reworded
from memory_actors.kinds.context.sizes import NAME, check_document
from memory_actors.kinds.context.state import (
    BlockRow,
    ContextDocuments,
    ContextState,
    DocumentState,
    archive,
    block,
    blocks,
    everything,
    text,
)
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.kind import Bound, Decide, Nature, Tally
from memory_actors.kinds.passages import Passage, label, text_digest
from memory_actors.kinds.past import Events, TaintedPast
from memory_actors.kinds.rows import derived, record_data, same_json


class ContextKind(ContextDocuments):
    """The context documents of a user."""

    NAME = NAME
    NATURE = Nature(is_searched=False, is_reviewed=True, export_place=3)
    """A document is loaded whole, and its archive has a search of its own."""
    NOUN = "entry"
    MISSING = "it was never there, or it was removed"
    BOUNDS = (
        Bound("entries", "context_entries"),
        Bound("documents", "context_documents"),
        Bound("bytes", "context_bytes", "bytes"),
    )
    UPDATE, DELETE = commands.EditEntry, commands.DeleteEntry
    RESTORE = commands.RestoreEntries
    DELETED = BlockRemoved

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            commands.ChangeDocument: self._change,
            commands.AddEntry: self._add,
            commands.ImportBlock: self._import,
            commands.TouchEntries: self._touch,
            commands.PinEntries: self._pin,
            commands.ArchiveEntries: self._archive,
            commands.RenameDocuments: self._rename,
            commands.DeleteDocuments: self._delete_documents,
            commands.RestoreEntries: self._restore,
        }

    # --- changes

    def _change(
        self, command: commands.ChangeDocument, state: ContextState, limits: Limits
    ) -> Decision:
        name = command.document
        if command.create and name in state.documents:
            raise InvalidInputError(f"there is a document {name!r} already: choose another name")
        archives = command.room.auto_archive
        sizes.check_changes(name, command.changes, state, limits, auto_archive=archives)
        seen = command.expected
        if seen is not None and text_digest(text(blocks(state, name))) != seen:
            raise StaleDocumentError(
                f"{name} has changed since it was read: read it again, then write"
            )
        draft = DocumentDraft(state, name)
        for change in command.changes:
            draft.make(change)
        there = state.documents.get(name)
        synced = None if there is None or there.synced is None else astuple(there.synced)
        if command.base is not None and synced != (command.base, command.label):
            draft.events.append(
                DocumentSynced(document=name, base=command.base, label=command.label)
            )
        if command.create and not draft.events:
            created = [DocumentCreated(document=name)]
            sizes.check_quotas(state, self.after(state, created, command.now_us), limits)
            return created
        if not draft.events:
            return []
        return self._with_room(command, name, draft.events, state, limits)

    def _add(self, command: commands.AddEntry, state: ContextState, limits: Limits) -> Decision:
        said = entry_text(entry_raw(command.text))
        was_added = is_known(
            command, command.memory_id, None, BlockInserted, lambda one: entry_text(one.raw), said
        )
        if was_added or block(state, command.memory_id) is not None:
            return []
        draft = DocumentDraft(state, command.document)
        last, before_heading, there = draft.end_of(command.section)
        if not there:
            last = draft.begin_section(command.section, command.heading_id)
        raw = entry_raw(command.text) + ("\n" if before_heading else "")
        draft.insert(
            InsertBlock(command.memory_id, raw, None, last),
            pinned=command.pinned,
            metadata=command.metadata,
            occurred_at_us=command.occurred_at_us,
        )
        return self._with_room(
            command, command.document, draft.events, state, limits, keep=command.memory_id
        )

    def _update(self, command: commands.EditEntry, state: ContextState, limits: Limits) -> Decision:
        row = self.living(state, command.memory_id)
        metadata = None if same_json(command.metadata, row.metadata) else command.metadata
        raw = None
        if command.text is not None:
            if row.raw is None:
                raise InvalidInputError(
                    f"entry {row.memory_id!r} is archived: restore it, then edit it"
                )
            raw = reworded(row.raw, command.text)
        if raw is not None and raw != row.raw:
            check_entry(raw)
        elif metadata is None:
            return []
        else:
            raw = None
        events: list[Event] = [BlockEdited(memory_id=row.memory_id, raw=raw, metadata=metadata)]
        return self._with_room(command, row.document, events, state, limits, keep=row.memory_id)

    def _with_room(
        self,
        command: commands.ChangeDocument | commands.AddEntry | commands.EditEntry,
        document: str,
        events: list[Event],
        state: ContextState,
        limits: Limits,
        keep: str | None = None,
    ) -> Decision:
        """Return events, and the archiving that makes room for them where that is asked for."""
        new = self.after(state, events, command.now_us)
        room, budget = command.room, command.room.budget
        sizes.check_quotas(state, new, limits)
        fits = partial(sizes.fits, limits, budget)
        if room.auto_archive and not fits(budget.tokens_max, text(blocks(new, document))):
            named = {
                one.memory_id for one in events if isinstance(one, BlockInserted | BlockEdited)
            }
            rows = sizes.stalest(new, document, room.read_at_us, named)
            rows = [row for row in rows if row.memory_id != keep]
            # Until enough is free or, failing that, until it fits.
            for tokens_max in (min(sizes.roomy(room), budget.tokens_max), budget.tokens_max):
                if count := sizes.fewest(new, document, rows, partial(fits, tokens_max)):
                    gone = [row.memory_id for row in rows[:count]]
                    return [*events, sizes.archiving(new, document, gone, "room")]
        sizes.check_document(document, state, new, limits, budget)
        return events

    # --- archive and back

    def _archive(
        self, command: commands.ArchiveEntries, state: ContextState, _limits: Limits
    ) -> Decision:
        _check_there(state, command.document)
        if command.memory_ids is not None:
            rows = self._entries(state, command.memory_ids)
            for row in rows:
                if row.document != command.document:
                    raise NotFoundError(
                        f"no entry {row.memory_id!r} in {command.document}: it is in {row.document}"
                    )
            gone = [row.memory_id for row in rows if not row.archived]
        else:
            gone = _stale_part(command.room, command.document, state)
        return [sizes.archiving(state, command.document, gone, "asked")] if gone else []

    def _restore(
        self,
        command: commands.RestoreEntries,
        state: ContextState,
        limits: Limits,
    ) -> Decision:
        """Bring entries back."""
        events = restored(self.last, command, state)
        if not events:
            return []
        new = self.after(state, events, command.now_us)
        sizes.check_quotas(state, new, limits)
        for name in dict.fromkeys(getattr(event, "document", "") for event in events):
            sizes.check_document(name, state, new, limits, command.budget)
        return events

    def _import(
        self, command: commands.ImportBlock, state: ContextState, limits: Limits
    ) -> Decision:
        event = command.block
        there = block(state, event.memory_id) is not None
        if there or is_known(command, event.memory_id, None, BlockInserted, lambda _: None, None):
            return []
        draft = DocumentDraft(state, event.document)
        event = replace(event, rank=draft.free_rank(event.rank))
        if event.archived is not None:
            draft.events.append(event)
        else:
            draft.put_back(event)
        new = self.after(state, draft.events, command.now_us)
        sizes.check_quotas(state, new, limits)
        sizes.check_document(event.document, state, new, limits, command.budget)
        return draft.events

    # --- the rest

    def _touch(
        self, command: commands.TouchEntries, state: ContextState, _limits: Limits
    ) -> Decision:
        ids = tuple(row.memory_id for row in self._entries(state, command.memory_ids))
        return [EntriesTouched(memory_ids=ids)] if ids else []

    def _delete_documents(
        self, command: commands.DeleteDocuments, state: ContextState, _limits: Limits
    ) -> Decision:
        ids = {name: _ids_in(state, name) for name in command.documents}
        return [ContextDocumentDeleted(document=name, memory_ids=ids[name]) for name in ids]

    def _pin(self, command: commands.PinEntries, state: ContextState, _limits: Limits) -> Decision:
        rows = self._entries(state, command.memory_ids)
        changed = tuple(row.memory_id for row in rows if row.pinned != command.pinned)
        return [EntriesPinned(memory_ids=changed, pinned=command.pinned)] if changed else []

    def _rename(
        self, command: commands.RenameDocuments, state: ContextState, _limits: Limits
    ) -> Decision:
        events: list[Event] = []
        taken = set(state.documents)
        for old, new in command.names:
            ids = _ids_in(state, old)
            if old == new:
                continue
            if new in taken:
                raise InvalidInputError(f"there is a document {new!r} already: choose another name")
            taken.add(new)
            events.append(DocumentRenamed(document=old, to=new, memory_ids=ids))
        return events

    def _entries(self, state: ContextState, memory_ids: Sequence[str]) -> list[BlockRow]:
        return [self.living(state, one) for one in dict.fromkeys(memory_ids)]

    # --- purges

    def without(
        self, past: TaintedPast, row: BlockRow, state: ContextState, limits: Limits
    ) -> list[BlockEdited] | None:
        """Return the event that makes a block say what others have said of it last.

        A block that is archived, and one whose earlier text has no room any more, goes as a whole.
        """
        texts = [one.data for one in past.clean if getattr(one.data, "raw", None) is not None]
        if row.archived or not texts:
            return None
        said = [getattr(one.data, "metadata", None) for one in past.clean]
        last = next((one for one in reversed(said) if one is not None), None)
        edited = derived(BlockEdited, texts[-1], metadata=last or {}, spacing=False)
        try:
            check_document(row.document, state, self.after(state, [edited]), limits, BUDGET)
        except QuotaExceededError:
            return None
        return [edited]

    # --- reads

    def tally(self, state: ContextState) -> Tally:
        """Return counts and bytes: entries are counted, the bytes of headings too."""
        return Tally(state.entries, state.size_bytes, state.stored_bytes)

    def held_bytes(self, state: ContextState) -> int:
        """Return the memory that the state takes: the texts of what lives are in it."""
        return super().held_bytes(state) + state.living_bytes

    def used(self, state: ContextState, _whose: str | None) -> tuple[int, ...]:
        """Return the entries, the documents, and the bytes."""
        return state.entries, len(state.documents), state.size_bytes

    def rows(self, state: ContextState) -> Iterable[BlockRow]:
        """Yield every entry, living or archived."""
        for name in sorted(state.documents):
            yield from (row for row in everything(state, name) if row.heading is None)

    def indexed_rows(self, state: ContextState) -> Iterable[BlockRow]:
        """Yield every archived entry: what lives is loaded whole."""
        for name in state.documents:
            yield from archive(state, name)

    def exported(self, state: ContextState) -> Iterable[BlockRow]:
        """Yield what an export has: every block, and for an empty document a row without a rank."""
        for name in sorted(state.documents):
            yield from everything(state, name) or [_empty(name, state.documents[name])]

    def find(self, state: ContextState, memory_id: str) -> BlockRow | None:
        """Return the row of an entry, living or archived."""
        row = block(state, memory_id)
        return None if row is None or row.heading is not None else row

    def passages(self, row: BlockRow) -> Sequence[Passage]:
        """Return one passage for an archived entry: what lives is loaded whole."""
        return (Passage(label(row.version), row.digest),) if row.archived else ()

    def passage_text(self, row: BlockRow, _label: int, events: Events) -> str:
        """Return the text of an archived entry."""
        return self.content(row, events)

    def sources(self, row: BlockRow) -> Sequence[int]:
        """Return the version of the event that has an archived text; others are in the state."""
        return (row.version,) if row.archived else ()

    def content(self, row: BlockRow, events: Events) -> str:
        """Return the text of an entry; of a heading, its title."""
        return entry_text(raw_of(row, events)) if row.heading is None else row.heading

    def data(self, row: BlockRow, events: Events) -> JsonObject:
        """Return where a block is, its exact text, and what it stood under if it is archived."""
        if not row.rank:
            return {"document": row.document}
        found = record_data(BlockData, row, raw=raw_of(row, events))
        section = msgspec.to_builtins(found.pop("section"))
        return found | {"section": section} if row.archived and section else found

    def worded(self, state: ContextState, memory_id: str) -> BlockRow | None:
        """Return the row of an entry or of a heading: that is no memory, but has words."""
        return block(state, memory_id)


def _ids_in(state: ContextState, name: str) -> tuple[str, ...]:
    _check_there(state, name)
    rows = sorted((row.archived, row.memory_id) for row in everything(state, name))
    return tuple(memory_id for _, memory_id in rows)


def _stale_part(room: commands.DocumentRoom, document: str, state: ContextState) -> list[str]:
    """Return the stalest entries that make up a third to half of a document."""
    count_tokens, rows = room.budget.counter.count, sizes.stalest(state, document, room.read_at_us)
    there = count_tokens(text(blocks(state, document)))
    if there <= sizes.roomy(room):
        return []
    count = sizes.fewest(
        state, document, rows, lambda now: count_tokens(now) <= (1 - room.free) * there
    )
    if count is None:
        return [row.memory_id for row in rows]
    left = [
        count_tokens(sizes.without(state, document, rows[:gone])) for gone in (count, count - 1)
    ]
    if left[0] < (1 - commands.FREE_MAX) * there and left[1] <= (1 - commands.FREE_MIN) * there:
        count -= 1
    return [row.memory_id for row in rows[:count]]


def _check_there(state: ContextState, document: str) -> None:
    if document not in state.documents:
        raise NotFoundError(f"no document {document!r}: it was never there, or it was deleted")


def _empty(name: str, document: DocumentState) -> BlockRow:
    at_us = document.created_at_us
    return BlockRow(
        memory_id=f"document:{name}", version=0, size_bytes=0, stored_bytes=0, created_at_us=at_us,
        occurred_at_us=at_us, metadata={}, document=name, rank="", raw="", heading=None,
        pinned=False, touched_at_us=at_us,
    )  # fmt: skip


def raw_of(row: BlockRow, events: Events) -> str:
    """Return the exact text of a block."""
    return str(events[row.version].data.raw) if row.raw is None else row.raw


KIND = ContextKind()
