"""Working memory: a small dictionary of task state, least recently used entries last.

Its values live in the state itself, so reading one touches no disk. Which entry was used last is
known to the live actor only; a command that may have to evict carries the order, and the event
names who went, so a replay needs to know nothing of reads.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from eventlog import EventRegistry, Recorded
from memory_actors.errors import NotFoundError
from memory_actors.kinds.kind import Command, Kind, same_json
from memory_actors.quota import Limits, refuse_bytes, refuse_count
from memory_actors.records import KindUsage

NAME = "working"

registry = EventRegistry()

# --- events


@registry.event("working.set", keys=lambda event: (event.memory_id, *event.evicted_ids))
class KeySet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A key got a value, and the least recently used entries left."""

    memory_id: str
    key: str
    value: Any
    size_bytes: int
    metadata: dict[str, Any] = {}
    evicted: tuple[str, ...] = ()
    """Keys."""
    evicted_ids: tuple[str, ...] = ()


@registry.event("working.deleted", keys=lambda event: (event.memory_id,))
class KeyDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A key was deleted by its user."""

    memory_id: str
    key: str


Event: TypeAlias = KeySet | KeyDeleted

# --- state


class Row(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One entry, value included."""

    memory_id: str
    key: str
    value: Any
    version: int
    size_bytes: int
    stored_bytes: int
    created_at_us: int
    metadata: dict[str, Any]


class Working(msgspec.Struct, frozen=True):
    """The entries by key, in the order they were last set. At most a hundred or so: copied."""

    rows: dict[str, Row] = {}
    size_bytes: int = 0


# --- evolve


def evolve(state: Working, recorded: Recorded[Event]) -> Working:
    """Fold one event into the state."""
    event = recorded.data
    if isinstance(event, KeyDeleted):
        return _with(state, {event.key})
    row = Row(
        memory_id=event.memory_id,
        key=event.key,
        value=event.value,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        created_at_us=recorded.recorded_at_us,
        metadata=event.metadata,
    )
    return _with(state, {event.key, *event.evicted}, row)


def _with(state: Working, without: set[str], row: Row | None = None) -> Working:
    rows = {key: kept for key, kept in state.rows.items() if key not in without}
    if row is not None:
        rows[row.key] = row
    return Working(rows, sum(kept.size_bytes for kept in rows.values()))


# --- commands


class SetKey(Command, frozen=True, kw_only=True):
    """Set a key to a JSON value."""

    memory_id: str
    """For a new key; an existing one keeps its id."""
    key: str
    value: Any
    size_bytes: int
    metadata: dict[str, Any] = {}
    auto_prune: bool = False
    own_id: bool = False
    """Whether the caller chose the id."""
    least_recent: tuple[str, ...] | None = None
    """Keys, least recently used first; those not named follow in the order they were set."""


class UpdateKey(Command, frozen=True, kw_only=True):
    """Replace the value of an entry with a text, its metadata, or both."""

    memory_id: str
    content: str | None = None
    metadata: dict[str, Any] | None = None
    least_recent: tuple[str, ...] | None = None
    """As in `SetKey`."""


class DeleteKey(Command, frozen=True, kw_only=True):
    """Delete a key, by name or by memory id."""

    key: str | None = None
    memory_id: str | None = None


# --- decide


def decide(command: Command, state: Working, limits: Limits) -> Sequence[Event]:
    """Turn a command into events.

    :raises QuotaExceededError: a new key at the limit without leave to evict, or a value that
        could never fit.
    :raises NotFoundError: no such key.
    """
    if isinstance(command, SetKey):
        return _set(command, state, limits)
    if isinstance(command, UpdateKey):
        return _set(_as_set(command, state), state, limits)
    assert isinstance(command, DeleteKey)
    row = _living(state, command)
    return [KeyDeleted(memory_id=row.memory_id, key=row.key)]


def _as_set(command: UpdateKey, state: Working) -> SetKey:
    row = find(state, command.memory_id, command.now_us)
    if row is None:
        raise NotFoundError(f"no working memory {command.memory_id!r}")
    value = row.value if command.content is None else command.content
    return SetKey(
        now_us=command.now_us,
        memory_id=row.memory_id,
        key=row.key,
        value=value,
        size_bytes=entry_bytes(row.key, value),
        metadata=row.metadata if command.metadata is None else command.metadata,
        least_recent=command.least_recent,
    )


def entry_bytes(key: str, value: Any) -> int:
    """Return what an entry counts for: its key, and its value as JSON or as the text it is."""
    text = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return len(key.encode()) + len(text)


def _set(command: SetKey, state: Working, limits: Limits) -> Sequence[Event]:
    old = state.rows.get(command.key)
    if old is not None and same_json([old.value, old.metadata], [command.value, command.metadata]):
        return []
    evicted = _make_room(command, state, limits)
    return [
        KeySet(
            memory_id=command.memory_id if old is None else old.memory_id,
            key=command.key,
            value=command.value,
            size_bytes=command.size_bytes,
            metadata=command.metadata,
            evicted=tuple(evicted),
            evicted_ids=tuple(state.rows[key].memory_id for key in evicted),
        )
    ]


def _make_room(command: SetKey, state: Working, limits: Limits) -> list[str]:
    """Return the keys to evict. By size always; by count only with leave."""
    if command.size_bytes > limits.working_bytes:
        refuse_bytes(NAME, command.size_bytes, limits.working_bytes)
    others = {key: row for key, row in state.rows.items() if key != command.key}
    if len(others) >= limits.working_keys and not command.auto_prune:
        refuse_count(NAME, "keys", len(state.rows), limits.working_keys)
    size = command.size_bytes + sum(row.size_bytes for row in others.values())
    listed = [key for key in command.least_recent or () if key in others]
    order = [*listed, *(key for key in others if key not in listed)]
    evicted: list[str] = []
    while len(others) - len(evicted) >= limits.working_keys or size > limits.working_bytes:
        key = order[len(evicted)]
        evicted.append(key)
        size -= others[key].size_bytes
    return evicted


def _living(state: Working, command: DeleteKey) -> Row:
    row = state.rows.get(command.key) if command.key is not None else None
    if command.memory_id is not None:
        row = find(state, command.memory_id, command.now_us)
    if row is None:
        raise NotFoundError(f"no working memory {command.key or command.memory_id!r}")
    return row


# --- the kind


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order they were last set."""

    rows: list[Row] = []


def dump(state: Working) -> Dump:
    """Return the state as plain rows."""
    return Dump(list(state.rows.values()))


def load(dumped: Dump) -> Working:
    """Return the state back."""
    rows = {row.key: row for row in dumped.rows}
    return Working(rows, sum(row.size_bytes for row in dumped.rows))


def usage(state: Working, limits: Limits, _now_us: int) -> KindUsage:
    """Return counts and bytes."""
    return KindUsage(
        count=len(state.rows),
        count_limit=limits.working_keys,
        size_bytes=state.size_bytes,
        size_limit_bytes=limits.working_bytes,
        stored_bytes=sum(row.stored_bytes for row in state.rows.values()),
    )


def find(state: Working, memory_id: str, _now_us: int) -> Row | None:
    """Return an entry's row by memory id."""
    return next((row for row in state.rows.values() if row.memory_id == memory_id), None)


KIND = Kind(
    name=NAME,
    registry=registry,
    initial=Working(),
    evolve=evolve,
    commands=(SetKey, UpdateKey, DeleteKey),
    decide=decide,
    dump=dump,
    load=load,
    dumped=Dump,
    usage=usage,
    find=find,
)
