"""Sources, agent and lifetime of each memory: a part of the state that follows all events.

A memory has the origins of everything said in it since it began, or began anew with a value put
over it. They are in the meta of its events; restored memories and summaries name them in the event,
because the caller who makes one is not its source.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from heapq import nsmallest
from typing import ClassVar, TypeVar

import msgspec
from immutables import Map, MapMutation
from msgspec.structs import astuple

from eventlog import Dropped, EventRegistry, Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.origins import Origins, decoded, merged, origins_of
from memory_actors.base.records import UNSAID, Trust
from memory_actors.kinds.commands import Add, Command, Restore
from memory_actors.kinds.effects import BEGINS, ENDS, Effect, Event, effect, says
from memory_actors.kinds.kind import Kind, Part, tentative
from memory_actors.kinds.long_term.state import MemorySeen

EXPIRED_AT_ONCE = 500  # memories of one decision: it holds the loop for some milliseconds
V = TypeVar("V")

registry = EventRegistry()

# --- events


@registry.event("provenance.purged")
class SourcePurged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The words of a source, or a fact, were taken out; the events before this one did that."""

    source: str | None = None
    trust: Trust | None = None
    gone: tuple[tuple[str, str], ...] = ()
    """Kind and id of what went."""
    changed: tuple[tuple[str, str], ...] = ()
    """Kind and id of memories that now say what others have said."""
    came_back: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    left: dict[str, Origins] = {}
    """Origins, from now on, of what changed or came back."""
    kept: tuple[tuple[str, str], ...] = ()
    """Kind and id of memories that say a fact that was forgotten, and more."""


EXTRACTIONS = "extractions"
"""The key under which the log finds every extraction of a user."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one proposal of an extractor."""

    action: str
    """add, supersede or forget; or read, of a message of which nothing sensible was said."""
    came: str
    """added, pending (it waits for a review), known (it was there in the same words), forgotten, or
    refused."""
    memory_id: str | None = None
    """The fact that was added, known or forgotten; None: it was refused."""
    digest: bytes = b""
    """Digest of the text of a fact that was added, or known."""
    replaces: str | None = None
    """The older fact that holds no more because of it."""
    message_ids: tuple[str, ...] = ()
    """The messages it came from."""
    reason: str = ""
    """The extractor's reason, or why it was refused."""


@registry.event("provenance.extracted", keys=lambda event: (event.extraction_id, EXTRACTIONS))
class Extracted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An extractor has read messages; the events before this one carried out what it proposed."""

    extraction_id: str
    extractor: str
    message_ids: tuple[str, ...]
    """The messages that it has read: they are not extracted again."""
    outcomes: tuple[Outcome, ...] = ()


@registry.event("provenance.extraction_undone", keys=lambda event: (event.extraction_id,))
class ExtractionUndone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An extraction was undone; the events before this one did that."""

    extraction_id: str
    gone: tuple[str, ...] = ()
    """Facts that it had added."""
    came_back: tuple[str, ...] = ()
    """Facts that it had forgotten."""
    reinstated: tuple[str, ...] = ()
    """Facts that hold again, though the one that spoke against them stays."""
    left: tuple[str, ...] = ()
    """Facts that it had added and somebody has reworded since: they stay."""
    lost: tuple[str, ...] = ()
    """Facts that it had forgotten, and retention has dropped."""


