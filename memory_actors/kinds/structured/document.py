"""One document: its events, its row, what each event makes of the row, and what it says."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import Origin
from memory_actors.kinds import kind
from memory_actors.kinds.events import Effect, KindRegistry
from memory_actors.kinds.kind import Events, Pruned

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
    """Of the value as JSON."""
    digest: bytes
    """Of the text that is indexed, which may be cut."""
    value_digest: bytes
    """Of the value as JSON."""
    occurred_at_us: int
    metadata: dict[str, Any] = {}
    pinned: bool = False


@registry.about("structured.restored", Effect.RESTORED)
class DocumentRestored(DocumentPut, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A document that had gone came back, as it was when it went."""

    created_at_us: int
    origins: tuple[Origin, ...] = ()
    """Whose words it has: not those of who brought it back."""


@registry.about("structured.updated", Effect.CHANGED)
class DocumentUpdated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A document got a new value, new metadata, or both; None keeps what was."""

    memory_id: str
    value: Any = None
    size_bytes: int = 0
    digest: bytes = b""
    value_digest: bytes = b""
    metadata: dict[str, Any] | None = None


@registry.about("structured.deleted", Effect.DELETED)
class DocumentDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A document was deleted by its user."""

    memory_id: str


@registry.about("structured.pruned", Effect.PRUNED)
class DocumentsPruned(Pruned, frozen=True, kw_only=True):
    """The oldest documents were deleted to make room."""


Event: TypeAlias = (
    DocumentPut | DocumentRestored | DocumentUpdated | DocumentDeleted | DocumentsPruned
)

# --- state


class Row(kind.Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A document without its value."""

    collection: str
    key: str
    digest: bytes
    value_digest: bytes
    pinned: bool


# --- evolve


def evolved(row: Row | None, recorded: Recorded[Any]) -> Row:
    """Return a row after it was put or updated; None is the row of a new document."""
    event: DocumentPut | DocumentUpdated = recorded.data
    if isinstance(event, DocumentPut):
        return _put(row, event, recorded)
    assert row is not None, "a document begins with a put"
    return _updated(row, event, recorded)


def _put(old: Row | None, event: DocumentPut, recorded: Recorded[Any]) -> Row:
    created_at_us = recorded.recorded_at_us if old is None else old.created_at_us
    return Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
        created_at_us=event.created_at_us if isinstance(event, DocumentRestored) else created_at_us,
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        collection=event.collection,
        key=event.key,
        digest=event.digest,
        value_digest=event.value_digest,
        pinned=event.pinned,
    )


def _updated(row: Row, event: DocumentUpdated, recorded: Recorded[Any]) -> Row:
    if event.metadata is not None:
        row = msgspec.structs.replace(row, metadata=event.metadata)
    if event.value is None:
        return row
    return msgspec.structs.replace(
        row,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
        digest=event.digest,
        value_digest=event.value_digest,
    )


def as_it_was(memory_id: str, past: Sequence[Recorded[Any]]) -> DocumentRestored:
    """Return a document as its last events left it.

    :raises NotFoundError: no event put this document.
    """
    row: Row | None = None
    gone = False
    for recorded in past:
        if isinstance(recorded.data, DocumentPut | DocumentUpdated):
            row, gone = evolved(None if gone else row, recorded), False
        else:
            gone = True
    if row is None:
        raise NotFoundError(f"no document {memory_id!r} to restore: it was never there")
    return _restored(row, {recorded.version: recorded for recorded in past})


def _restored(row: Row, events: Events) -> DocumentRestored:
    return DocumentRestored(
        memory_id=row.memory_id,
        collection=row.collection,
        key=row.key,
        value=value_of(row, events),
        size_bytes=row.size_bytes,
        digest=row.digest,
        value_digest=row.value_digest,
        occurred_at_us=row.occurred_at_us,
        metadata=row.metadata,
        pinned=row.pinned,
        created_at_us=row.created_at_us,
    )


# --- what it says


def value_of(row: Row, events: Events) -> Any:
    """Return a document's value, as it was put."""
    return events[row.version].data.value


def value_json(value: Any) -> str:
    """Return a value as JSON, without spaces: what is counted, and what `value_digest` is of."""
    return msgspec.json.encode(value).decode()


def document_text(collection: str, key: str, value: Any) -> str:
    """Return what a document is found by, at most 2,000 characters.

    `collection: key`, then a line `path: value` for each value in it but null, in their order. A
    path has no places of lists in it: what is in a list stands under the list's path.
    """
    text = f"{collection}: {key}"
    for line in _lines(value, ""):
        text += f"\n{line}"
        if len(text) >= TEXT_CHARS_MAX:
            break
    return text[:TEXT_CHARS_MAX]


def _lines(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _lines(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, path)
    elif value is not None:
        said = value if isinstance(value, str) else value_json(value)
        yield f"{path}: {said}" if path else said
