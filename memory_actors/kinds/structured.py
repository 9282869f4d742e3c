"""Structured memory: JSON documents in collections, each under a key, queried by field.

A put replaces the document of its collection and key, which keeps its id. Values stay in the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog.core.records import AnyRecorded
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Document, Metadata, Origin
from memory_actors.kinds.commands import Add, Command, Delete, Restore, Update, is_known, plain
from memory_actors.kinds.effects import Decision, Deleted, Effect, KindRegistry, Pruned
from memory_actors.kinds.kind import BaseKind, Bound, Decide, rows_dump
from memory_actors.kinds.passages import text_digest
from memory_actors.kinds.past import Events, Life, Past, TaintedPast
from memory_actors.kinds.rows import (
    Draft,
    Keyed,
    Row,
    derived,
    kept,
    new_row,
    oldest,
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


class DocumentRow(Row, frozen=True, kw_only=True, array_like=True, gc=False):
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


def value_fields(collection: str, key: str, value: object) -> dict[str, Any]:
    """Return the fields of a document, put or updated, that follow from its value."""
    said = value_json(value)
    return {
        "value": value,
        "size_bytes": len(said.encode()),
        "digest": text_digest(document_text(collection, key, value)),
        "value_digest": text_digest(said),
    }


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


class UpdateDocument(Update, frozen=True, kw_only=True):
    """Replace a document's value, which the content is as JSON, its metadata, or both."""

    value: Any = None
    value_digest: bytes = b""


DeleteDocument = plain(Delete, "DeleteDocument")
RestoreDocuments = plain(Restore, "RestoreDocuments")


# --- the kind


class StructuredKind(BaseKind[Structured, DocumentRow]):
    """The documents of a user."""

    NAME = "structured"
    NOUN = "document"
    UPDATE, DELETE, RESTORE = UpdateDocument, DeleteDocument, RestoreDocuments
    UPDATED, DELETED, PRUNED = DocumentUpdated, DocumentDeleted, DocumentsPruned
    place = attrgetter("collection", "key")
    BOUNDS = (Bound("documents", "documents"), Bound("bytes", "structured_bytes", "bytes"))
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
        row = state.named(command.document.collection, command.document.key)
        return None if row is None else row.memory_id

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            PutDocument: self._put,
        }

    def _put(self, command: PutDocument, state: Structured, limits: Limits) -> Decision:
        put = command.document
        old = state.named(put.collection, put.key)
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
            victims=partial(oldest, others, len(state.rows)) if command.auto_prune else None,
        )  # fmt: skip
        return [*pruned, put]

    def is_said(self, command: UpdateDocument, row: DocumentRow) -> bool:
        """Say whether a document has this value already."""
        return command.value_digest == row.value_digest

    def back(
        self, life: Life[DocumentRow], _limits: Limits
    ) -> tuple[DocumentRow, list[DocumentRestored]]:
        """Return the last row of a document, and the event by which it comes back."""
        value = value_of(life.row, life.by_version)
        return life.row, [derived(DocumentRestored, life.row, value=value)]

    def check_back(self, came: Sequence[DocumentRestored], state: Structured) -> None:
        """Refuse documents under a key that another one has now."""
        seen: set[tuple[str, str]] = set()
        for event in came:
            place = (event.collection, event.key)
            if place in seen or state.named(*place) is not None:
                raise InvalidInputError(
                    f"document {event.memory_id!r} cannot be restored: key {event.key!r} of "
                    f"collection {event.collection!r} is now another document's. Delete that first"
                )
            seen.add(place)

    def cleaned(self, past: TaintedPast) -> Past:
        """Return the events about a document without the values of a source."""
        return past.cleaned(DocumentPut, text="value")

    # --- reads

    def collections(self, state: Structured) -> Mapping[str, int]:
        """Return how many documents each collection has, by name."""
        return {name: len(state.groups[name]) for name in sorted(state.groups)}

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
