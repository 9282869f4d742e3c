"""One user's memory: every kind of it, in one stream of events, under one decider."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeAlias

import msgspec

from eventlog import Decider, Dropped, Recorded
from eventlog.core.logs import get_logger
from eventlog.core.records import AnyRecorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.origins import matches
from memory_actors.base.quota import Limits
from memory_actors.base.records import QuotaUse, Tier
from memory_actors.kinds import (
    account,
    context,
    entity,
    episodic,
    extracting,
    grants,
    long_term,
    provenance,
    review,
    short_term,
    structured,
    tombstones,
    working,
)
from memory_actors.kinds.account import Account
from memory_actors.kinds.commands import Add, Command, Condition, Delete, Outside, Restore
from memory_actors.kinds.compacting import CompactedBase, CompactedKind, Compress, Compressed
from memory_actors.kinds.context.state import ContextState
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.entity import Entities
from memory_actors.kinds.episodic.state import Episodic
from memory_actors.kinds.extracting import Extract, UndoExtraction
from memory_actors.kinds.forgetting import Forget, Forgetting
from memory_actors.kinds.grants import Grants, Wrote
from memory_actors.kinds.kind import BaseKind, Found, Kind, Part, Tally, tentative
from memory_actors.kinds.long_term import AddMemories, LongTerm, MemoryAdded
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.purging import (
    ApplyRetention,
    Purge,
    Purging,
    Retaining,
    anonymous,
    standing,
)
from memory_actors.kinds.review import MemoryHeld, Reject, Review
from memory_actors.kinds.short_term import AddMessage, ShortTerm
from memory_actors.kinds.structured import Structured
from memory_actors.kinds.tombstones import Tombstones
from memory_actors.kinds.working import Working

KINDS: tuple[Kind, ...] = (
    working.KIND, short_term.KIND, long_term.KIND, entity.KIND, episodic.KIND, structured.KIND,
    context.KIND,
)  # fmt: skip
COMPACTED: tuple[CompactedKind, ...] = tuple(
    kind for kind in KINDS if isinstance(kind, CompactedBase)
)
"""The kinds whose old memories may become summaries."""
KIND_BY_NAME: Mapping[str, Kind] = {kind.NAME: kind for kind in KINDS}
PARTS: tuple[Part[Any], ...] = (
    *KINDS, account.PART, provenance.PART, tombstones.PART, review.PART, grants.PART,
)  # fmt: skip

_logger = get_logger("memory_actors.user")


LimitsByTier = Mapping[Tier | None, Limits]
"""The limits of each tier; under None those of a user whose tier was never set."""


class UserState(msgspec.Struct, frozen=True):
    """The state of each part, by name. Shared freely: nothing in it ever changes."""

    working: Working = working.KIND.initial
    short_term: ShortTerm = short_term.KIND.initial
    long_term: LongTerm = long_term.KIND.initial
    entity: Entities = entity.KIND.initial
    episodic: Episodic = episodic.KIND.initial
    structured: Structured = structured.KIND.initial
    context: ContextState = context.KIND.initial
    account: Account = account.PART.initial
    provenance: Provenance = provenance.PART.initial
    tombstones: Tombstones = tombstones.PART.initial
    review: Review = review.PART.initial
    grants: Grants = grants.PART.initial

    @property
    def next_expiry_us(self) -> int:
        """The time before which nothing expires, and no wait for a review ends; 0: none does."""
        times_us = self.provenance.next_expiry_us, self.review.next_expiry_us
        return min(filter(None, times_us), default=0)

    def of(self, part: Part[object]) -> object:
        """Return the state of one part."""
        return getattr(self, part.NAME)

    def by_kind(self) -> dict[str, object]:
        """Return the states of the kinds by name."""
        return {kind.NAME: self.of(kind) for kind in KINDS}

    def rows(self) -> Iterator[Found]:
        """Yield every living memory, kind by kind."""
        return (Found(kind, row) for kind in KINDS for row in kind.rows(self.of(kind)))

    def find(self, memory_id: str) -> Found | None:
        """Return a living memory, or None."""
        found = (Found(kind, kind.find(self.of(kind), memory_id)) for kind in KINDS)
        return next((one for one in found if one.row is not None), None)

    def digests(self) -> set[bytes]:
        """Return the digests of the passages of living memories. Looks at all: for a thread."""
        return {passage.digest for kind, row in self.rows() for passage in kind.passages(row)}

    def at(self, now_us: int) -> "UserState":
        """Return the state as it reads at a time: without what has expired."""
        state = self
        if 0 < self.provenance.next_expiry_us <= now_us and not self.account.holds:
            gone = provenance.expired(now_us, KINDS, self.by_kind(), self.provenance)
            state = fold(self, tentative(gone, now_us))
        for kind in KINDS:
            before = state.of(kind)
            now = kind.at(before, now_us)
            if now is not before:
                state = msgspec.structs.replace(state, **{kind.NAME: now})
        return state

    def changed(self, before: "UserState") -> list[Kind]:
        """Return the kinds whose state is another one than before."""
        counts = self.review.counted is not before.review.counted
        return [
            kind
            for kind in KINDS
            if getattr(self, kind.NAME) is not getattr(before, kind.NAME)
            or (counts and kind.NATURE.is_reviewed)
        ]

    def quotas(self, kind: Kind, limits: Limits, whose: str | None) -> list[QuotaUse]:
        """Return how full each limit of a kind is, of a session or agent; pending ones count."""
        full = [*kind.quotas(self.of(kind), limits, whose)]
        if not self.review.counted:
            return full
        left = kind.quotas(self.of(kind), review.left(limits, self.review), whose)
        return [
            msgspec.structs.replace(use, used=use.used + use.limit - other.limit)
            for use, other in zip(full, left, strict=True)
        ]


_PART_OF_EVENT = {cls: part for part in PARTS for cls in part.registry.classes()}
_PART_OF_TAG = {tag: part for part in PARTS for tag in part.registry.tags()}
PART_OF_COMMAND = {cls: part for part in PARTS for cls in part.COMMANDS}


def kind_of_event(event: object) -> Kind | None:
    """Return the kind of memory that an event is about, None if it is about none."""
    return KIND_BY_NAME.get(_PART_OF_EVENT[type(event)].NAME)


def kind_of(recorded: Recorded[Event]) -> Kind | None:
    """Return the kind of the memory, pending or not, that an event is about, also a dropped one."""
    event = recorded.data
    name = event.kind if isinstance(event, MemoryHeld) else _PART_OF_TAG[recorded.tag].NAME
    return KIND_BY_NAME.get(name)


def fold(state: UserState, events: Iterable[Recorded[Event]]) -> UserState:
    """Return the state after events, those of each part at once; provenance follows all of them.

    Events whose payload is gone are skipped. No living memory depends on them: retention drops what
    was compressed later, and erasure erases everything before it, too.
    """
    whole = [recorded for recorded in events if type(recorded.data) is not Dropped]
    by_part: defaultdict[Part[Any], list[Recorded[Event]]] = defaultdict(list)
    for recorded in whole:
        by_part[_PART_OF_EVENT[type(recorded.data)]].append(recorded)
    by_part.pop(provenance.PART, None)
    changed = {
        part.NAME: part.fold(getattr(state, part.NAME), run) for part, run in by_part.items()
    }
    changed["provenance"] = provenance.follow(state.provenance, whole, _keys)
    return msgspec.structs.replace(state, **changed)


def _keys(event: object) -> Iterable[str]:
    """Return the memories that an event is about; those of no kind are about none."""
    part = _PART_OF_EVENT[type(event)]
    return part.registry.keys(event) if isinstance(part, BaseKind) else ()


def evolve(state: UserState, recorded: AnyRecorded) -> UserState:
    """Fold one event into the state of its part."""
    return fold(state, (recorded,))


class AddTurn(Command, frozen=True, kw_only=True):
    """Add a turn of a chat as a memory and as a message of its session, in one append.

    Neither is added if the memory's id was used before.
    """

    memory: AddMemories
    message: AddMessage

    @property
    def alone(self) -> bool:
        """True where the caller chose the memory's id."""
        return self.memory.alone

    @property
    def waits(self) -> bool:
        """True where its memory needs a review."""
        return self.memory.waits

    async def informed(self, state: object, outside: Outside) -> Self:
        """Return the command with what the log knows of the memory's id."""
        return msgspec.structs.replace(self, memory=await self.memory.informed(state, outside))


