"""A part of the demonstration: what happens to a user whose memory is full.

The user has the free tier: 100 memories. They are filled up, refused, pruned, and brought back
after a change of tier.
"""

from collections.abc import Sequence

import msgspec

from memory_actors.api.handles.user import UserMemory
from memory_actors.base.errors import QuotaExceededError
from memory_actors.base.records import Item, Tier, Usage
from memory_actors.observing.alerts import Alert
from memory_actors.users.usage import CostEstimate

STEP = 5  # memories added at a time, so that no threshold is jumped over
ONE_MORE = "The one that did not fit."


class LimitsReport(msgspec.Struct, frozen=True, kw_only=True):
    """A user who reaches a limit, and goes on."""

    full: Usage
    """When nothing fitted any more."""
    alerts: list[Alert]
    refused: str
    """What the refusal said."""
    pruned: list[str]
    """Ids that went to make room."""
    after_prune: int
    """Memories after the prune and the add."""
    tier: str
    """That the user then got."""
    restored: int
    """How many of the pruned came back."""
    after_restore: int
    cost: CostEstimate


async def run_limits(user: UserMemory, turns: Sequence[Item], alerts: list[Alert]) -> LimitsReport:
    """Fill a user's memory with turns; `alerts` is what the system's sink fills."""
    await user.set_tier(Tier.FREE)
    room = (await user.usage()).kinds["long_term"].quotas[0].limit
    for first in range(0, room, STEP):
        await user.add_many(turns[first : first + STEP])
    full = await user.usage()
    refused = await _refusal(user)
    receipt = await user.add_with_auto_prune(ONE_MORE, on_duplicate="keep")  # it may run again
    after_prune = await _count(user)
    await user.set_tier(Tier.PRO)
    restored = await user.restore(receipt.pruned)
    return LimitsReport(
        full=full,
        alerts=list(alerts),
        refused=refused,
        pruned=list(receipt.pruned),
        after_prune=after_prune,
        tier=Tier.PRO.value,
        restored=len(restored),
        after_restore=await _count(user),
        cost=await user.estimate_monthly_cost(),
    )


async def _refusal(user: UserMemory) -> str:
    try:
        await user.add(ONE_MORE, on_duplicate="keep")
    except QuotaExceededError as error:
        return str(error)
    raise AssertionError("a full memory took one more")


async def _count(user: UserMemory) -> int:
    return (await user.usage()).kinds["long_term"].count
