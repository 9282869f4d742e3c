"""Working memory: a small dictionary of task state, least recently used entries last.

Its values are in the state, so a read touches no disk. Only the live actor knows the order of last
use: a command that may have to evict carries it, and the event names the victims.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import Metadata
from memory_actors.kinds.commands import Add, Command, Delete, Outside, Update, is_known
from memory_actors.kinds.effects import Decision, Effect, KindRegistry
from memory_actors.kinds.kind import BaseKind, Bound, Decide, Nature, rows_dump
from memory_actors.kinds.past import Events, TaintedPast
from memory_actors.kinds.rows import Draft, Keyed, Row, new_row, same_json

registry = KindRegistry()

# --- events


@registry.about("working.set", Effect.ADDED, others={"evicted_ids": Effect.EVICTED})
class KeySet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A key got a value, and the least recently used entries left."""

    memory_id: str
    key: str
    value: Any
    size_bytes: int
    metadata: Metadata = {}
    evicted: tuple[str, ...] = ()
    """Keys."""
    evicted_ids: tuple[str, ...] = ()

    @property
    def text_bytes(self) -> int:
        """Bytes of the value."""
        return self.size_bytes - len(self.key.encode())


@registry.about("working.deleted", Effect.DELETED)
class KeyDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A key was deleted by its user."""

    memory_id: str
    key: str


# --- state

KEYS = ""
"""The one group of the entries."""


class EntryRow(Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """One entry, value included."""

    key: str
    value: Any


Working: TypeAlias = Keyed[EntryRow]
"""The entries, a hundred or so, by their keys too."""


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
    used = outside.last_use.get
    ordered = sorted(state.rows.values(), key=lambda row: (used(row.memory_id, 0), row.version))
    return tuple(row.key for row in ordered)


class DeleteKey(Delete, frozen=True, kw_only=True):
    """Delete an entry, by its key if that is given, else by memory id."""

    memory_id: str = ""
    key: str | None = None


def entry_bytes(key: str, value: object) -> int:
    """Return the size of an entry: its key, and its value as JSON or as the text it is."""
    text = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return len(key.encode()) + len(text)


# --- the kind


class WorkingKind(BaseKind[Working, EntryRow]):
    """The working memory of a user."""

    NAME = "working"
    NATURE = Nature(is_indexed=False, export_place=2, is_cache=True)
    NOUN = "working memory"
    MISSING = "never there, deleted or evicted"
    UPDATE, DELETE, DELETED = UpdateKey, DeleteKey, KeyDeleted
    BOUNDS = (Bound("keys", "working_keys"), Bound("bytes", "working_bytes", "bytes", evicts=True))
    Dump = rows_dump("WorkingDump", EntryRow, "evicted")
    registry = registry
    initial = Working()

    # --- fold

    def begun(self, recorded: Recorded[KeySet], _draft: Draft[EntryRow]) -> EntryRow:
        """Return the row of a key that was set."""
        return new_row(EntryRow, recorded, occurred_at_us=recorded.recorded_at_us)

    def place(self, row: EntryRow) -> tuple[str, str]:
        """Return the group of all entries, and the key."""
        return KEYS, row.key

    # --- decide

    def put_again(self, command: SetKey, state: Working) -> str | None:
        """Return the entry of the key."""
        row = self.named(state, command.entry.key)
        return None if row is None else row.memory_id

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {**super().decisions(), SetKey: self._set}

    def _set(self, command: SetKey, state: Working, limits: Limits) -> Decision:
        entry = command.entry
        for own_id in command.own_ids:
            is_known(command, own_id, None, KeySet, attrgetter("key"), entry.key)
        old = self.named(state, entry.key)
        if old is not None:
            if same_json([old.value, old.metadata], [entry.value, entry.metadata]):
                return []
            entry = replace(entry, memory_id=old.memory_id)
        evicted = self._evicted(command, old, state, limits)
        keys, ids = (tuple(getattr(row, of) for row in evicted) for of in ("key", "memory_id"))
        return [replace(entry, evicted=keys, evicted_ids=ids)]

    def _evicted(
        self, command: SetKey, old: EntryRow | None, state: Working, limits: Limits
    ) -> list[EntryRow]:
        """Return the entries to evict. By size always; by count only with leave."""
        new_bytes, count = command.entry.size_bytes, len(state.rows)
        if new_bytes > limits.working_bytes:
            refuse_bytes(self.NAME, state.size_bytes, limits, "working_bytes", new=new_bytes)
        # A key that is there stays, also above a limit that was lowered.
        keys_max = limits.working_keys if old is None else count
        left = count - (old is not None)
        if left >= keys_max and not (command.auto_prune and keys_max):
            instead = "Delete a key, let the least recently used one go (auto_prune=True)"
            refuse_count(self.NAME, "keys", count, limits, "working_keys", instead=instead)
        size = state.size_bytes + new_bytes - (old.size_bytes if old is not None else 0)
        if left < keys_max and size <= limits.working_bytes:
            return []
        others = {row.key: row for row in self.rows(state) if row is not old}
        listed = [used for used in command.least_recent or () if used in others]
        order = list(dict.fromkeys([*listed, *others]))
        evicted: list[EntryRow] = []
        while left - len(evicted) >= keys_max or size > limits.working_bytes:
            evicted.append(others[order[len(evicted)]])
            size -= evicted[-1].size_bytes
        return evicted

    def _update(self, command: UpdateKey, state: Working, limits: Limits) -> Decision:
        row = self.living(state, command.memory_id)
        value = row.value if command.content is None else command.content
        entry = KeySet(
            memory_id=row.memory_id,
            key=row.key,
            value=value,
            size_bytes=entry_bytes(row.key, value),
            metadata=row.metadata if command.metadata is None else command.metadata,
        )
        put = SetKey(now_us=command.now_us, entry=entry, least_recent=command.least_recent)
        return self._set(put, state, limits)

    def _delete(self, command: DeleteKey, state: Working, _limits: Limits) -> Decision:
        if not command.key:
            return self.deleted(self.living(state, command.memory_id), state)
        row = self.named(state, command.key)
        if row is None:
            raise NotFoundError(
                f"no key {command.key!r} in working memory: never set, deleted or evicted"
            )
        return self.deleted(row, state)

    def without(
        self, past: TaintedPast, row: EntryRow, _state: Working, _limits: Limits
    ) -> list[KeySet] | None:
        """Return the event that gives a key again the value that others set last."""
        last = past.clean[-1].data if past.clean else None
        if not isinstance(last, KeySet) or last.memory_id != row.memory_id:
            return None  # it was deleted, or left for another
        return [replace(last, key=row.key, evicted=(), evicted_ids=())]

    # --- reads

    def named(self, state: Working, key: str) -> EntryRow | None:
        """Return the row of a key, or None."""
        return state.named(KEYS, key)

    def rows(self, state: Working) -> Sequence[EntryRow]:
        """Return the entries, in the order they were last set."""
        return state.in_order()

    def at_hand(self, state: Working, _session_id: str | None) -> Sequence[EntryRow]:
        """Return all entries: a hundred or so."""
        return self.rows(state)

    def exported(self, state: Working) -> Sequence[EntryRow]:
        """Return the entries, in the order they were last set."""
        return self.rows(state)

    def held_bytes(self, state: Working) -> int:
        """Return the memory that the state takes: its values are in it."""
        return super().held_bytes(state) + state.size_bytes

    def passage_text(self, row: EntryRow, _label: int, events: Events) -> str:
        """Return the value, with the key that says what it is about."""
        text = self.content(row, events)
        return text if row.key == row.memory_id else f"{row.key.replace('_', ' ')}: {text}"

    def sources(self, _row: EntryRow) -> Sequence[int]:
        """Return no versions: values are in the state."""
        return ()

    def content(self, row: EntryRow, _events: Events) -> str:
        """Return the value as text: a string as it is, anything else as JSON."""
        return row.value if isinstance(row.value, str) else msgspec.json.encode(row.value).decode()

    def data(self, row: EntryRow, _events: Events) -> object:
        """Return the value."""
        return row.value


KIND = WorkingKind()