UNCHECKED = (AddMemories, Extract, Compress, Delete, provenance.ExpireMemories, Purge)
"""Commands whose events say nothing forgotten: `_without_forgotten` has seen to that, or they say
what living memories do."""


def user_decider(limits: LimitsByTier) -> Decider[Command, Any, UserState]:
    """Return the decider of users with these limits."""

    def decide(command: Command, state: UserState) -> Decision:
        if isinstance(command, AddTurn):
            memory = msgspec.structs.replace(command.memory, codes=command.codes)
            added = decide(memory, state)
            return [*added, *decide(command.message, state)] if added else []
        if isinstance(command, Add) and command.approves is not None:
            state.review.check([command.approves])
            ended = review.ended(state.review, [command.approves], "approved")
            command = msgspec.structs.replace(command, approves=None)
            return [*ended, *decide(command, fold(state, tentative(ended)))]
        command = _without_forgotten(command, state.tombstones)
        events = _decided(command, state, review.left(limits[state.account.tier], state.review))
        _check_forgotten(events, command, state.tombstones)
        return events

    def follow_up(before: UserState, after: UserState) -> Decision:
        mine = limits[after.account.tier]
        kinds = KINDS if after.account.tier != before.account.tier else after.changed(before)
        return [
            alert
            for kind in kinds
            for alert in account.alerts(after.account, kind.NAME, after.quotas(kind, mine, None))
        ]

    return Decider(UserState(), _for_subjects(decide), evolve, fold, follow_up)


