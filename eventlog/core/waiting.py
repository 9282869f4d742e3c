"""Futures that callers wait on: settling them, and letting callers in one after another."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """Await work, such as closing a file, that is not to be cut off by a cancellation.

    A caller who is cancelled, however often, is told so when the work has ended.
    """
    task, cancelled = asyncio.ensure_future(work), None
    with anyio.CancelScope(shield=True):  # which keeps off anyio's cancellations, not asyncio's
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def settle(future: "asyncio.Future[Any]", outcome: Any) -> None:
    """Hand an outcome to a caller, an exception as such, unless the caller was cancelled."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class Turns:
    """Callers who wait for room, in the order they came. Each looks for itself when it is woken."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self) -> None:
        """Return when it is this caller's turn."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self.wake(1)  # a turn that came with the cancellation is passed on
            raise

    def wake(self, count: int) -> None:
        """Let the next `count` callers in who still wait."""
        while self._waiting and count > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1
