"""Purges: the words of a source are taken out of a user's memory, over all kinds, in one append.

Each memory becomes what it would be had the source not spoken: its life is told again from the log
without the source's events. A memory with no other source is deleted. A summary that has an
original of the source goes; its other originals come back if there is room.

The next purge skips the words that this one took out, and those that it restated. Only a whole
memory said anew counts: it names its origins, and retention may have dropped what came before.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Self, TypeAlias, cast

from msgspec.structs import replace

from eventlog import Dropped, Recorded
from eventlog.core.records import DAY_US
from memory_actors.base.origins import Origins, matches, origins_of
from memory_actors.base.quota import Limits
from memory_actors.base.records import UNSAID, Right, Trust
from memory_actors.base.settings import RetentionRule
from memory_actors.kinds import provenance
from memory_actors.kinds.commands import Command, Outside
from memory_actors.kinds.compacting import CompactedKind
from memory_actors.kinds.effects import ENDS, Decision, Event, effect, says
from memory_actors.kinds.entity.graph import RelationshipRow
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.past import TaintedPast
from memory_actors.kinds.provenance import Provenance, SourcePurged
from memory_actors.kinds.rows import Row, is_summary

PURGED_AT_ONCE = 100  # memories of one decision: it holds the loop for some 8 ms
_PURGED_SOURCE, _PURGED_TRUST = "purged_source", "purged_trust"

# --- the command


class Purge(Command, frozen=True, kw_only=True):
    """Remove the words of a source, or of a trust level, from memories."""

    frees: ClassVar[bool] = True
    needs: ClassVar[Right] = Right.MANAGE
    memory_ids: tuple[str, ...]
    """The memories that it may have had a say in."""
    source: str | None = None
    trust: Trust | None = None
    bring_back: bool = True
    """True: the other originals of summaries that go come back."""
    keep_words: bool = False
    """True: the words stay, and the source is no longer among the origins of the memories."""
    past: Mapping[str, Sequence[Recorded[Event]]] = {}
    """Every event about each of them, and about the originals of summaries among them."""

    async def informed(self, _state: object, outside: Outside) -> Self:
        """Return the command with the past of its memories, and of the originals of summaries."""
        if self.keep_words:
            return self
        past = dict(await outside.events_about(self.memory_ids))
        originals = {one for memory_id in past for one in made_of(memory_id, past[memory_id])}
        past |= await outside.events_about(sorted(originals - past.keys()))
        return replace(self, past=past)

    @property
    def alone(self) -> bool:
        """True: what it takes out is in the log."""
        return True

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the meta of its events: for those who ask why, and for the next purge."""
        if self.keep_words:
            return {}
        what = self.source or f"{self.trust} sources"
        asked = {_PURGED_SOURCE: self.source, _PURGED_TRUST: self.trust and self.trust.value}
        said = {name: value for name, value in asked.items() if value is not None}
        return {**said, "purged": what, "cause": f"purge of {what}"}


def made_of(memory_id: str, past: Sequence[Recorded[Event]]) -> tuple[str, ...]:
    """Return the ids of what a summary was made of; () if it is none."""
    own = [one.data for one in past if getattr(one.data, "memory_id", None) == memory_id]
    found: list[tuple[str, ...]] = [getattr(event, "compressed_from_ids", ()) for event in own]
    return next((ids for ids in reversed(found) if ids), ())


# --- events of a source, and what earlier purges have made of them


_Earlier: TypeAlias = tuple[int, str | None, Trust | None]
"""The version, the source and the trust of a purge."""


def _purges_in(past: Sequence[Recorded[Event]]) -> list[_Earlier]:
    purges: list[_Earlier] = []
    for one in filter(_is_by_a_purge, past):
        trust = one.meta.get(_PURGED_TRUST)
        purges.append((one.version, one.meta.get(_PURGED_SOURCE), Trust(trust) if trust else None))
    return purges


def _is_by_a_purge(recorded: Recorded[Event]) -> bool:
    return b"purged" in recorded.raw_meta and "purged" in recorded.meta  # cheap where it is not


def _is_of(recorded: Recorded[Event], source: str | None, trust: Trust | None) -> bool:
    """Say whether an event has, or may have, words of a source and trust; None is any."""
    return any(matches(one, source, trust) for one in origins_of(recorded))


def _is_purged(recorded: Recorded[Event], purges: Sequence[_Earlier]) -> bool:
    """Say whether one of these purges has taken out the words of an event."""
    return any(
        recorded.version < version and _is_of(recorded, source, trust)
        for version, source, trust in purges
    )


