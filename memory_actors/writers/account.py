"""The way of a user's tier into the log."""

from memory_actors.account import NAME, SetTier
from memory_actors.errors import InvalidInputError
from memory_actors.records import Tier
from memory_actors.writers.scope import Scope


async def set_tier(scope: Scope, tier: Tier | str) -> None:
    """Set a user's tier. One below the present use deletes nothing.

    :raises InvalidInputError: there is no such tier.
    """
    try:
        wanted = Tier(tier)
    except ValueError as error:
        known = ", ".join(Tier)
        raise InvalidInputError(f"unknown tier {tier!r}: use one of {known}") from error
    with scope.measured(SetTier.__name__, NAME):
        async with scope.writable() as live:
            await scope.ask(live, SetTier(now_us=scope.now_us(), tier=wanted))
