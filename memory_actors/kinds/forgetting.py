"""Forgetting: a fact is taken out of every kind, in one append. A purge, by text and not by source.

A memory that says nothing else goes. One that says more loses the part where that leaves a text of
its kind: a sentence, a clause, an observation, a step, a value in a document. Where it does not,
the memory is kept, and named. A summary of something that said the fact goes, as in a purge.

The events before this one still have the words. Rewriting them is the store's work: see
`api/forgetting.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from eventlog import Dropped, Recorded
from memory_actors.base.errors import MemoryActorsError, NotFoundError
from memory_actors.base.origins import Origins
from memory_actors.base.quota import Limits
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
from memory_actors.kinds.effects import Event
from memory_actors.kinds.entity.events import ObservationRemoved
from memory_actors.kinds.entity.state import EntityRow, observation_at
from memory_actors.kinds.episodic.events import goal_of
from memory_actors.kinds.kind import Events, Kind, is_summary
from memory_actors.kinds.long_term import UpdateMemory
from memory_actors.kinds.phrasing import normalised, spoken, text_digest
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.purging import Living, Purge, Purging
from memory_actors.kinds.short_term import UpdateMessage
from memory_actors.kinds.structured import (
    DocumentUpdated,
    UpdateDocument,
    document_text,
    value_json,
    value_of,
)
from memory_actors.kinds.tombstones import Tombstone, state_of, texts_in, trimmed
from memory_actors.kinds.working import KeySet, SetKey, entry_bytes

_NOTHING: Any = object()


class Forget(Purge, frozen=True, kw_only=True):
    """Take what tombstones stand for out of memories: `memory_ids`, all that may say it."""

    tombstones: tuple[Tombstone, ...]
    chosen: frozenset[str] = frozenset()
    """Memories that go, whatever else they say."""

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the cause: for those who ask why."""
        return {"cause": "forgotten"}


def forget(
    command: Forget,
    kinds: Sequence[Kind],
    states: Mapping[str, Any],
    provenance: Provenance,
    limits: Limits,
) -> Sequence[Event]:
    """Take a fact out of memories; no events if none has it. `states` are those of the kinds."""
    work = _Forgetting(command, kinds, dict(states), limits, provenance)
    for living in work.living():
        work.take_out(living)
    return work.events()


