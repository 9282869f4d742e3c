"""Grants: who may read, write and manage a scope, a part of the state of each user.

A scope is a stream as a user is: `memory.user("project:x")`. It may be a project, a team, an agent.

Who speaks. A call speaks for a subject, "person:ada", "agent:planner" or "key:1f0c…" (an API key by
its id), if its handle says so: `memory.user("project:x", by="ada")`; a name alone is a person. A
call whose handle says nothing is the embedding process's own, and is not checked. A key of a server
speaks for itself and for its user. An `agent_id` is a label that anybody may write on a call, so it
opens nothing.

The rule is `Grants.right_of`:

- a person may do everything in the scope of their own name;
- a scope that never had a grant is open to every person and agent, and to no key;
- once it had one, a subject may do what its grant says. Revoking the last grant opens nothing.

`write` includes `read`, and `manage` both, as well as grants themselves and the tier.

Where it is checked. Every operation on a user's memory passes `users/handles/scope.py`: a read as
it takes the state, a write once more as it is decided, in the order of the stream. Both ask the
newest state of the only actor of the scope, so that a revoked grant ends at the next read at every
door: this process, its clients, HTTP, MCP, other nodes.

A memory that is written in the scope of somebody else has the subject among its origins, like a
source (`provenance.py`). A hit names it, `sources=["person:ada"]` finds it, and a purge removes it.
`Wrote` says once that a subject without a grant has written. The log finds these events by the
subject, so that erasing a person visits only scopes that know them (`upkeep/erasing.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import ClassVar, TypeAlias

import msgspec

from eventlog import EventRegistry, Recorded
from memory_actors.base.errors import AccessDeniedError, InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Right
from memory_actors.kinds.commands import Command
from memory_actors.kinds.kind import Decide, Part

GRANTS_MAX = 1_000  # of a scope: the state of each live user holds them, some 200 bytes each
KEY = "key:"

registry = EventRegistry()

# --- events


@registry.event("grants.set", keys=lambda event: (event.subject,))
class RightSet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subject has a right from now on, and no other; None: it has none any more."""

    subject: str
    right: Right | None = None


@registry.event("grants.wrote", keys=lambda event: (event.subject,))
class Wrote(msgspec.Struct, frozen=True, kw_only=True):
    """A subject that never had a right of its own has written here for the first time."""

    subject: str


Event: TypeAlias = RightSet | Wrote

# --- state


class Grants(msgspec.Struct, frozen=True):
    """The rights of subjects."""

    known: dict[str, Right | None] = {}
    """The subjects that had a right or have written, in order, and the right that each has now."""
    governed: bool = False
    """True once there was a grant."""

    @property
    def rights(self) -> dict[str, Right]:
        """The rights in the order of the subjects."""
        return {one: right for one, right in self.known.items() if right is not None}

    def right_of(self, by: Sequence[str]) -> Right | None:
        """Return the right of a call that speaks for these subjects; () is the process itself."""
        if not by:
            return Right.MANAGE
        if not self.governed:
            return None if any(one.startswith(KEY) for one in by) else Right.MANAGE
        found = [right for one in by if (right := self.known.get(one)) is not None]
        return max(found, default=None, key=_rank)

    def allow(self, by: Sequence[str], right: Right) -> bool:
        """Say whether a call that speaks for these subjects has a right."""
        has = self.right_of(by)
        return has is not None and _rank(has) >= _rank(right)


_rank = tuple(Right).index


def denied(by: Sequence[str], right: Right, where: str = "this scope") -> AccessDeniedError:
    """Return the refusal of a call: it says nothing about the scope."""
    return AccessDeniedError(f"{by[0]} may not {right} {where}: ask who manages it for a grant")


# --- evolve


def evolve(state: Grants, recorded: Recorded[Event]) -> Grants:
    """Fold one event into the state."""
    event = recorded.data
    if isinstance(event, Wrote):
        known = {event.subject: None, **state.known}
    else:
        known = {**state.known, event.subject: event.right}
    return Grants(dict(sorted(known.items())), state.governed or isinstance(event, RightSet))


# --- command and decision


class SetRight(Command, frozen=True, kw_only=True):
    """Give a subject a right, in place of the one that it had; None takes that."""

    needs: ClassVar[Right] = Right.MANAGE
    frees: ClassVar[bool] = True
    subject: str
    right: Right | None = None


def decide(command: SetRight, state: Grants, _limits: Limits) -> Sequence[Event]:
    """Turn a command into events."""
    has = state.known.get(command.subject)
    if command.right is None and has is None:
        raise NotFoundError(f"{command.subject!r} has no grant here: `grants()` lists those who do")
    if has is None and len(state.rights) >= GRANTS_MAX:
        raise InvalidInputError(f"this scope has {GRANTS_MAX:,} grants already: revoke some first")
    return [] if command.right == has else [RightSet(subject=command.subject, right=command.right)]


def check(command: Command, state: Grants) -> None:
    """Refuse a command of subjects without the right that it needs.

    :raises AccessDeniedError: they have not.
    """
    if not state.allow(command.by, command.needs):
        raise denied(command.by, command.needs)


# --- the part


class GrantsPart(Part[Grants]):
    """The grants of a user."""

    NAME = "grants"
    registry = registry
    Dump = Grants
    initial = Grants()

    def fold(self, state: Grants, events: Iterable[Recorded[Event]]) -> Grants:
        """Fold events into the state."""
        return reduce(evolve, events, state)

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {SetRight: decide}


PART = GrantsPart()
