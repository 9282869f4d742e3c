"""The documents of a user: their events, their rows, the state, and what one says."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec
from immutables import Map

from eventlog import Recorded
from memory_actors.base.quota import Limits
from memory_actors.base.records import Origin
from memory_actors.kinds import kind
from memory_actors.kinds.events import Effect, KindRegistry
from memory_actors.kinds.kind import Events, Pruned
from memory_actors.kinds.last_rows import Life, Lives
from memory_actors.kinds.rows import (
    Groups,
    Held,
    derived,
    kept,
    new_row,
    put_in,
    reworded,
    take_from,
)
from memory_actors.kinds.tainted import TaintedPast

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
    metadata: dict[str, Any] | None = None
    pinned: bool | None = None


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


class Structured(msgspec.Struct, frozen=True):
    """The living documents, and how many were pruned so far."""

    held: Held[Row] = Held()
    collections: Groups = Map()
    """Memory ids by collection and key."""
    pruned: int = 0


initial = Structured()

# --- fold


def fold(state: Structured, events: Iterable[Recorded[Event]]) -> Structured:
    """Fold many events into the state."""
    draft = _Draft(state)
    for recorded in events:
        draft.apply(recorded)
    return draft.finish()


class _Draft:
    """A state that changes in place, for one fold."""

    def __init__(self, state: Structured):
        self.held = state.held.draft()
        self.collections = state.collections.mutate()
        self.pruned = state.pruned

    def apply(self, recorded: Recorded[Event]) -> None:
        """Fold one event."""
        event = recorded.data
        if isinstance(event, DocumentPut | DocumentUpdated):
            row = _evolved(self.held.rows.get(event.memory_id), recorded)
            self.held.put(row)
            put_in(self.collections, row.collection, row.key, row.memory_id)
        elif isinstance(event, DocumentDeleted):
            self._drop(event.memory_id)
        else:
            for memory_id in event.memory_ids:
                self._drop(memory_id)
            self.pruned += len(event.memory_ids)

    def _drop(self, memory_id: str) -> None:
        row = self.held.drop(memory_id)
        take_from(self.collections, row.collection, row.key)

    def finish(self) -> Structured:
        """Return what has become of the state."""
        return Structured(self.held.finish(), self.collections.finish(), self.pruned)


def _evolved(old: Row | None, recorded: Recorded[Event]) -> Row:
    """Return a row after it was put or updated."""
    event = recorded.data
    if isinstance(event, DocumentPut):
        if old is None or isinstance(event, DocumentRestored):
            return new_row(Row, recorded)
        return new_row(Row, recorded, created_at_us=old.created_at_us)
    assert isinstance(event, DocumentUpdated)
    assert old is not None, "a document begins with a put"
    row = kept(old, event)
    if event.value is None:
        return row
    return reworded(row, recorded, digest=event.digest, value_digest=event.value_digest)


# --- snapshot


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their values' versions."""

    rows: list[Row] = []
    pruned: int = 0


def dump(state: Structured) -> Dump:
    """Return the state as plain rows."""
    return Dump(state.held.in_order(), state.pruned)


def load(dumped: Dump) -> Structured:
    """Return the state back."""
    collections = Groups().mutate()
    for row in dumped.rows:
        put_in(collections, row.collection, row.key, row.memory_id)
    return Structured(Held.of(dumped.rows), collections.finish(), dumped.pruned)


# --- look-ups


def find(state: Structured, memory_id: str) -> Row | None:
    """Return a living document's row."""
    return state.held.rows.get(memory_id)


def find_key(state: Structured, collection: str, key: str) -> Row | None:
    """Return the row of the document that has a collection and key."""
    memory_id = state.collections.get(collection, Map()).get(key)
    return None if memory_id is None else state.held.rows[memory_id]


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


# --- a document that has gone

LIVES = Lives("document", registry, initial, fold, find)


def as_it_was(life: Life[Row]) -> DocumentRestored:
    """Return the event by which a document comes back."""
    return derived(DocumentRestored, life.row, value=value_of(life.row, life.by_version))


def without(
    past: TaintedPast, _row: Row, _state: Structured, _limits: Limits
) -> list[DocumentRestored] | None:
    """Return the event that makes a document what others have put."""
    events = past.cleaned(DocumentPut, text="value")
    return [as_it_was(LIVES.last(past.memory_id, events))] if events else None