@registry.event("provenance.lifetime_set", keys=lambda event: (event.memory_id,))
class LifetimeSet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory is to expire at a time, or no longer is."""

    memory_id: str
    expires_at_us: int | None = None


# --- state


class Provenance(msgspec.Struct, frozen=True):
    """Origins, agents and lifetimes of living memories."""

    origins: Map[str, Origins] = Map()
    """Origins of memories, except `UNSAID`."""
    agents: Map[str, str] = Map()
    """The agents that wrote them, where one did."""
    expires: Map[str, int] = Map()
    """The times at which they expire, in microseconds."""
    next_expiry_us: int = 0
    """No memory expires before this; 0 when none does."""

    def of(self, memory_id: str) -> Origins:
        """Return the origins of a living memory; () if nobody said."""
        return self.origins.get(memory_id, ())

    def matching(self, wanted: Callable[[Origins], bool]) -> frozenset[str]:
        """Return the memories with origins of which something is true."""
        return frozenset(one for one, origins in self.origins.items() if wanted(origins))


# --- evolve


def follow(
    state: Provenance, events: Iterable[Recorded[Event]], keys: Callable[[object], Iterable[str]]
) -> Provenance:
    """Fold events of all parts, in order; `keys` gives the memories that one is about."""
    draft, agents = state.origins.mutate(), state.agents.mutate()
    expires = state.expires.mutate()
    moved = False
    for recorded in events:
        event = recorded.data
        if not (draft or agents or expires or _may_tell(type(event), recorded.raw_meta)):
            continue  # as with most events: a replay is a tenth faster
        said, agent = origins_of(recorded), agent_of(recorded)
        if type(event) is SourcePurged:
            for memory_id, origins in event.left.items():
                _put(draft, memory_id, origins)
        elif type(event) is LifetimeSet:
            moved = True
            _set(expires, event.memory_id, event.expires_at_us)
        else:
            for memory_id in keys(event):
                what = effect(recorded.tag, event, memory_id)
                _evolve(draft, memory_id, recorded, said, what)
                if what in BEGINS or what in ENDS:
                    _set(agents, memory_id, agent if what in BEGINS else None)
                if what in ENDS and memory_id in expires:
                    moved = True
                    del expires[memory_id]
    after = expires.finish()
    soonest_us = min(after.values(), default=0) if moved else state.next_expiry_us
    return Provenance(draft.finish(), agents.finish(), after, soonest_us)


@lru_cache(maxsize=4096)
def _may_tell(event_type: type, raw_meta: bytes) -> bool:
    """Say whether an event of a type, with a meta, may name sources, an agent or a lifetime."""
    told = event_type in (SourcePurged, LifetimeSet) or hasattr(event_type, "origins")
    return told or _names_agent(event_type) or b"trust" in raw_meta or b"agent_id" in raw_meta


def agent_of(recorded: AnyRecorded) -> str | None:
    """Return the agent whose words an event has, if one spoke: the event's, or the caller."""
    if _names_agent(recorded.data.__class__):
        named: str | None = recorded.data.agent_id
        return named
    raw = recorded.raw_meta
    return decoded(raw).get("agent_id") if b"agent_id" in raw else None


@cache
def _names_agent(event_type: type) -> bool:
    return hasattr(event_type, "agent_id")


def _evolve(
    draft: MapMutation[str, Origins],
    memory_id: str,
    recorded: Recorded[Event],
    said: Origins,
    what: Effect,
) -> None:
    if what in BEGINS:
        _put(draft, memory_id, said)
    elif what in ENDS:
        draft.pop(memory_id, None)
    elif (said or memory_id in draft) and says(recorded.data, memory_id):
        before = draft.get(memory_id, (UNSAID,))
        _put(draft, memory_id, merged((*before, *(said or (UNSAID,)))))


def _put(draft: MapMutation[str, Origins], memory_id: str, origins: Origins) -> None:
    _set(draft, memory_id, None if origins == (UNSAID,) else origins)


def _set(draft: MapMutation[str, V], memory_id: str, value: V | None) -> None:
    if value:
        draft[memory_id] = value
    else:
        draft.pop(memory_id, None)


def of_past(memory_id: str, past: Sequence[Recorded[Event]]) -> Origins:
    """Return the origins that a memory has after these events, whether or not it lives."""
    origins: Origins = ()
    for recorded in past:
        if isinstance(recorded.data, Dropped):
            continue
        said = origins_of(recorded) or (UNSAID,)
        what = effect(recorded.tag, recorded.data, memory_id)
        if what in BEGINS:
            origins = said
        elif what not in ENDS and says(recorded.data, memory_id):
            origins = merged((*origins, *said))
    return () if origins == (UNSAID,) else origins


def agent_of_past(memory_id: str, past: Sequence[Recorded[Event]]) -> str | None:
    """Return the agent that began the last life of a memory, as far as the log has it."""
    told = [one for one in past if not isinstance(one.data, Dropped)]
    began = [one for one in told if effect(one.tag, one.data, memory_id) in BEGINS]
    return agent_of(began[-1]) if began else None


def together(state: Provenance, memory_ids: Iterable[str]) -> Origins:
    """Return the origins of what is made of memories; () if all are unsaid."""
    origins = merged(one for each in memory_ids for one in state.of(each) or (UNSAID,))
    return () if origins == (UNSAID,) else origins


# --- the part. No command is decided here alone: see purging.py and extracting.py.


class ProvenanceDump(msgspec.Struct, frozen=True):
    """The state by memory, in the order of the ids."""

    origins: dict[str, Origins] = {}
    agents: dict[str, str] = {}
    expires: dict[str, int] = {}


