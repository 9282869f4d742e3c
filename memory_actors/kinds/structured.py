"""Structured memory: JSON documents in collections, each under a key, queried by field.

A put replaces the document of its collection and key, which keeps its id. Values stay in the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog.core.records import AnyRecorded
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Document, Metadata, Origin
from memory_actors.kinds import kind
from memory_actors.kinds.commands import Add, Command, Delete, Restore, is_known, plain
from memory_actors.kinds.effects import Decision, Effect, KindRegistry, TaintedPast
from memory_actors.kinds.keyed import Bounds, Keyed, KeyedKind, rows_dump
from memory_actors.kinds.kind import Decide, Deleted, Events, Life, Pruned
from memory_actors.kinds.passages import Passage, label
from memory_actors.kinds.rows import (
    Draft,
    changed_pin,
    derived,
    kept,
    new_row,
    record_data,
    reworded,
    same_json,
)

TEXT_CHARS_MAX = 2_000  # what a document is found by: more than the model reads of it at once

registry = KindRegistry()

# --- events


@registry.about("structured.put", Effect.ADDED)
class DocumentPut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A document got a value; it is new, or another value was there."""

    memory_id: str
    collection: str
    key: str
    value: Any
    size_bytes: int
    """Bytes of the value as JSON."""
    digest: bytes
    """Digest of the indexed text, which may be cut."""
    value_digest: bytes
    """Digest of the value as JSON."""
    occurred_at_us: int
    metadata: Metadata = {}
    pinned: bool = False