Decide: TypeAlias = Callable[[Command, UserState], Sequence[Event]]


def _for_subjects(decide: Decide) -> Decide:
    """Return a decision that checks the grants of the subjects of a command, and notes writers."""

    def checked(command: Command, state: UserState) -> Decision:
        if not command.by:
            return decide(command, state)
        grants.check(command, state.grants)
        events, writer = decide(command, state), command.by[0]
        is_known = not events or writer in state.grants.known
        return events if is_known else [*events, Wrote(subject=writer)]

    return checked


FOLD = user_decider({tier: Limits() for tier in (None, *Tier)})
"""The decider of any user for who only folds: no limit has a say in that."""


def _decided(command: Command, state: UserState, mine: Limits) -> Decision:
    part = PART_OF_COMMAND.get(type(command))
    if part is None:
        return _of_several_kinds(command, state, mine)
    if command.condition is not None:
        _check(command.condition, KIND_BY_NAME[part.NAME], state)
    if isinstance(command, AddMemories):
        command = msgspec.structs.replace(command, origins_of=state.provenance.origins)
    own = getattr(state, part.NAME)
    events: Sequence[Event] = part.decide(command, own, mine)
    if isinstance(command, Add) and command.waits:
        kind = KIND_BY_NAME[part.NAME]
        after, before = kind.tally(kind.fold(own, tentative(events))), kind.tally(own)
        growth_bytes = max(0, after.size_bytes - before.size_bytes)
        return review.held(command, events, growth_bytes=growth_bytes)
    if isinstance(command, Add):
        same = None if events else KIND_BY_NAME[part.NAME].put_again(command, own)
        events = [*events, *provenance.lifetimes(command, events, same, state.provenance)]
    if isinstance(command, Restore):
        events = [*events, *provenance.lifetimes_again(command, events)]
        if KIND_BY_NAME[part.NAME].NATURE.names_origins_by_text:
            return events
    return [_with_origins(event, command, state) for event in events]


def _without_forgotten(command: Command, forgotten: Tombstones) -> Command:
    """Return a command of many facts without those that were forgotten, or refuse it."""
    if not forgotten.by_digest:
        return command
    if isinstance(command, Extract):
        left = _unforgotten(command.add, command.codes, forgotten)
        ids = {one.memory_id for one in left}
        proposed = tuple(
            one
            if one.memory_id is None or one.memory_id in ids or one.refused
            else msgspec.structs.replace(one, refused=tombstones.WHY)
            for one in command.proposed
        )
        add = msgspec.structs.replace(command.add, memories=left)
        return msgspec.structs.replace(command, add=add, proposed=proposed)
    if isinstance(command, AddMemories):
        if not command.skip_forgotten:
            tombstones.refuse(command.memories, command.codes, forgotten)
        left = _unforgotten(command, command.codes, forgotten)
        return msgspec.structs.replace(command, memories=left)
    return command


def _unforgotten(
    add: AddMemories, codes: Mapping[bytes, bytes] | None, forgotten: Tombstones
) -> tuple[MemoryAdded, ...]:
    found = (one for one in add.memories if tombstones.refusing(one, codes, forgotten) is None)
    return tuple(found)


def _check_forgotten(events: Iterable[Event], command: Command, forgotten: Tombstones) -> None:
    """Refuse events that say something forgotten, or restore what was taken out."""
    if isinstance(command, Restore):  # its texts have no embeddings: digests alone are compared
        tombstones.refuse(events, None, msgspec.structs.replace(forgotten, similar=()))
    elif forgotten.by_digest and not isinstance(command, UNCHECKED):
        tombstones.refuse(events, command.codes, forgotten)


_WORK: Mapping[type[Purge], type[Purging]] = {
    Purge: Purging, Forget: Forgetting, ApplyRetention: Retaining
}  # fmt: skip


