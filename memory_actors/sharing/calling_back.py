"""Calling functions that a client gave as arguments.

Whoever calls one waits until the client has carried it out, and gets what it raised: an operation
that is to stop does not begin more meanwhile. On the loop it returns something to be awaited, on
another thread it returns when it has been heard. A client that is stopped holds nobody up for long.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final

from memory_actors.base.errors import DeadlineExceededError, InvalidInputError
from memory_actors.sharing import frames
from memory_actors.sharing.values import error_of, packed

HEARD_S_MAX: Final = 5.0
"""The work of many users may wait for one client that watches it: no longer than for a pause."""


class _Hearing:
    """A call that the client has not answered yet."""

    def __init__(self) -> None:
        self._answered = asyncio.Event()
        self._error: BaseException | None = None

    def __await__(self) -> Generator[Any, None, None]:
        return self.within(HEARD_S_MAX).__await__()

    async def within(self, seconds: float) -> None:
        """Wait for the answer, and raise what the function raised."""
        try:
            async with asyncio.timeout(seconds):
                await self._answered.wait()
        except TimeoutError:
            raise DeadlineExceededError(f"the client has not answered in {seconds:g} s") from None
        if self._error is not None:
            raise self._error

    def answer(self, error: BaseException | None) -> None:
        """Note that the function has returned, or what it raised."""
        self._error = error
        self._answered.set()


class CallingBack:
    """The functions of one client, and the calls of them that it has not answered."""

    def __init__(self, send: Callable[[frames.Message], None]):
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._unheard: dict[int, deque[_Hearing]] = {}

    def function(self, number: int, argument: int) -> Callable[..., Any]:
        """Return what stands here for an argument of a call: from any thread it can be called."""
        return partial(self._call, number, argument)

    def heard(self, number: int, error: bytes | None) -> None:
        """Take the client's answer to the oldest call that it has not answered."""
        if waiting := self._unheard.get(number):
            waiting.popleft().answer(None if error is None else error_of(error))

    def done(self, number: int) -> None:
        """Forget an operation."""
        self._unheard.pop(number, None)

    def _call(self, number: int, argument: int, *values: Any) -> _Hearing | None:
        message = frames.Called(number, argument, packed(list(values), no_functions))
        hearing = _Hearing()
        if _is_running(self._loop):
            self._say(message, hearing)
            return hearing
        self._loop.call_soon_threadsafe(self._say, message, hearing)
        waiting = hearing.within(HEARD_S_MAX)
        return asyncio.run_coroutine_threadsafe(waiting, self._loop).result()

    def _say(self, message: frames.Called, hearing: _Hearing) -> None:
        self._unheard.setdefault(message.number, deque()).append(hearing)
        self._send(message)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def no_functions(*_: Any) -> Any:
    """Refuse a function.

    :raises InvalidInputError: always.
    """
    raise InvalidInputError("a function cannot be given here")
