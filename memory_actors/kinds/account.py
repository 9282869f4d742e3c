"""The tier of a user, their legal holds, and the quotas that have raised an alert.

An alert is raised once when a quota's use passes a threshold, and again only after it has fallen
five points below it. A bound that evicts by design raises none. Under a hold, nothing expires, no
retention rule applies, and no words leave the log (`users/holds.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog import EventRegistry, Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import QuotaUse, Right, Tier
from memory_actors.kinds.commands import Command
from memory_actors.kinds.kind import Decide, Part

WARNING, CRITICAL = "warning", "critical"
THRESHOLDS = ((CRITICAL, 95.0), (WARNING, 80.0))  # percent, the gravest first
HYSTERESIS = 5.0  # points below a threshold before it can be passed again
GRAVITY: Mapping[str | None, int] = {None: 0, WARNING: 1, CRITICAL: 2}

registry = EventRegistry()

# --- events


@registry.event("account.tier_set")
class TierSet(msgspec.Struct, frozen=True, kw_only=True):
    """The user's tier was set."""

    tier: str


@registry.event("account.alert_changed")
class AlertChanged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The use of a quota passed a threshold, upwards or back."""

    quota: str
    """Kind and quota, for example `long_term.memories`."""
    level: str | None
    """warning, critical, or None: none any more."""
    was: str | None
    used: int
    limit: int
    unit: str

    @property
    def raised(self) -> bool:
        """True if it got worse: only then somebody is told."""
        return GRAVITY[self.level] > GRAVITY[self.was]


HOLDS = "holds"
"""The key under which the log finds every hold of a user."""


@registry.event("account.hold_set", keys=lambda event: (event.hold_id, HOLDS))
class HoldSet(msgspec.Struct, frozen=True, kw_only=True):
    """The user was put under a legal hold, or it was released."""

    hold_id: str
    reason: str | None
    """None: it was released."""


Event: TypeAlias = TierSet | AlertChanged | HoldSet

# --- state


class Account(msgspec.Struct, frozen=True):
    """The tier, if it was ever set, the level of each quota that has one by name, and the holds."""

    tier: Tier | None = None
    levels: dict[str, str] = {}
    holds: tuple[str, ...] = ()
    """Ids of the holds in force, in the order they were placed."""


# --- evolve


def evolve(state: Account, recorded: Recorded[Event]) -> Account:
    """Fold one event into the state."""
    event = recorded.data
    if isinstance(event, TierSet):
        return replace(state, tier=Tier(event.tier))
    if isinstance(event, HoldSet):
        others = tuple(one for one in state.holds if one != event.hold_id)
        return replace(state, holds=others if event.reason is None else (*others, event.hold_id))
    levels = {quota: level for quota, level in state.levels.items() if quota != event.quota}
    if event.level is not None:
        levels[event.quota] = event.level
    return replace(state, levels=dict(sorted(levels.items())))


# --- commands


class SetTier(Command, frozen=True, kw_only=True):
    """Set the user's tier."""

    needs: ClassVar[Right] = Right.MANAGE
    tier: Tier


class SetHold(Command, frozen=True, kw_only=True):
    """Put the user under a hold of this new id, or release it, if there is no reason."""

    needs: ClassVar[Right] = Right.MANAGE
    hold_id: str
    reason: str | None = None


# --- decide


def _set_hold(command: SetHold, state: Account, _limits: Limits) -> Sequence[Event]:
    if command.reason is None and command.hold_id not in state.holds:
        raise NotFoundError(f"no hold {command.hold_id!r} is in force: see `holds`")
    return [HoldSet(hold_id=command.hold_id, reason=command.reason)]


def decide(command: SetTier, state: Account, _limits: Limits) -> Sequence[Event]:
    """Turn a command into events. A tier below the present use is set all the same."""
    return [] if command.tier == state.tier else [TierSet(tier=command.tier)]


def alerts(state: Account, kind: str, quotas: Iterable[QuotaUse]) -> list[AlertChanged]:
    """Return the alerts that the use of a kind's quotas raises or takes back."""
    changed = []
    for use in quotas:
        name = f"{kind}.{use.quota}"
        was = state.levels.get(name)
        level = None if use.evicts else _level(use.percent, was)
        if level != was:
            changed.append(
                AlertChanged(
                    quota=name, level=level, was=was, used=use.used, limit=use.limit, unit=use.unit
                )
            )
    return changed


def _level(percent: float, was: str | None) -> str | None:
    for level, threshold in THRESHOLDS:
        held = GRAVITY[was] >= GRAVITY[level]
        if percent >= threshold - (HYSTERESIS if held else 0.0):
            return level
    return None


# --- the part


class AccountPart(Part[Account]):
    """The account of a user."""

    NAME = "account"
    registry = registry
    Dump = Account
    initial = Account()
    evolve = staticmethod(evolve)

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {SetTier: decide, SetHold: _set_hold}


PART = AccountPart()
