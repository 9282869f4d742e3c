"""Calling functions of a caller's own: they hear how far some work has come, or who was erased."""

from collections.abc import Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import anyio.to_thread

from eventlog.core.logs import get_logger
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.privacy import reason

_logger = get_logger("memory_actors.base")


async def tell(watch: Callable[..., object], *how_far: object) -> None:
    """Call a function that watches, and wait for it if it is `async`: or far away, with a client.

    The work goes on only then, so that whoever stops it from there stops what would come next.
    """
    heard = watch(*how_far)
    if isawaitable(heard):
        await heard


def is_async(function: Callable[..., object]) -> bool:
    """Say whether a function, or an object that is called, is `async`."""
    return any(map(iscoroutinefunction, (function, type(function).__call__)))


async def called(function: Callable[..., object], *given: object) -> Any:
    """Return what a caller's function returns: on the loop if it is `async`, else in a thread."""
    if is_async(function):
        said = function(*given)
    else:
        said = await anyio.to_thread.run_sync(function, *given, abandon_on_cancel=True)
    return await said if isawaitable(said) else said


def check_forgets(forget: Callable[[str], object]) -> None:
    """Check what is to forget users.

    :raises InvalidInputError: it is no function, or one that would have to be awaited.
    """
    if not callable(forget) or is_async(forget):
        raise InvalidInputError(
            f"{forget!r:.80} cannot watch erasures: it must be a plain function, not `async`"
        )


def tell_to_forget(forget: Callable[[str], object], user_id: str) -> None:
    """Have a user forgotten; a function that fails does not keep the erasure back."""
    try:
        forget(user_id)
    except Exception as error:  # of whatever kind: it is not our code
        _logger.warning("watcher of erasures failed", error=reason(error))