class ProvenancePart(Part[Provenance]):
    """The origins of a user's memories."""

    NAME = "provenance"
    registry = registry
    Dump = ProvenanceDump
    initial = Provenance()

    def fold(self, state: Provenance, events: Iterable[Recorded[Event]]) -> Provenance:
        """Fold the events of this part. Events of extractions change nothing."""
        return follow(state, events, lambda _event: ())

    def dump(self, state: Provenance) -> ProvenanceDump:
        """Return the state as plain data."""
        origins, agents = dict(sorted(state.origins.items())), dict(sorted(state.agents.items()))
        return ProvenanceDump(origins, agents, dict(sorted(state.expires.items())))

    def load(self, dumped: ProvenanceDump) -> Provenance:
        """Return the state back."""
        origins, agents, expires = map(Map, astuple(dumped))
        return Provenance(origins, agents, expires, min(expires.values(), default=0))


PART = ProvenancePart()

# --- lifetimes
#
# The time at which a memory expires comes from the time in the command that adds it, and stands in
# an event. The first command or read after that time deletes it by its kind's own events, which
# name it, so a replay takes no decision again. Until then reads leave it out (`UserState.at`).


class ExpireMemories(Command, frozen=True, kw_only=True):
    """Delete the memories whose time is over."""

    frees: ClassVar[bool] = True

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the meta of its events: the cause."""
        return {"command": type(self).__name__, "cause": "ttl"}


def lifetimes(
    command: Add, events: Sequence[Event], unchanged: str | None, state: Provenance
) -> list[LifetimeSet]:
    """Return when the memories expire that an add is about; `unchanged` is the one it left alone.

    A fact that is said again lives as long as the longer of the two. A value that replaces another
    has the lifetime of its own add.
    """
    if command.expires_at_us is None and not state.expires:
        return []
    about = {} if unchanged is None else {unchanged: command.expires_at_us}
    own = getattr(command, "memory_id", None)  # of an entry: others may be archived for it
    for event in events:
        memory_id = getattr(event, "memory_id", None)
        is_heading = getattr(event, "heading", None) is not None
        if memory_id is None or memory_id != (own or memory_id) or is_heading:
            continue
        if says(event, memory_id) and effect("", event, memory_id) not in ENDS:
            known_us = about.get(memory_id, state.expires.get(memory_id))
            about[memory_id] = command.expires_at_us
            if isinstance(event, MemorySeen) and command.expires_at_us is not None:
                about[memory_id] = known_us and max(known_us, command.expires_at_us)
    return [
        LifetimeSet(memory_id=memory_id, expires_at_us=at_us)
        for memory_id, at_us in about.items()
        if state.expires.get(memory_id) != at_us
    ]


def lifetimes_again(command: Restore, events: Iterable[object]) -> list[LifetimeSet]:
    """Return when the memories expire that come back: when they did before they went.

    One whose time is over by now lives as long again as it was to live.
    """
    named = [(one, getattr(one, "memory_id", "")) for one in events]
    back = [memory_id for one, memory_id in named if effect("", one, memory_id) in BEGINS]
    found = [(one, _last_lifetime(one, command.past.get(one, ()))) for one in back]
    return [
        LifetimeSet(
            memory_id=memory_id,
            expires_at_us=at_us if at_us > command.now_us else command.now_us + length_us,
        )
        for memory_id, (at_us, length_us) in found
        if at_us
    ]


def _last_lifetime(memory_id: str, past: Iterable[Recorded[Event]]) -> tuple[int, int]:
    """Return the expiry that a memory had as it went last, and how long it was to live; or 0."""
    set_to = ended = (0, 0)
    for recorded in past:
        event = recorded.data
        if type(event) is LifetimeSet:
            at_us = event.expires_at_us or 0
            set_to = at_us, max(at_us - recorded.recorded_at_us, 1)
        elif effect(recorded.tag, event, memory_id) in ENDS:
            set_to, ended = (0, 0), set_to
    return ended


def expired(
    now_us: int,
    kinds: Sequence[Kind],
    states: Mapping[str, object],
    state: Provenance,
    count: int | None = None,
) -> list[Event]:
    """Return the events that delete what has expired, soonest first; `count` at most."""
    due = [(at_us, one) for one, at_us in state.expires.items() if at_us <= now_us]
    states, events = dict(states), list[Event]()
    for _, memory_id in sorted(due) if count is None else nsmallest(count, due):
        for kind in kinds:
            row = kind.find(states[kind.NAME], memory_id)
            if row is not None:  # a relationship may have gone with its entity
                gone = kind.deleted(row, states[kind.NAME])
                states[kind.NAME] = kind.fold(states[kind.NAME], tentative(gone, now_us))
                events += gone
                break
    return events
