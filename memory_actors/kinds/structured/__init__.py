"""Structured memory: JSON documents in collections, each under a key, queried by field.

A put replaces the document that has its collection and key, which keeps its id. Values stay in the
log; a query reads those of one collection. Full means full, as in long-term memory: a put beyond
the limit is refused, or, if it asks for pruning, the oldest tenth of what is not pinned goes first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from immutables import Map
from msgspec.structs import replace

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import Document, QuotaUse
from memory_actors.kinds import kind
from memory_actors.kinds.defaults import (
    by_age,
    by_rows,
    deciding,
    deleting,
    no_chain,
    none_at_hand,
    own_version,
    same_json,
    timeless,
)
from memory_actors.kinds.kind import (
    Add,
    Command,
    Delete,
    Events,
    Nature,
    Passage,
    Restore,
    Tally,
    refuse_id,
)
from memory_actors.kinds.rows import Held, changed_pin, oldest, record_data
from memory_actors.kinds.structured.state import (
    LIVES,
    DocumentDeleted,
    DocumentPut,
    DocumentRestored,
    DocumentsPruned,
    DocumentUpdated,
    Dump,
    Event,
    Row,
    Structured,
    as_it_was,
    document_text,
    dump,
    find,
    find_key,
    fold,
    initial,
    load,
    registry,
    value_json,
    value_of,
    without,
)

NAME = "structured"
NATURE = Nature()

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


class DeleteDocument(Delete, frozen=True, kw_only=True):
    """Delete a document."""


class RestoreDocuments(Restore, frozen=True, kw_only=True):
    """Bring back documents that were pruned or deleted."""


# --- decide


def _put(command: PutDocument, state: Structured, limits: Limits) -> Sequence[Event]:
    old = find_key(state, command.document.collection, command.document.key)
    put = _as_put(command, old)
    _refuse_foreign_id(command, put, state)
    if old is not None and _says_the_same(put, old):
        return []
    victims = _make_room(put, old, state, limits, auto_prune=command.auto_prune)
    return [DocumentsPruned(memory_ids=victims, cause="quota"), put] if victims else [put]


def _as_put(command: PutDocument, old: Row | None) -> DocumentPut:
    if old is None:
        return command.document
    kept = {name: getattr(old, name) for name in ("memory_id", *command.keeps)}
    return replace(command.document, **kept)


def _refuse_foreign_id(command: PutDocument, put: DocumentPut, state: Structured) -> None:
    """Refuse an id that stands, or stood, for anything but the document of this key."""
    known = [command.used[own_id] for own_id in command.own_ids if own_id in command.used]
    living = state.held.rows.get(put.memory_id)
    for other in [*known, *([living] if living is not None else [])]:
        ours = isinstance(other, DocumentPut | Row)
        if not ours or (other.collection, other.key) != (put.collection, put.key):
            refuse_id(command.document.memory_id)


def _says_the_same(put: DocumentPut, row: Row) -> bool:
    return (put.value_digest, put.pinned) == (row.value_digest, row.pinned) and same_json(
        put.metadata, row.metadata
    )


def _make_room(
    put: DocumentPut, old: Row | None, state: Structured, limits: Limits, *, auto_prune: bool
) -> tuple[str, ...]:
    """Return what has to go for a document to fit in the place of the `old` one, if there is one.

    What replaces one at least as large takes no room.
    """
    held = state.held
    over_count = len(held) + 1 - limits.documents if old is None else 0
    growth = put.size_bytes - (old.size_bytes if old is not None else 0)
    over_bytes = held.size_bytes + growth - limits.structured_bytes if growth > 0 else 0
    if over_count <= 0 and over_bytes <= 0:
        return ()
    others = (row for row in held.rows.values() if row is not old)
    victims = oldest(others, len(held), over_count, over_bytes) if auto_prune else None
    if victims is None:
        _refuse(held, limits, int(over_count > 0), put.size_bytes)
    return victims


def _refuse(held: Held[Row], limits: Limits, new: int, new_bytes: int) -> NoReturn:
    """Refuse so many new documents, or where none are too many, so many bytes."""
    if new:
        refuse_count(NAME, "documents", len(held), limits, "documents", new=new)
    refuse_bytes(NAME, held.size_bytes, limits, "structured_bytes", new=new_bytes)


def _update(command: UpdateDocument, state: Structured, limits: Limits) -> Sequence[Event]:
    change = command.change
    row = _living(state, change.memory_id)
    metadata = None if same_json(change.metadata, row.metadata) else change.metadata
    pinned = changed_pin(change.pinned, row)
    if change.value is None or change.value_digest == row.value_digest:
        changed = DocumentUpdated(memory_id=row.memory_id, metadata=metadata, pinned=pinned)
        return [] if metadata is None and pinned is None else [changed]
    growth = change.size_bytes - row.size_bytes
    if growth > 0 and state.held.size_bytes + growth > limits.structured_bytes:
        _refuse(state.held, limits, 0, change.size_bytes)
    return [replace(change, metadata=metadata, pinned=pinned)]


def _restore(command: RestoreDocuments, state: Structured, limits: Limits) -> Sequence[Event]:
    restored = [as_it_was(life) for life in LIVES.gone(command, state.held.rows)]
    _refuse_taken_keys(restored, state)
    over_count = len(state.held) + len(restored) - limits.documents
    size = sum(event.size_bytes for event in restored)
    over_bytes = state.held.size_bytes + size - limits.structured_bytes
    if restored and (over_count > 0 or over_bytes > 0):
        _refuse(state.held, limits, len(restored) if over_count > 0 else 0, size)
    return restored


def _refuse_taken_keys(restored: Sequence[DocumentRestored], state: Structured) -> None:
    seen: set[tuple[str, str]] = set()
    for event in restored:
        place = (event.collection, event.key)
        if place in seen or find_key(state, *place) is not None:
            raise InvalidInputError(
                f"document {event.memory_id!r} cannot be restored: key {event.key!r} of "
                f"collection {event.collection!r} is now another document's. Delete that first"
            )
        seen.add(place)


def _delete(command: DeleteDocument, state: Structured, _limits: Limits) -> Sequence[Event]:
    _living(state, command.memory_id)
    return [DocumentDeleted(memory_id=command.memory_id)]


def _living(state: Structured, memory_id: str) -> Row:
    row = find(state, memory_id)
    if row is None:
        raise NotFoundError(f"no document {memory_id!r}: it was never there, or it was deleted")
    return row


_DECISIONS: Mapping[type[Command], Callable[..., Sequence[Event]]] = {
    PutDocument: _put,
    UpdateDocument: _update,
    DeleteDocument: _delete,
    RestoreDocuments: _restore,
}
COMMANDS = tuple(_DECISIONS)
decide = deciding(_DECISIONS)
"""Turn a command into events.

