"""Telling a caller's function how far some work has come."""

from collections.abc import Callable
from inspect import isawaitable


async def tell(watch: Callable[..., object], *how_far: object) -> None:
    """Call a function that watches, and wait for it if it is `async`: or far away, with a client.

    The work goes on only then, so that whoever stops it from there stops what would come next.
    """
    heard = watch(*how_far)
    if isawaitable(heard):
        await heard
