"""Futures that callers wait on: settling them, and letting callers in one after another."""

import asyncio
from collections import deque
from typing import Any


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
