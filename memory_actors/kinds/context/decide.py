"""From a command about context documents to its events."""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec.structs import astuple, replace

from memory_actors.base.context_documents import InsertBlock
from memory_actors.base.errors import InvalidInputError, NotFoundError, StaleDocumentError
from memory_actors.base.quota import Limits
from memory_actors.kinds.commands import Command, is_known
from memory_actors.kinds.context import commands, sizes
from memory_actors.kinds.context.draft import DocumentDraft, restored
from memory_actors.kinds.context.events import (
    BlockEdited,
    BlockInserted,
    ContextDocumentDeleted,
    DocumentCreated,
    DocumentRenamed,
    DocumentSynced,
    EntriesPinned,
    EntriesTouched,
    Event,
)
from memory_actors.kinds.context.markdown import check_entry, entry_raw, entry_text, reworded
from memory_actors.kinds.context.state import (
    BlockRow,
    ContextDocuments,
    ContextState,
    block,
    blocks,
    everything,
    text,
)
from memory_actors.kinds.effects import Decision
from memory_actors.kinds.kind import Decide
from memory_actors.kinds.passages import text_digest
from memory_actors.kinds.rows import same_json


class DocumentDecisions(ContextDocuments):
    """Decides about context documents."""

    DELETE, RESTORE = commands.DeleteEntry, commands.RestoreEntries

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            commands.ChangeDocument: self._change,
            commands.AddEntry: self._add,
            commands.EditEntry: self._edit,
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

    def _edit(self, command: commands.EditEntry, state: ContextState, limits: Limits) -> Decision:
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
