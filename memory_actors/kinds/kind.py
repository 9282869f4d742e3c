"""What a kind of memory is made of.

Each kind is one file, in one order: events, state, evolve, commands, decide, and a `Kind` at the
end that hands the parts to `user.py`, where all kinds of one user become one stream. To change what
a kind means, change its file.

The rules every kind keeps:

- `decide` is pure. The time, ids and, for an eviction, the order of last use arrive in the command.
- An event names its victims: what is evicted, pruned or expired is listed, so that a replay repeats
  the decision and does not take it again.
- A refused command raises; a satisfied one returns no events.
- Texts stay in the log. A row of a state holds the version of the event that has its text.
- Rows and events are trees of JSON, so they tell the garbage collector to pass them by (gc=False).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import msgspec

from eventlog import EventRegistry
from memory_actors.quota import Limits
from memory_actors.records import KindUsage


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change a user's memory. `now_us` is the only clock a decision knows."""

    now_us: int


@dataclass(frozen=True, slots=True)
class Kind:
    """The parts of one kind of memory."""

    name: str
    registry: EventRegistry
    initial: Any
    evolve: Callable[[Any, Any], Any]
    """(state, recorded event) -> state; total over the kind's events."""
    commands: tuple[type[Command], ...]
    decide: Callable[[Any, Any, Limits], Sequence[Any]]
    """(command, state, limits) -> events."""
    dump: Callable[[Any], msgspec.Struct]
    """The state as plain rows, in an order that depends on the events alone: a snapshot."""
    load: Callable[[Any], Any]
    """The state back from a dump."""
    dumped: type[msgspec.Struct]
    usage: Callable[[Any, Limits, int], KindUsage]
    """(state, limits, now_us) -> usage."""
    find: Callable[[Any, str, int], Any | None]
    """(state, memory id, now_us) -> its row, if it lives."""
    fold: Callable[[Any, Iterable[Any]], Any] | None = None
    """(state, recorded events) -> state, where many at once are cheaper than one after another."""

    def folded(self, state: Any, events: Iterable[Any]) -> Any:
        """Return the state after events of this kind."""
        return self.fold(state, events) if self.fold else reduce(self.evolve, events, state)


def same_json(one: Any, other: Any) -> bool:
    """Say whether two JSON values are the same; Python says that of True and 1, and JSON not."""
    return bool(one == other) and msgspec.json.encode(one) == msgspec.json.encode(other)