@registry.about("structured.restored", Effect.RESTORED)
class DocumentRestored(DocumentPut, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A document that had gone came back, as it was when it went."""

    created_at_us: int
    origins: tuple[Origin, ...] = ()
    """The sources of its words, of which the one who brought it back is none."""
    agent_id: str | None = None
    """The agent that wrote it first."""


@registry.about("structured.updated", Effect.CHANGED)
class DocumentUpdated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A document got a new value or new metadata, or was pinned or not; None keeps what was."""

    memory_id: str
    value: Any = None
    size_bytes: int = 0
    digest: bytes = b""
    value_digest: bytes = b""
    metadata: Metadata | None = None
    pinned: bool | None = None


DocumentDeleted = registry.plain(Deleted, "structured.deleted", Effect.DELETED)
DocumentsPruned = registry.plain(Pruned, "structured.pruned", Effect.PRUNED)


# --- state


class DocumentRow(kind.Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A document without its value."""

    collection: str
    key: str
    digest: bytes
    value_digest: bytes
    pinned: bool


Structured: TypeAlias = Keyed[DocumentRow]
"""The living documents; their groups are the collections."""


# --- what it says


def value_of(row: DocumentRow, events: Events) -> object:
    """Return a document's value, as it was put."""
    return events[row.version].data.value


def value_json(value: object) -> str:
    """Return a value as JSON, without spaces: what is counted, and what `value_digest` is of."""
    return msgspec.json.encode(value).decode()


def document_text(collection: str, key: str, value: object) -> str:
    """Return the indexed text of a document, at most 2,000 characters.

    `collection: key`, then a line `path: value` for each value in it but null, in their order. A
    path has no places of lists in it: what is in a list stands under the list's path.
    """
    text = f"{collection}: {key}"
    for line in _lines(value, ""):
        text += f"\n{line}"
        if len(text) >= TEXT_CHARS_MAX:
            break
    return text[:TEXT_CHARS_MAX]


def _lines(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _lines(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, path)
    elif value is not None:
        said = value if isinstance(value, str) else value_json(value)
        yield f"{path}: {said}" if path else said


# --- commands


class PutDocument(Add, frozen=True, kw_only=True):
    """Put a value under a key of a collection."""

    document: DocumentPut
    """The event as it is for a new document; an existing one keeps its id."""
    keeps: tuple[str, ...] = ()
    """The fields of an existing document that stay as they were."""
    auto_prune: bool = False


class UpdateDocument(Command, frozen=True, kw_only=True):
    """Replace a document's value, its metadata, or both."""

    change: DocumentUpdated


DeleteDocument = plain(Delete, "DeleteDocument")
RestoreDocuments = plain(Restore, "RestoreDocuments")


# --- the kind


class StructuredKind(KeyedKind[Structured, DocumentRow]):
    """The documents of a user."""

    NAME = "structured"
    NOUN = "document"
    MISSING = "it was never there, or it was deleted"
    DELETE, RESTORE = DeleteDocument, RestoreDocuments
    DELETED, PRUNED = DocumentDeleted, DocumentsPruned
    place = attrgetter("collection", "key")
    BOUNDS = Bounds("documents", "documents", "structured_bytes")
    Dump = rows_dump("StructuredDump", DocumentRow, "pruned")
    registry = registry
    initial = Structured()

    # --- fold

    def begun(self, recorded: AnyRecorded, draft: Draft[DocumentRow]) -> DocumentRow:
        """Return the row of a document that was put or restored."""
        old = draft.rows.get(recorded.data.memory_id)
        if old is None or isinstance(recorded.data, DocumentRestored):
            return new_row(DocumentRow, recorded)
        return new_row(DocumentRow, recorded, created_at_us=old.created_at_us)

    def changed(self, row: DocumentRow, recorded: AnyRecorded) -> DocumentRow:
        """Return a row after an update."""
        event: DocumentUpdated = recorded.data
        row = kept(row, event)
        if event.value is None:
            return row
        return reworded(row, recorded, digest=event.digest, value_digest=event.value_digest)

    # --- decide

    def put_again(self, command: PutDocument, state: Structured) -> str | None:
        """Return the document under the key."""
        row = state.held.named(command.document.collection, command.document.key)
        return None if row is None else row.memory_id

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            PutDocument: self._put,
            UpdateDocument: self._update,
            RestoreDocuments: self._restore,
        }

    def _put(self, command: PutDocument, state: Structured, limits: Limits) -> Decision:
        put = command.document
        old = state.held.named(put.collection, put.key)
        if old is not None:
            put = replace(put, **{k: getattr(old, k) for k in ("memory_id", *command.keeps)})
        own_id, like = command.document.memory_id, (DocumentPut, DocumentRow)
        living = old or self.find(state, own_id)
        is_known(command, own_id, living, like, StructuredKind.place, (put.collection, put.key))
        if (
            old is not None
            and (put.value_digest, put.pinned) == (old.value_digest, old.pinned)
            and same_json(put.metadata, old.metadata)
        ):
            return []
        others = (row for row in self.rows(state) if row is not old)
        pruned = self.make_room(
            state, limits, 1, put.size_bytes,
            instead_of=[] if old is None else [old],
            may_go=others if command.auto_prune else None,
        )  # fmt: skip
        return [*pruned, put]

    def _update(self, command: UpdateDocument, state: Structured, limits: Limits) -> Decision:
        change = command.change
        row = self.living(state, change.memory_id)
        metadata = None if same_json(change.metadata, row.metadata) else change.metadata
        pinned = changed_pin(change.pinned, row)
        if change.value is None or change.value_digest == row.value_digest:
            changed = DocumentUpdated(memory_id=row.memory_id, metadata=metadata, pinned=pinned)
            return [] if metadata is None and pinned is None else [changed]
        self.make_room(state, limits, 1, change.size_bytes, instead_of=[row])
        return [replace(change, metadata=metadata, pinned=pinned)]

    def _restore(self, command: Restore, state: Structured, limits: Limits) -> Decision:
        back = [self._as_it_was(life) for life in self.gone(command, state)]
        seen: set[tuple[str, str]] = set()
        for event in back:
            place = (event.collection, event.key)
            if place in seen or state.held.named(*place) is not None:
                raise InvalidInputError(
                    f"document {event.memory_id!r} cannot be restored: key {event.key!r} of "
                    f"collection {event.collection!r} is now another document's. Delete that first"
                )
            seen.add(place)
        self.make_room(state, limits, len(back), sum(event.size_bytes for event in back))
        return back

    def _as_it_was(self, life: Life[DocumentRow]) -> DocumentRestored:
        return derived(DocumentRestored, life.row, value=value_of(life.row, life.by_version))

    def without(
        self, past: TaintedPast, _row: DocumentRow, _state: Structured, _limits: Limits
    ) -> list[DocumentRestored] | None:
        """Return the event that makes a document what others have put."""
        events = past.cleaned(DocumentPut, text="value")
        return [self._as_it_was(self.last(past.memory_id, events))] if events else None

    # --- reads

    def collections(self, state: Structured) -> Mapping[str, int]:
        """Return how many documents each collection has, by name."""
        return {name: len(state.held.groups[name]) for name in sorted(state.held.groups)}

    def passages(self, row: DocumentRow) -> Sequence[Passage]:
        """Return one passage: the document."""
        return (Passage(label(row.version), row.digest),)

    def passage_text(self, row: DocumentRow, _label: int, events: Events) -> str:
        """Return the document as it is found."""
        return document_text(row.collection, row.key, value_of(row, events))

    def content(self, row: DocumentRow, events: Events) -> str:
        """Return the value as JSON."""
        return value_json(value_of(row, events))

    def data(self, row: DocumentRow, events: Events) -> dict[str, object]:
        """Return the value, and where it is."""
        return record_data(Document, row, value=value_of(row, events))


KIND = StructuredKind()
