"""Calling functions of a caller's own: they do a part of some work, or hear what becomes of it."""

from collections.abc import Callable
from inspect import isawaitable, iscoroutinefunction
from typing import Any, ClassVar, Generic, TypeVar

import anyio.to_thread

from eventlog.core.logs import get_logger
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.privacy import reason
from memory_actors.base.validation import check_maker

F = TypeVar("F", bound=Callable[..., Any])

_logger = get_logger("memory_actors.base")


async def tell(watch: Callable[..., object], *how_far: object) -> None:
    """Call a function that watches, and wait for it if it is `async`: or far away, with a client.

    The work waits for the function, so that a watcher that raises stops the next step.
    """
    heard = watch(*how_far)
    if isawaitable(heard):
        await heard


def is_async(function: Callable[..., object]) -> bool:
    """Say whether a function, or an object that is called, is `async`."""
    return any(map(iscoroutinefunction, (function, type(function).__call__)))


class CallersFunction(Generic[F]):
    """A function in the place of a summariser, an extractor or the like.

    An async one is awaited on the loop, any other runs in a worker thread: who waits for that can
    be cancelled, the thread goes on to its end. The name is the function's, unless given.

    :raises InvalidInputError: it is no function, or the name cannot stand in an event.
    """

    maker: ClassVar[str]
    takes: ClassVar[str]
    """The argument that takes a function, and what that is a function of."""

    def __init__(self, function: F, *, name: str | None = None):
        if not callable(function):
            raise InvalidInputError(f"{self.takes}, not {function!r:.60}")
        self._function = function
        own_name = str(getattr(function, "__name__", type(function).__name__))
        self._name = check_maker(name or own_name, self.maker)

    @property
    def name(self) -> str:
        """The name under which the record has what it did."""
        return self._name

    async def _returned(self, *given: object) -> object:
        if is_async(self._function):
            said = self._function(*given)
        else:
            said = await anyio.to_thread.run_sync(self._function, *given, abandon_on_cancel=True)
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