:raises QuotaExceededError: no room, and no leave to make some.
:raises InvalidInputError: an id that stands for another memory, or a key that is taken.
:raises NotFoundError: no such document.
"""

# --- reads

at = timeless


def tally(state: Structured) -> Tally:
    """Return counts and bytes."""
    held = state.held
    return Tally(len(held), held.size_bytes, held.stored_bytes, pruned=state.pruned)


held_bytes = by_rows(tally)


def quotas(state: Structured, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is."""
    return (
        QuotaUse("documents", "count", len(state.held), limits.documents),
        QuotaUse("bytes", "bytes", state.held.size_bytes, limits.structured_bytes),
    )


def rows(state: Structured) -> Iterable[Row]:
    """Return the living documents."""
    return state.held.rows.values()


def rows_of(state: Structured, collection: str) -> Iterable[Row]:
    """Return the living documents of one collection."""
    return map(state.held.rows.__getitem__, state.collections.get(collection, Map()).values())


def collections(state: Structured) -> Mapping[str, int]:
    """Return how many documents each collection has, by name."""
    return {name: len(state.collections[name]) for name in sorted(state.collections)}


def passages(row: Row) -> Sequence[Passage]:
    """Return one passage: the document."""
    return (Passage(kind.label(row.version), row.digest),)


def passage_text(row: Row, _label: int, events: Events) -> str:
    """Return the document as it is found."""
    return document_text(row.collection, row.key, value_of(row, events))


def content(row: Row, events: Events) -> str:
    """Return the value as JSON."""
    return value_json(value_of(row, events))


def data(row: Row, events: Events) -> dict[str, Any]:
    """Return the value, and where it is."""
    return record_data(Document, row, value=value_of(row, events))


at_hand = none_at_hand
indexed_rows = rows
chain = no_chain
sources = own_version
exported = by_age(rows)
worded = find
deleted = deleting(DocumentDeleted)
