"""The way of a user's tier into the log."""

from memory_actors.base.records import Tier
from memory_actors.base.validation import check_tier
from memory_actors.kinds.account import NAME, SetTier
from memory_actors.users.handles.scope import Scope


async def set_tier(scope: Scope, tier: Tier | str) -> None:
    """Set a user's tier. One below the present use deletes nothing.

    :raises InvalidInputError: there is no such tier.
    """
    wanted = check_tier(tier)
    with scope.measured(SetTier.__name__, NAME):
        async with scope.writable() as live:
            await scope.ask(live, SetTier(now_us=scope.now_us(), tier=wanted))
