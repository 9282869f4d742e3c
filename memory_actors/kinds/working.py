"""Working memory: a small dictionary of task state, least recently used entries last.

Its values live in the state itself, so reading one touches no disk. Which entry was used last is
known to the live actor only; a command that may have to evict carries the order, and the event
names who went, so a replay needs to know nothing of reads.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import QuotaUse
from memory_actors.kinds import kind
from memory_actors.kinds.defaults import by_rows, folding, no_chain, no_rows, same_json, timeless
from memory_actors.kinds.events import Effect, KindRegistry
from memory_actors.kinds.kind import (
    Add,
    Command,
    Delete,
    Events,
    Nature,
    Outside,
    Passage,
    Tally,
    Update,
    added_before,
)
from memory_actors.kinds.rows import new_row
from memory_actors.kinds.tainted import TaintedPast

NAME = "working"
NATURE = Nature(is_indexed=False, export_place=2, is_cache=True)

registry = KindRegistry()

# --- events


@registry.about("working.set", Effect.ADDED, others={"evicted_ids": Effect.EVICTED})
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


@registry.about("working.deleted", Effect.DELETED)
class KeyDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A key was deleted by its user."""

    memory_id: str
    key: str


Event: TypeAlias = KeySet | KeyDeleted

# --- state


class Row(kind.Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """One entry, value included."""

    key: str
    value: Any


class Working(msgspec.Struct, frozen=True):
    """The entries by key, in the order they were last set. At most a hundred or so: copied."""

    held: dict[str, Row] = {}
    size_bytes: int = 0
    stored_bytes: int = 0
    evicted: int = 0


initial = Working()

# --- evolve


def evolve(state: Working, recorded: Recorded[Event]) -> Working:
    """Fold one event into the state."""
    event = recorded.data
    if isinstance(event, KeyDeleted):
        return _changed(state, (event.key,))
    row = new_row(Row, recorded, occurred_at_us=recorded.recorded_at_us)
    changed = _changed(state, (event.key, *event.evicted), row)
    return replace(changed, evicted=state.evicted + len(event.evicted))


def _changed(state: Working, gone: Iterable[str], came: Row | None = None) -> Working:
    """Return the state without some keys, and then with a row behind all others."""
    held, size_bytes, stored_bytes = state.held.copy(), state.size_bytes, state.stored_bytes
    for key in gone:
        old = held.pop(key, None)
        if old is not None:
            size_bytes, stored_bytes = size_bytes - old.size_bytes, stored_bytes - old.stored_bytes
    if came is not None:
        held[came.key] = came
        size_bytes, stored_bytes = size_bytes + came.size_bytes, stored_bytes + came.stored_bytes
    return Working(held, size_bytes, stored_bytes, state.evicted)


def _without(state: Working, *keys: str) -> dict[str, Row]:
    return {key: row for key, row in state.held.items() if key not in keys}


fold = folding(evolve)


# --- commands


class SetKey(Add, frozen=True, kw_only=True):
    """Set a key to a JSON value."""

    entry: KeySet
    """The event as it is for a new key; an existing one keeps its id."""
    auto_prune: bool = False
    least_recent: tuple[str, ...] | None = None
    """Keys, least recently used first; those not named follow in the order they were set."""

    async def informed(self, state: Any, outside: Outside) -> Self:
        """Return the command with the order of last use."""
        known = await super().informed(state, outside)
        return replace(known, least_recent=_least_recent(state.working, outside))


class UpdateKey(Update, frozen=True, kw_only=True):
    """Replace the value of an entry with a text, its metadata, or both."""

    least_recent: tuple[str, ...] | None = None
    """Keys, as in `SetKey`."""

    async def informed(self, state: Any, outside: Outside) -> Self:
        """Return the command with the order of last use."""
        return replace(self, least_recent=_least_recent(state.working, outside))


def _least_recent(state: Working, outside: Outside) -> tuple[str, ...]:
    rows = sorted(state.held.values(), key=lambda row: outside.last_use.get(row.memory_id, 0))
    return tuple(row.key for row in rows)


class DeleteKey(Delete, frozen=True, kw_only=True):
    """Delete an entry, by its key if that is given, else by memory id."""

    memory_id: str = ""
    key: str | None = None


COMMANDS = (SetKey, UpdateKey, DeleteKey)

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
        return _set(_as_set(command, _living(state, command.memory_id)), state, limits)
    assert isinstance(command, DeleteKey)
    row = _named(state, command.key) if command.key else _living(state, command.memory_id)
    return [KeyDeleted(memory_id=row.memory_id, key=row.key)]


def _as_set(command: UpdateKey, row: Row) -> SetKey:
    value = row.value if command.content is None else command.content
    entry = KeySet(
        memory_id=row.memory_id,
        key=row.key,
        value=value,
        size_bytes=entry_bytes(row.key, value),
        metadata=row.metadata if command.metadata is None else command.metadata,
    )
    return SetKey(now_us=command.now_us, entry=entry, least_recent=command.least_recent)


def entry_bytes(key: str, value: Any) -> int:
    """Return what an entry counts for: its key, and its value as JSON or as the text it is."""
    text = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return len(key.encode()) + len(text)


def _set(command: SetKey, state: Working, limits: Limits) -> Sequence[Event]:
    entry = command.entry
    for own_id in command.own_ids:
        added_before(command, own_id, KeySet, "key", entry.key)
    old = state.held.get(entry.key)
    if old is not None:
        if same_json([old.value, old.metadata], [entry.value, entry.metadata]):
            return []
        entry = replace(entry, memory_id=old.memory_id)
    evicted = _make_room(command, state, limits)
    ids = tuple(state.held[key].memory_id for key in evicted)
    return [replace(entry, evicted=tuple(evicted), evicted_ids=ids)]


def _make_room(command: SetKey, state: Working, limits: Limits) -> list[str]:
    """Return the keys to evict. By size always; by count only with leave."""
    key, new_bytes = command.entry.key, command.entry.size_bytes
    if new_bytes > limits.working_bytes:
        refuse_bytes(NAME, state.size_bytes, limits, "working_bytes", new=new_bytes)
    others = _without(state, key)
    # A key that is there stays, also above a limit that was lowered.
    keys_max = limits.working_keys if key not in state.held else len(state.held)
    if len(others) >= keys_max and not (command.auto_prune and keys_max):
        instead = "Delete a key, let the least recently used one go (auto_prune=True)"
        refuse_count(NAME, "keys", len(state.held), limits, "working_keys", instead=instead)
    size = new_bytes + sum([row.size_bytes for row in others.values()])
    if len(others) < keys_max and size <= limits.working_bytes:
        return []
    listed = [used for used in command.least_recent or () if used in others]
    order = list(dict.fromkeys([*listed, *others]))
    evicted: list[str] = []
    while len(others) - len(evicted) >= keys_max or size > limits.working_bytes:
        evicted.append(order[len(evicted)])
        size -= others[evicted[-1]].size_bytes
    return evicted


def _living(state: Working, memory_id: str) -> Row:
    row = find(state, memory_id)
    if row is None:
        raise NotFoundError(f"no working memory {memory_id!r}: never there, deleted or evicted")
    return row


def _named(state: Working, key: str) -> Row:
    row = state.held.get(key)
    if row is None:
        raise NotFoundError(f"no key {key!r} in working memory: never set, deleted or evicted")
    return row


# --- snapshot


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order they were last set."""

    rows: list[Row] = []
    evicted: int = 0


def dump(state: Working) -> Dump:
    """Return the state as plain rows."""
    return Dump(list(state.held.values()), state.evicted)


def load(dumped: Dump) -> Working:
    """Return the state back."""
    return Working(
        {row.key: row for row in dumped.rows},
        sum(row.size_bytes for row in dumped.rows),
        sum(row.stored_bytes for row in dumped.rows),
        dumped.evicted,
    )


# --- reads

chain = no_chain
indexed_rows = no_rows
at = timeless


def tally(state: Working) -> Tally:
    """Return counts and bytes."""
    return Tally(len(state.held), state.size_bytes, state.stored_bytes, state.evicted)


def held_bytes(state: Working) -> int:
    """Return the memory that the state takes: its values are in it."""
    return by_rows(tally)(state) + state.size_bytes


def quotas(state: Working, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is."""
    return (
        QuotaUse("keys", "count", len(state.held), limits.working_keys),
        QuotaUse("bytes", "bytes", state.size_bytes, limits.working_bytes, evicts=True),
    )


def rows(state: Working) -> Iterable[Row]:
    """Return the entries, in the order they were last set."""
    return state.held.values()


def find(state: Working, memory_id: str) -> Row | None:
    """Return an entry's row by memory id."""
    return next((row for row in state.held.values() if row.memory_id == memory_id), None)


def at_hand(state: Working, _session_id: str | None) -> Sequence[Row]:
    """Return all entries: a hundred or so."""
    return list(state.held.values())


def passages(row: Row) -> Sequence[Passage]:
    """Return one passage: the key and its value."""
    return (Passage(kind.label(row.version), b""),)


def passage_text(row: Row, _label: int, events: Events) -> str:
    """Return the value, with the key that says what it is about."""
    text = content(row, events)
    return text if row.key == row.memory_id else f"{row.key.replace('_', ' ')}: {text}"


def sources(_row: Row) -> Sequence[int]:
    """Return no versions: values are in the state."""
    return ()


def content(row: Row, _events: Events) -> str:
    """Return the value as text: a string as it is, anything else as JSON."""
    return row.value if isinstance(row.value, str) else msgspec.json.encode(row.value).decode()


def data(row: Row, _events: Events) -> Any:
    """Return the value."""
    return row.value


exported = rows
worded = find

# --- purges


def without(past: TaintedPast, row: Row, _state: Working, _limits: Limits) -> list[KeySet] | None:
    """Return the event that gives a key again the value that others set last."""
    last: KeySet | None = None
    for recorded in past.clean:
        event = recorded.data
        its_own = isinstance(event, KeySet) and event.memory_id == row.memory_id
        last = event if its_own else None  # else it was deleted, or left for another
    return None if last is None else [replace(last, key=row.key, evicted=(), evicted_ids=())]


def deleted(row: Row, _state: Working) -> list[KeyDeleted]:
    """Return the event that takes a key away."""
    return [KeyDeleted(memory_id=row.memory_id, key=row.key)]