class _Forgetting(Purging):
    """The work of a `Forget`."""

    _command: Forget

    def __init__(
        self,
        command: Forget,
        kinds: Sequence[Kind],
        states: dict[str, Any],
        limits: Limits,
        provenance: Provenance,
    ):
        super().__init__(command, kinds, states, limits)
        self._stones = state_of(command.tombstones)
        self._provenance = provenance

    def take_out(self, living: Living) -> None:
        """Take the fact out of one memory."""
        kind, row = living
        if self._find(row.memory_id) is None:
            return  # it went with an entity
        if row.memory_id in self._command.chosen:
            self._delete(kind, kind.deleted(row, self._states[kind.NAME]))
        elif is_summary(row):
            self._undo(living)
        else:
            self._shorten(living)

    def _is_said(self, text: str) -> bool:
        return self._stones.of(text) is not None

    def _is_of_source(self, recorded: Recorded[Event]) -> bool:
        """Say whether one of the texts of an event says the fact, and nothing else."""
        if isinstance(recorded.data, Dropped):
            return False
        said = msgspec.to_builtins(recorded.data, builtin_types=(bytes,))
        return any(trimmed(text, self._is_said) == "" for text in texts_in(said))

    def _bring_back(self, kind: CompactedKind, memory_id: str) -> None:
        """Bring an original back, unless it said the fact, and without that."""
        past = self._command.past.get(memory_id, ())
        try:
            life = kind.last(memory_id, past)
            left = self._pruned(said_by(kind, life.row, life.by_version))
        except (NotFoundError, KeyError):
            left = None
        if memory_id in self._command.chosen or left is _NOTHING:
            return
        super()._bring_back(kind, memory_id)
        found = self._find(memory_id)
        if found is not None:
            self._shorten(found)

    def _shorten(self, living: Living) -> None:
        """Leave a memory what else it says."""
        kind, row = living
        past = self._command.past.get(row.memory_id, ())
        try:
            left = self._remaining(kind, row, {one.version: one for one in past})
        except (MemoryActorsError, KeyError):  # its kind does not take what would be left
            left = None
        if left is None:
            self._kept.append((kind.NAME, row.memory_id))
        elif left is _NOTHING:
            self._delete(kind, kind.deleted(row, self._states[kind.NAME]))
        elif left:
            self._carry_out(kind, left)
            self._changed.append((kind.NAME, row.memory_id))
            self._left[row.memory_id] = self._provenance.of(row.memory_id)

    def _remaining(self, kind: Kind, row: Any, events: Events) -> Sequence[Event] | None:
        """Return the events that leave a memory what else it says; [] if it does not say the fact.

        None: that cannot be taken out. `_NOTHING`: nothing else is said.
        """
        data = said_by(kind, row, events)
        left, metadata = self._pruned(data), self._pruned(row.metadata)
        if isinstance(row, EntityRow):
            left = self._is_said(row.name) and _NOTHING
        if left is _NOTHING:
            return cast("Sequence[Event]", _NOTHING)
        if metadata == row.metadata:
            if isinstance(row, EntityRow):
                return self._without_observations(row, events)
            if kind is episodic.KIND and left == data:
                return self._without_steps(row)
            if left == data:
                return []
        metadata = {} if metadata is _NOTHING else metadata
        if left is None or metadata is None:
            return None
        command = _rewording(kind, row, left, metadata, self._command.now_us)
        state = self._states[kind.NAME]
        return None if command is None else kind.decide(command, state, self._limits)

    def _pruned(self, value: Any) -> Any:
        """Return a value without the fact: `_NOTHING` if that is all, None if it stays in it."""
        if isinstance(value, str):
            left = trimmed(value, self._is_said)
            return _NOTHING if left == "" and value else left
        if not isinstance(value, dict | list) or not value:
            return value
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        inner: dict[Any, Any] = {name: self._pruned(one) for name, one in pairs}
        if None in inner.values():
            return None
        kept = {name: one for name, one in inner.items() if one is not _NOTHING}
        if not kept:
            return _NOTHING
        return kept if isinstance(value, dict) else [*kept.values()]

    def _without_observations(self, row: EntityRow, events: Events) -> Sequence[Event]:
        found = {held.digest: observation_at(held.label, events) for held in row.observations}
        left = {digest: trimmed(text, self._is_said) for digest, text in found.items()}
        if any(text not in ("", found[digest]) for digest, text in left.items()):
            self._kept.append((entity.KIND.NAME, row.memory_id))
        gone = [digest for digest, text in left.items() if text == ""]
        return [ObservationRemoved(memory_id=row.memory_id, digest=digest) for digest in gone]

    def _without_steps(self, row: Any) -> Sequence[Event] | None:
        past, kind = self._past(row.memory_id), episodic.KIND
        if len(past.clean) == len(past.events):
            return []
        return kind.without(past, row, self._states[kind.NAME], self._limits)


def said_by(kind: Kind, row: Any, events: Events) -> Any:
    """Return the text of a memory, or the value; of an episode, the goal."""
    if kind is working.KIND:
        return row.value
    if kind is structured.KIND:
        return value_of(row, events)
    if kind is episodic.KIND and not is_summary(row):
        return goal_of(events[row.version].data)
    return kind.content(row, events)


def _rewording(kind: Kind, row: Any, left: Any, metadata: Metadata, now_us: int) -> Command | None:
    """Return the command that leaves a memory a value; None if its kind does not take it."""
    about: dict[str, Any] = {"now_us": now_us, "memory_id": row.memory_id, "metadata": metadata}
    if kind is working.KIND:
        size_bytes = entry_bytes(row.key, left)
        of = {"memory_id": row.memory_id, "key": row.key, "metadata": metadata}
        return SetKey(now_us=now_us, entry=KeySet(**of, value=left, size_bytes=size_bytes))
    if kind is structured.KIND:
        said = value_json(left)
        change = DocumentUpdated(
            memory_id=row.memory_id,
            value=left,
            size_bytes=len(said.encode()),
            digest=text_digest(document_text(row.collection, row.key, left)),
            value_digest=text_digest(said),
            metadata=metadata,
        )
        return UpdateDocument(now_us=now_us, change=change)
    if kind is context.KIND:
        return EditEntry(**about, text=left)
    text = normalised(left) if isinstance(left, str) else ""
    told: dict[str, Any] = {"content": text, "size_bytes": len(text.encode())}
    if kind is short_term.KIND:
        return UpdateMessage(**about, **told)
    if kind is long_term.KIND:
        return UpdateMemory(**about, **told, digest=text_digest(spoken(text, row.role)))
    return None
