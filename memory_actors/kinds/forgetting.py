"""Forgetting: a fact is taken out of every kind, in one append. A purge, by text and not by source.

A memory that says nothing else goes. One that says more loses the part, where that leaves a text of
its kind; otherwise it is kept, and named. The store rewrites the words in earlier events
(`api/forgetting.py`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from eventlog import Recorded
from memory_actors.base.errors import MemoryActorsError, NotFoundError
from memory_actors.base.origins import Origins
from memory_actors.base.records import Metadata
from memory_actors.kinds import (
    context,
    entity,
    episodic,
    long_term,
    short_term,
    structured,
    working,
)
from memory_actors.kinds.commands import Command
from memory_actors.kinds.compacting import CompactedKind
from memory_actors.kinds.context.commands import EditEntry
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.entity.events import ObservationRemoved
from memory_actors.kinds.entity.state import EntityRow, observation_at
from memory_actors.kinds.episodic.events import goal_of
from memory_actors.kinds.kind import Found, Kind, tentative
from memory_actors.kinds.passages import normalised, spoken, text_digest
from memory_actors.kinds.past import Events
from memory_actors.kinds.purging import Purge, Purging
from memory_actors.kinds.rows import is_summary
from memory_actors.kinds.tombstones import Tombstone, state_of, texts_in, trimmed
from memory_actors.kinds.working import KeySet, SetKey, entry_bytes


class _StaysError(Exception):
    """The fact cannot be taken out: what would be left is no sentence, or nothing of its kind."""


class Forget(Purge, frozen=True, kw_only=True):
    """Take the facts of tombstones out of memories: `memory_ids`, all that may say it."""

    tombstones: tuple[Tombstone, ...]
    chosen: frozenset[str] = frozenset()
    """Memories that go, whatever else they say."""

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the cause: for those who ask why."""
        return {"cause": "forgotten"}


class Forgetting(Purging):
    """The work of a `Forget`: a purge of what says a fact."""

    _command: Forget

    @cached_property
    def _is_said(self) -> Callable[[str], bool]:
        stones = state_of(self._command.tombstones)
        return lambda text: stones.of(text) is not None

    def _is_of_source(self, recorded: Recorded[Event]) -> bool:
        """Say whether one of the texts of an event says the fact, and nothing else."""
        said = msgspec.to_builtins(recorded.data, builtin_types=(bytes,))
        return any(trimmed(text, self._is_said) == "" for text in texts_in(said))

    def take_out(self, living: Found) -> None:
        """Take the fact out of one memory."""
        row = living.row
        if row.memory_id in self._command.chosen:
            self._remove(living)
        elif is_summary(row):
            self._undo(living)
        else:
            self._shorten(living, self._command.past.get(row.memory_id, ()))

    def _bring_back(self, kind: CompactedKind, memory_id: str) -> None:
        """Bring an original back without the fact, unless it said that last."""
        past = self._command.past.get(memory_id, ())
        with suppress(NotFoundError, _StaysError):
            life = kind.last(memory_id, past)
            if self._pruned(said_by(kind, life.row, life.by_version)) is None:
                return
        if memory_id in self._command.chosen:
            return
        super()._bring_back(kind, memory_id)
        found = self._find(memory_id)
        if found is not None and kind is long_term.KIND:
            self._shorten(found, tentative(self._events[-1:], 0, found.row.version))

    def _shorten(self, living: Found, past: Sequence[Recorded[Event]]) -> None:
        kind, row = living
        try:
            left = self._left_of(kind, row, {one.version: one for one in past})
        except (_StaysError, MemoryActorsError):
            self._told["kept"].append((kind.NAME, row.memory_id))
            return
        if left is None:
            self._remove(living)
        elif left:
            self._carry_out(kind, left)
            self._told["changed"].append((kind.NAME, row.memory_id))
            self._left[row.memory_id] = self._provenance.of(row.memory_id)

    def _left_of(self, kind: Kind, row: Any, events: Events) -> Decision | None:
        """Return the events that leave a memory the rest of its text, or None without a rest."""
        metadata = self._pruned(row.metadata) or {}
        if isinstance(row, EntityRow):
            if metadata != row.metadata:
                raise _StaysError
            return None if self._is_said(row.name) else self._without_observations(row, events)
        value = said_by(kind, row, events)
        left = self._pruned(value)
        if left is None and value is not None:
            return None
        if left == value and metadata == row.metadata:
            return self._without_steps(row) if kind is episodic.KIND else []
        command = _rewording(kind, row, left, metadata, self._command.now_us)
        return kind.decide(command, self._states[kind.NAME], self._limits)

    def _pruned(self, value: object) -> Any:
        """Return a value without the fact, None if nothing is left."""
        if isinstance(value, str):
            left = trimmed(value, self._is_said)
            if left is None:
                raise _StaysError
            return left if left or not value else None
        if isinstance(value, list):
            both = [(self._pruned(one), one) for one in value]
            return [one for one, was in both if one is not None or was is None]
        if isinstance(value, dict):
            pruned = {name: self._pruned(one) for name, one in value.items()}
            left_in = {n: one for n, one in pruned.items() if one is not None or value[n] is None}
            return left_in if left_in or not value else None
        return value

    def _without_observations(self, row: EntityRow, events: Events) -> Decision:
        found = {held.digest: observation_at(held.label, events) for held in row.observations}
        left = {digest: trimmed(text, self._is_said) for digest, text in found.items()}
        if any(text not in ("", found[digest]) for digest, text in left.items()):
            self._told["kept"].append((entity.KIND.NAME, row.memory_id))
        gone = [digest for digest, text in left.items() if text == ""]
        return [ObservationRemoved(memory_id=row.memory_id, digest=digest) for digest in gone]

    def _without_steps(self, row: Any) -> Decision | None:
        past, kind = self._past(row.memory_id), episodic.KIND
        if len(past.clean) == len(past.events):
            return []
        return kind.without(past, row, self._states[kind.NAME], self._limits)


def said_by(kind: Kind, row: Any, events: Events) -> Any:
    """Return the text of a memory, or the value; of an episode, the goal or its summary."""
    if kind is working.KIND:
        return row.value
    if kind is structured.KIND:
        return structured.value_of(row, events)
    if kind is episodic.KIND:
        return goal_of(events[row.version].data)
    return kind.content(row, events)


def _rewording(kind: Kind, row: Any, left: Any, metadata: Metadata, now_us: int) -> Command:
    """Return the command that leaves a memory a value."""
    about: dict[str, Any] = {"now_us": now_us, "memory_id": row.memory_id, "metadata": metadata}
    if kind is working.KIND:
        size_bytes = entry_bytes(row.key, left)
        of = {"memory_id": row.memory_id, "key": row.key, "metadata": metadata}
        return SetKey(now_us=now_us, entry=KeySet(**of, value=left, size_bytes=size_bytes))
    if kind is structured.KIND:
        value = structured.value_fields(row.collection, row.key, left)
        said = structured.value_json(left)
        return structured.UpdateDocument(**about, content=said, **value)
    if kind is context.KIND:
        return EditEntry(**about, text=left)
    if kind not in (short_term.KIND, long_term.KIND):
        raise _StaysError
    text = normalised(left)
    digest, size_bytes = text_digest(spoken(text, row.role)), len(text.encode())
    return kind.UPDATE(**about, content=text, size_bytes=size_bytes, digest=digest)
