"""Lifetimes: memories that are added with a time to live, and leave when it is over.

The time at which a memory expires comes from the time in the command that adds it, and stands in an
event. The first command or read after that time deletes it by its kind's own events, which name it,
so a replay takes no decision again. Until then reads leave it out (`UserState.at`).
"""

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import Any, ClassVar

from memory_actors.base.origins import Origins
from memory_actors.kinds.commands import Add, Command
from memory_actors.kinds.effects import ENDS, Event, effect, says
from memory_actors.kinds.kind import Kind, tentative
from memory_actors.kinds.long_term.events import MemorySeen
from memory_actors.kinds.provenance import LifetimeSet, Provenance

EXPIRED_AT_ONCE = 500  # memories of one decision: it holds the loop for some milliseconds


class ExpireMemories(Command, frozen=True, kw_only=True):
    """Delete the memories whose time is over."""

    frees: ClassVar[bool] = True

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the meta of its events: the cause."""
        return {"command": type(self).__name__, "cause": "ttl"}


def lifetimes(
    command: Add, events: Sequence[Event], unchanged: str | None, provenance: Provenance
) -> list[LifetimeSet]:
    """Return when the memories expire that an add is about; `unchanged` is the one it left alone.

    A fact that is said again lives as long as the longer of the two. A value that replaces another
    has the lifetime of its own add.
    """
    about = {} if unchanged is None else {unchanged: command.expires_at_us}
    own = getattr(command, "memory_id", None)  # of an entry: others may be archived for it
    for event in events:
        memory_id = getattr(event, "memory_id", None)
        is_heading = getattr(event, "heading", None) is not None
        if memory_id is None or memory_id != (own or memory_id) or is_heading:
            continue
        if says(event, memory_id) and effect("", event, memory_id) not in ENDS:
            known_us = about.get(memory_id, provenance.expires.get(memory_id))
            about[memory_id] = command.expires_at_us
            if isinstance(event, MemorySeen) and command.expires_at_us is not None:
                about[memory_id] = known_us and max(known_us, command.expires_at_us)
    return [
        LifetimeSet(memory_id=memory_id, expires_at_us=at_us)
        for memory_id, at_us in about.items()
        if provenance.expires.get(memory_id) != at_us
    ]


def expired(
    now_us: int,
    kinds: Sequence[Kind],
    states: Mapping[str, Any],
    provenance: Provenance,
    count: int | None = None,
) -> list[Event]:
    """Return the events that delete what has expired, soonest first; `count` at most."""
    due = [(at_us, one) for one, at_us in provenance.expires.items() if at_us <= now_us]
    states, events = dict(states), list[Event]()
    for _, memory_id in sorted(due) if count is None else nsmallest(count, due):
        gone: Sequence[Event] = ()
        for kind in kinds:
            row = kind.find(states[kind.NAME], memory_id)
            if row is not None:
                gone = kind.deleted(row, states[kind.NAME])
                states[kind.NAME] = kind.fold(states[kind.NAME], tentative(gone, now_us))
                break
        events += gone or [LifetimeSet(memory_id=memory_id)]  # it went with another one
    return events