def standing(memory_id: str, past: Sequence[Recorded[Event]]) -> list[Recorded[Event]]:
    """Return the events that a memory which comes back has its words from.

    The result leaves out words that purges removed, and events that purges wrote. One that a purge
    has ended comes back with all its words.
    """
    lived = [one for one in past if effect(one.tag, one.data, memory_id) not in ENDS]
    purges = _purges_in(lived)
    return [one for one in past if not (_restates(one) or _is_purged(one, purges))]


def _restates(recorded: Recorded[Event]) -> bool:
    """Say whether an event is of a purge, and says again what others had said."""
    return _is_by_a_purge(recorded) and not hasattr(recorded.data, "origins")


# --- decide


def anonymous(command: Purge, state: Provenance) -> Decision:
    """Take a source out of the origins of memories, and leave what they say."""
    left = {
        memory_id: tuple(one for one in state.of(memory_id) if one.source != command.source)
        for memory_id in command.memory_ids
    }
    changed = {
        one: origins or (UNSAID,) for one, origins in left.items() if origins != state.of(one)
    }
    return [SourcePurged(left=changed)] if changed else []


class Purging:
    """A purge under way: it holds the changing states, of the kinds by name, and the results."""

    def __init__(
        self,
        command: Purge,
        kinds: Sequence[Kind],
        states: dict[str, Any],
        before: Provenance,
        limits: Limits,
    ):
        self._command = command
        self._kinds = kinds
        self._states = states
        self._provenance = before
        self._limits = limits
        self._events: list[Event] = []
        self._told: defaultdict[str, list[Any]] = defaultdict(list)
        """Results by field of `SourcePurged`: ids of memories, with their kinds or alone."""
        self._left: dict[str, Origins] = {}

    def decided(self) -> Decision:
        """Take the words out of the memories, and return the events; none if nothing has them."""
        living = filter(None, map(self._find, self._command.memory_ids))
        # Relationships before the entities that they join.
        for one in sorted(living, key=lambda one: not isinstance(one.row, RelationshipRow)):
            if self._find(one.row.memory_id) is not None:  # else it went with an entity
                self.take_out(one)
        if not (self._events or self._told["kept"]):
            return []
        told = {name: tuple(dict.fromkeys(ids)) for name, ids in self._told.items()}
        asked = self._command
        said = SourcePurged(source=asked.source, trust=asked.trust, left=self._left, **told)
        return [*self._events, said]

    def take_out(self, living: Found) -> None:
        """Take the source's words out of one memory."""
        kind, row = living
        past = self._past(row.memory_id)
        earlier = _purges_in(past.events)  # which have taken out what came before them
        if not any(self._is_of_source(one) and not _is_purged(one, earlier) for one in past.events):
            return
        if is_summary(row):
            self._undo(living)
            return
        left = provenance.of_past(row.memory_id, past.clean)
        events = kind.without(past, row, self._states[kind.NAME], self._limits)
        if events is None or not self._fits(kind, events, row):
            self._remove(living)
            return
        self._carry_out(kind, _said_by(left, kind, events))
        self._told["changed"].append((kind.NAME, row.memory_id))
        self._left[row.memory_id] = left

    # --- summaries

    def _undo(self, living: Found) -> None:
        """Take a summary away, and bring back what it was made of, the newest first."""
        row = living.row
        kind = cast("CompactedKind", living.kind)  # it has summaries
        self._delete(kind, [kind.UNDONE(memory_id=row.memory_id)])
        originals = made_of(row.memory_id, self._command.past[row.memory_id])
        if not self._command.bring_back:
            self._told["left_out"] += originals
            return
        for memory_id in reversed(originals):
            if self._find(memory_id) is None:
                self._bring_back(kind, memory_id)

    def _bring_back(self, kind: CompactedKind, memory_id: str) -> None:
        past = self._past(memory_id)
        events = kind.told_again(past, self._limits)
        if events is None:
            # Its text is lost, and so is its source; else all of it was the source's.
            if not past.events or any(isinstance(one.data, Dropped) for one in past.events):
                self._told["lost"].append(memory_id)
            return
        if not self._fits(kind, events, None):
            self._told["left_out"].append(memory_id)
            return
        left = provenance.of_past(memory_id, past.clean)
        self._carry_out(kind, _said_by(left, kind, events))
        self._told["came_back"].append(memory_id)
        self._left[memory_id] = left

    # --- how

    def _past(self, memory_id: str) -> TaintedPast:
        past = self._command.past.get(memory_id, ())
        purges = _purges_in(past)
        tainted = {
            one.version
            for one in past
            if self._is_of_source(one) or _restates(one) or _is_purged(one, purges)
        }
        return TaintedPast(memory_id, past, lambda one: one.version in tainted)

    def _is_of_source(self, recorded: Recorded[Event]) -> bool:
        return _is_of(recorded, self._command.source, self._command.trust)

    def _find(self, memory_id: str) -> Found | None:
        for kind in self._kinds:
            row = kind.worded(self._states[kind.NAME], memory_id)
            if row is not None:
                return Found(kind, row)
        return None

    def _remove(self, living: Found) -> None:
        kind, row = living
        self._delete(kind, kind.deleted(row, self._states[kind.NAME]))

    def _delete(self, kind: Kind, events: Sequence[Event]) -> None:
        ids = (memory_id for event in events for memory_id in kind.registry.keys(event))
        self._told["gone"] += ((kind.NAME, memory_id) for memory_id in ids)
        self._carry_out(kind, events)

    def _carry_out(self, kind: Kind, events: Sequence[Event]) -> None:
        self._events += events
        self._states[kind.NAME] = self._after(kind, events)

    def _after(self, kind: Kind, events: Sequence[Event]) -> object:
        return kind.after(self._states[kind.NAME], events, self._command.now_us)

    def _fits(self, kind: Kind, events: Sequence[Event], row: object) -> bool:
        """Say whether no limit is passed by events that was not passed already."""
        whose = getattr(events[0] if row is None else row, "agent_id", None)
        before = kind.quotas(self._states[kind.NAME], self._limits, whose)
        after = kind.quotas(self._after(kind, events), self._limits, whose)
        return all(
            now.used <= max(now.limit, was.used) for was, now in zip(before, after, strict=True)
        )


