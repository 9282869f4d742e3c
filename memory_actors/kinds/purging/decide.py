"""From the command to its events. See the package."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, cast

import msgspec

from eventlog import Dropped, Recorded
from memory_actors.base.origins import Origins
from memory_actors.base.quota import Limits
from memory_actors.kinds import provenance
from memory_actors.kinds.compression import CompactedKind
from memory_actors.kinds.entity.graph import RelationshipRow
from memory_actors.kinds.kind import Kind, is_summary
from memory_actors.kinds.provenance import SourcePurged
from memory_actors.kinds.purging.command import Purge, made_of
from memory_actors.kinds.purging.pasts import (
    Earlier,
    is_of,
    is_purged,
    purges_in,
    restates,
)
from memory_actors.kinds.tainted import TaintedPast


class _Living(NamedTuple):
    kind: Kind
    row: Any


def purge(
    command: Purge, kinds: Sequence[Kind], states: Mapping[str, Any], limits: Limits
) -> Sequence[Any]:
    """Take what came from a source out of memories; no events if nothing did.

    `states` are those of the kinds by name.
    """
    work = _Work(command, kinds, dict(states), limits)
    for living in work.living():
        work.take_out(living)
    return work.events()


class _Work:
    """A purge under way: the states as they become, and what has come of it."""

    def __init__(
        self, command: Purge, kinds: Sequence[Kind], states: dict[str, Any], limits: Limits
    ):
        self._command = command
        self._kinds = kinds
        self._states = states
        self._limits = limits
        self._events: list[Any] = []
        self._gone: dict[tuple[str, str], None] = {}
        self._changed: list[tuple[str, str]] = []
        self._came_back: list[str] = []
        self._left_out: list[str] = []
        self._lost: list[str] = []
        self._left: dict[str, Origins] = {}

    def living(self) -> list[_Living]:
        """Return those of the memories that live, relationships before the entities they join."""
        found = [self._find(memory_id) for memory_id in self._command.memory_ids]
        living = [one for one in found if one is not None]
        return sorted(living, key=lambda one: not isinstance(one.row, RelationshipRow))

    def events(self) -> list[Any]:
        """Return the events, with one behind them that says what they come to."""
        if not self._events:
            return []
        said = SourcePurged(
            source=self._command.source,
            trust=self._command.trust,
            gone=tuple(self._gone),
            changed=tuple(self._changed),
            came_back=tuple(self._came_back),
            left_out=tuple(self._left_out),
            lost=tuple(self._lost),
            left=self._left,
        )
        return [*self._events, said]

    def take_out(self, living: _Living) -> None:
        """Take the source's words out of one memory."""
        kind, row = living
        if self._find(row.memory_id) is None:
            return  # it went with an entity
        past = self._past(row.memory_id)
        if not any(map(self._is_relevant, past.events, repeat(purges_in(past.events)))):
            return
        if is_summary(row):
            self._undo(living)
            return
        left = provenance.of_past(row.memory_id, past.clean)
        events = kind.without(past, row, self._states[kind.NAME], self._limits)
        if events is None or not self._fits(kind, events, row):
            self._delete(kind, kind.deleted(row, self._states[kind.NAME]))
            return
        self._carry_out(kind, _said_by(left, kind, events))
        self._changed.append((kind.NAME, row.memory_id))
        self._left[row.memory_id] = left

    # --- summaries

    def _undo(self, living: _Living) -> None:
        """Take a summary away, and bring back what it was made of, the newest first."""
        row = living.row
        kind = cast("CompactedKind", living.kind)  # it has summaries
        self._delete(kind, [kind.UNDONE(memory_id=row.memory_id)])
        if not self._command.bring_back:
            self._left_out += made_of(row.memory_id, self._command.past[row.memory_id])
            return
        for memory_id in reversed(made_of(row.memory_id, self._command.past[row.memory_id])):
            if self._find(memory_id) is None:
                self._bring_back(kind, memory_id)

    def _bring_back(self, kind: CompactedKind, memory_id: str) -> None:
        past = self._past(memory_id)
        events = kind.returning(past, self._limits)
        if events is None:
            # What it said is gone, and with it who said it; else all of it was the source's.
            if not past.events or any(isinstance(one.data, Dropped) for one in past.events):
                self._lost.append(memory_id)
            return
        if not self._fits(kind, events, None):
            self._left_out.append(memory_id)
            return
        left = provenance.of_past(memory_id, past.clean)
        self._carry_out(kind, _said_by(left, kind, events))
        self._came_back.append(memory_id)
        self._left[memory_id] = left

    # --- how

    def _past(self, memory_id: str) -> TaintedPast:
        past = self._command.past.get(memory_id, ())
        purges = purges_in(past)
        tainted = {
            one.version
            for one in past
            if self._is_of_source(one) or restates(one) or is_purged(one, purges)
        }
        return TaintedPast(memory_id, past, lambda one: one.version in tainted)

    def _is_relevant(self, recorded: Recorded[Any], purges: Sequence[Earlier]) -> bool:
        """Say whether an event has words of the source that no purge has taken out yet."""
        return self._is_of_source(recorded) and not is_purged(recorded, purges)

    def _is_of_source(self, recorded: Recorded[Any]) -> bool:
        return is_of(recorded, self._command.source, self._command.trust)

    def _find(self, memory_id: str) -> _Living | None:
        for kind in self._kinds:
            row = kind.worded(self._states[kind.NAME], memory_id)
            if row is not None:
                return _Living(kind, row)
        return None

    def _delete(self, kind: Kind, events: Sequence[Any]) -> None:
        for event in events:
            for memory_id in kind.registry.keys(event):
                self._gone[kind.NAME, memory_id] = None
        self._carry_out(kind, events)

    def _carry_out(self, kind: Kind, events: Sequence[Any]) -> None:
        self._events += events
        self._states[kind.NAME] = self._after(kind, events)

    def _after(self, kind: Kind, events: Iterable[Any]) -> Any:
        tentative = [
            Recorded("", 0, 0, self._command.now_us, "", event, 0, 0, b"") for event in events
        ]
        return kind.fold(self._states[kind.NAME], tentative)

    def _fits(self, kind: Kind, events: Sequence[Any], row: Any) -> bool:
        """Say whether no limit is passed by events that was not passed already."""
        whose = getattr(events[0] if row is None else row, "agent_id", None)
        before = kind.quotas(self._states[kind.NAME], self._limits, whose)
        after = kind.quotas(self._after(kind, events), self._limits, whose)
        return all(
            now.used <= max(now.limit, was.used) for was, now in zip(before, after, strict=True)
        )


def _said_by(origins: Origins, kind: Kind, events: Sequence[Any]) -> Sequence[Any]:
    """Return events that say a memory anew with its origins, where they have not their own."""
    if kind.NATURE.names_origins_by_text:
        return events
    return [
        msgspec.structs.replace(one, origins=origins) if hasattr(one, "origins") else one
        for one in events
    ]