def _of_several_kinds(command: Command, state: UserState, mine: Limits) -> Decision:
    if isinstance(command, Reject):
        state.review.check(command.memory_ids)
        ended = review.ended(state.review, command.memory_ids, "rejected")
        return [*ended, *tombstones.put(command, state.tombstones, mine)]
    if isinstance(command, provenance.ExpireMemories | ApplyRetention) and state.account.holds:
        return []
    if isinstance(command, Purge):
        if command.keep_words:  # of memories; what is pending goes
            kept = anonymous(command, state.provenance)
            return [*kept, *_taken_out(command, state.review)]
        work = _WORK[type(command)]
        done = work(command, KINDS, state.by_kind(), state.provenance, mine).decided()
        if isinstance(command, ApplyRetention):  # what is pending has a time of its own
            return done
        return [*done, *_taken_out(command, state.review)]
    if isinstance(command, provenance.ExpireMemories):
        now_us = command.now_us
        gone = provenance.expired(
            now_us, KINDS, state.by_kind(), state.provenance, provenance.EXPIRED_AT_ONCE
        )
        over = [one for one, held in state.review.pending.items() if held.until_us <= now_us]
        return [
            *gone,
            *review.ended(state.review, sorted(over)[: provenance.EXPIRED_AT_ONCE], "expired"),
        ]
    if isinstance(command, Extract):
        found = extracting.extract(command, state.long_term, state.provenance, mine)
        return [*found, *provenance.lifetimes(command.add, found, None, state.provenance)]
    assert isinstance(command, UndoExtraction)
    found = extracting.undo(command, state.long_term, mine)
    pending = extracting.ids_of(command.done, "pending")
    ended = review.ended(state.review, pending, "undone") if found else []
    return [*ended, *found, *provenance.lifetimes_again(command, found)]


def _taken_out(command: Purge, state: Review) -> list[Event]:
    """Return the events by which a purge takes out what is pending."""
    ids: Sequence[str] = command.memory_ids
    if not isinstance(command, Forget):
        pending = sorted(state.pending.items())
        of = command.source, command.trust
        ids = [each for each, held in pending if any(matches(one, *of) for one in held.origins)]
    ended = review.ended(state, ids, "purged")
    gone = tuple((state.pending[one].kind, one) for each in ended for one in each.memory_ids)
    said = provenance.SourcePurged(source=command.source, trust=command.trust, gone=gone)
    return [*ended, said] if ended else []


def _check(condition: Condition, kind: Kind, state: UserState) -> None:
    """Refuse a change of a memory whose metadata no longer match the condition."""
    row = kind.find(state.of(kind), condition.memory_id)
    if row is not None and not condition.matches(row.shown_metadata):
        raise NotFoundError(
            f"memory {condition.memory_id!r} does not match the filters: nothing was changed; "
            "read it again"
        )


def _with_origins(event: Any, command: Command, state: UserState) -> Any:
    """Copy origins onto an event that restores or summarises existing memories."""
    if isinstance(event, Compressed):
        origins = provenance.together(state.provenance, event.compressed_from_ids)
        agents = {state.provenance.agents.get(one) for one in event.compressed_from_ids}
        agent_id = agents.pop() if len(agents) == 1 else None
    elif isinstance(command, Restore) and hasattr(event, "origins"):
        past = command.past.get(event.memory_id, ())
        origins = provenance.of_past(event.memory_id, standing(event.memory_id, past))
        agent_id = provenance.agent_of_past(event.memory_id, past)
    else:
        return event
    if agent_id is not None and getattr(event, "agent_id", agent_id) is None:
        event = msgspec.structs.replace(event, agent_id=agent_id)
    return msgspec.structs.replace(event, origins=origins) if origins else event


# --- totals over all users

_COUNTED = tuple(one for one in Tally.__struct_fields__ if one not in {"evicted", "pruned"})


def totals(state: UserState, kinds: Iterable[Kind] = KINDS) -> dict[str, int]:
    """Return a user's share of the totals over all users, by kind and sum; pending ones count."""
    counted: dict[str, int] = {}
    for kind in kinds:
        tally: Tally = kind.tally(state.of(kind))
        counted |= {f"{kind.NAME}.{name}": getattr(tally, name) for name in _COUNTED}
    for name, much in state.review.counted.items():
        if review.TOTALS[name] in counted:
            counted[review.TOTALS[name]] += much
    return counted


def totals_changed(before: UserState, after: UserState) -> dict[str, int]:
    """Return how the totals over all users change with a user's state."""
    kinds = after.changed(before)
    old, new = totals(before, kinds), totals(after, kinds)
    return {name: much - old[name] for name, much in new.items() if much != old[name]}


def touched(events: Sequence[Recorded[object]]) -> list[tuple[Kind, str]]:
    """Return the memories that events are about, each once."""
    touched: dict[tuple[str, str], Kind] = {}
    for recorded in events:
        kind = kind_of_event(recorded.data)
        if kind is not None:
            for memory_id in kind.registry.keys(recorded.data):
                touched[kind.NAME, memory_id] = kind
    return [(kind, memory_id) for (_, memory_id), kind in touched.items()]
