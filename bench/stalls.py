"""Stalls of the event loop: a task that wants to run every millisecond, and is late."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from time import perf_counter, thread_time
from typing import NamedTuple, TypeVar

T = TypeVar("T")

INTERVAL_S = 0.001


class Stalled(NamedTuple):
    """The time of a call, and the longest time in which nothing else could run."""

    took_ms: float
    stall_ms: float
    """The longest time between two turns of the ticker, less its interval."""
    loop_ms: float
    """Processor time of the loop's thread, the ticker's included: free of the machine's noise."""


class Ticker:
    """Notes how late it is. Everybody else on the loop is as late."""

    def __init__(self) -> None:
        self._worst_s = 0.0
        self._turns = 0

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            slept_s = perf_counter()
            await asyncio.sleep(INTERVAL_S)
            self._worst_s = max(self._worst_s, perf_counter() - slept_s - INTERVAL_S)
            self._turns += 1

    async def watch(self, work: Awaitable[T]) -> tuple[T, Stalled]:
        """Wait for some work; return its result, and how long the loop stood still."""
        await self._next_turn()
        self._worst_s = 0.0
        started_s, loop_s = perf_counter(), thread_time()
        result = await work
        took_ms, loop_ms = (perf_counter() - started_s) * 1e3, (thread_time() - loop_s) * 1e3
        await self._next_turn()
        return result, Stalled(took_ms, self._worst_s * 1e3, loop_ms)

    async def _next_turn(self) -> None:
        """Wait until the ticker slept once more: a stall shows only when it wakes."""
        turn = self._turns
        while self._turns == turn:
            await asyncio.sleep(INTERVAL_S / 2)


@asynccontextmanager
async def ticking() -> AsyncIterator[Ticker]:
    """Run a ticker on this loop."""
    ticker = Ticker()
    task = asyncio.create_task(ticker.run())
    try:
        yield ticker
    finally:
        task.cancel()