def _said_by(origins: Origins, kind: Kind, events: Sequence[Event]) -> Decision:
    """Return events that say a memory anew with its origins, where they have not their own."""
    if kind.NATURE.names_origins_by_text:
        return events
    return [replace(one, origins=origins) if hasattr(one, "origins") else one for one in events]


# --- retention rules: the command carries the rule, the old memories, and their past


class ApplyRetention(Purge, frozen=True, kw_only=True):
    """Delete those of some memories that a rule matches, and that nobody has written since."""

    rule: RetentionRule

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the meta of its events: the cause is the rule."""
        rule = self.rule
        told = [one for one in (rule.memory_type, rule.source, f"{rule.days:g} days") if one]
        return {"command": type(self).__name__, "cause": f"retention: {', '.join(told)}"}

    def matches(self, kind: Kind, row: Row, state: Provenance) -> bool:
        """Say whether the rule no longer allows a memory; without its past, whether it may not."""
        rule, origins = self.rule, state.of(row.memory_id)
        if rule.memory_type not in (None, kind.NAME):
            return False
        if _written_us(row, self.past) >= self.now_us - int(rule.days * DAY_US):
            return False
        return rule.source is None or (
            bool(origins) and all(fnmatchcase(one.source or "", rule.source) for one in origins)
        )


def applied(
    rules: Iterable[RetentionRule], user_id: str, kinds: Sequence[Kind], state: Any, now_us: int
) -> list[ApplyRetention]:
    """Return the commands that apply rules to a user. Looks at every memory: for a thread."""
    commands = list[ApplyRetention]()
    for rule in rules:
        if not fnmatchcase(user_id, rule.user_id or "*"):
            continue
        command = ApplyRetention(now_us=now_us, rule=rule, memory_ids=())
        old = [
            row.memory_id
            for kind in kinds
            for row in kind.rows(state.of(kind))
            if command.matches(kind, row, state.provenance)
        ]
        for start in range(0, len(old), PURGED_AT_ONCE):
            ids = tuple(old[start : start + PURGED_AT_ONCE])
            commands.append(replace(command, memory_ids=ids))
    return commands


class Retaining(Purging):
    """The work of an `ApplyRetention`."""

    _command: ApplyRetention

    def take_out(self, living: Found) -> None:
        """Delete a memory that the rule no longer allows."""
        if self._command.matches(*living, self._provenance):
            self._remove(living)


def _written_us(row: Row, past: Mapping[str, Sequence[Recorded[Event]]]) -> int:
    """Return when a memory was last written or said again; without its past, no later time.

    A summary is as old as the newest words that it was made of.
    """
    about: Iterable[str] = (row.memory_id,)
    if is_summary(row):
        if not past:
            return 0
        about = made_of(row.memory_id, past.get(row.memory_id, ()))
    written = [
        one.recorded_at_us
        for each in about
        for one in past.get(each, ())
        if isinstance(one.data, Dropped) or says(one.data, each)
        if effect(one.tag, one.data, each) not in ENDS
    ]
    return max(written, default=row.created_at_us)
