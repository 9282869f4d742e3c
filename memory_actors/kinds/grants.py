"""Grants: who may read, write and manage a scope, a part of the state of each user.

A scope is a stream, as a user is. A call speaks for a subject ("person:ada", "agent:planner",
"key:1f0c…") if its handle says so; otherwise it is the embedding process's own, and is not checked.
A key of a server speaks for itself and for its user. An `agent_id` opens nothing. The rule is
`Grants.right_of`: a person may do everything in the scope of their own name; a scope that never had
a grant is open to every person and agent, and to no key; once it had one, grants alone count.

`users/handles/scope.py` checks every operation against the newest state: a read as it takes the
state, a write once more as it is decided. The subject of a write in somebody else's scope is among
the origins of the memory; `Wrote` lets erasure find the scopes that know a person.
"""

from collections.abc import Mapping, Sequence
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
    evolve = staticmethod(evolve)

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {SetRight: decide}


PART = GrantsPart()
