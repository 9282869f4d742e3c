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

What is written in the scope of somebody else has the subject as one of its origins, as any source
(`provenance.py`): so a hit names it, `sources=["person:ada"]` finds it, and a purge removes it.
`Wrote` says once that a subject has written there. The log finds it, and each grant, by the
subject: so erasing a person visits only scopes that know them (`upkeep/erasing.py`).
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


@registry.event("grants.given", keys=lambda event: (event.subject,))
class Given(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A subject has a right from now on, and no other."""

    subject: str
    right: Right


@registry.event("grants.revoked", keys=lambda event: (event.subject,))
class Revoked(msgspec.Struct, frozen=True, kw_only=True):
    """A subject has no right any more."""

    subject: str


@registry.event("grants.wrote", keys=lambda event: (event.subject,))
class Wrote(msgspec.Struct, frozen=True, kw_only=True):
    """A subject has written here for the first time."""

    subject: str


Event: TypeAlias = Given | Revoked | Wrote

# --- state


class Grants(msgspec.Struct, frozen=True):
    """The rights of subjects, and the subjects who have written."""

    rights: dict[str, Right] = {}
    governed: bool = False
    """True once there was a grant."""
    writers: frozenset[str] = frozenset()

    @property
    def listed(self) -> dict[str, Right]:
        """The rights in the order of the subjects."""
        return dict(sorted(self.rights.items()))

    def right_of(self, by: Sequence[str]) -> Right | None:
        """Return the right of a call that speaks for these subjects; () is nobody's but ours."""
        if not by:
            return Right.MANAGE
        if not self.governed:
            return None if any(one.startswith(KEY) for one in by) else Right.MANAGE
        return max((self.rights[one] for one in by if one in self.rights), default=None, key=_rank)

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
        return msgspec.structs.replace(state, writers=state.writers | {event.subject})
    rights = {one: right for one, right in state.rights.items() if one != event.subject}
    if isinstance(event, Given):
        rights[event.subject] = event.right
    return Grants(rights, True, state.writers)


# --- commands


class Grant(Command, frozen=True, kw_only=True):
    """Give a subject a right, in place of the one that it had."""

    needs: ClassVar[Right] = Right.MANAGE
    subject: str
    right: Right


class Revoke(Command, frozen=True, kw_only=True):
    """Take the right of a subject."""

    needs: ClassVar[Right] = Right.MANAGE
    frees: ClassVar[bool] = True
    subject: str


# --- decide


def grant(command: Grant, state: Grants, _limits: Limits) -> Sequence[Event]:
    """Give a right."""
    if state.rights.get(command.subject) == command.right:
        return []
    if len(state.rights) >= GRANTS_MAX and command.subject not in state.rights:
        raise InvalidInputError(f"this scope has {GRANTS_MAX:,} grants already: revoke some first")
    return [Given(subject=command.subject, right=command.right)]


def revoke(command: Revoke, state: Grants, _limits: Limits) -> Sequence[Event]:
    """Take a right."""
    if command.subject not in state.rights:
        raise NotFoundError(f"{command.subject!r} has no grant here: `grants()` lists those who do")
    return [Revoked(subject=command.subject)]


def check(command: Command, state: Grants) -> None:
    """Refuse a command of subjects without the right that it needs.

    :raises AccessDeniedError: they have not.
    """
    if not state.allow(command.by, command.needs):
        raise denied(command.by, command.needs)


# --- the part


class GrantsDump(msgspec.Struct, frozen=True):
    """The state in the order of the subjects."""

    rights: dict[str, Right] = {}
    governed: bool = False
    writers: tuple[str, ...] = ()


class GrantsPart(Part[Grants]):
    """The grants of a user."""

    NAME = "grants"
    registry = registry
    Dump = GrantsDump
    initial = Grants()

    def fold(self, state: Grants, events: Iterable[Recorded[Event]]) -> Grants:
        """Fold events into the state."""
        return reduce(evolve, events, state)

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {Grant: grant, Revoke: revoke}

    def dump(self, state: Grants) -> GrantsDump:
        """Return the state in the order of the subjects."""
        return GrantsDump(state.listed, state.governed, tuple(sorted(state.writers)))

    def load(self, dumped: GrantsDump) -> Grants:
        """Return the state back."""
        return Grants(dumped.rights, dumped.governed, frozenset(dumped.writers))


PART = GrantsPart()
