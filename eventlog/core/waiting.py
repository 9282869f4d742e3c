"""Waiting: for work that is not cut off, what a thread opens, a turn, and the end of a loop."""

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread

YEAR_S: Final = 365 * 86400.0
OPENING_S_MAX: Final = 10.0
T = TypeVar("T")


class Block(AbstractAsyncContextManager[T, None]):
    """A block in which something is open.

    A class, because a loop that ends closes all async generators at once, in any order.
    """

    def __init__(
        self,
        open_: Callable[[], Awaitable[T]],
        close: Callable[[T], Awaitable[None]],
    ):
        self._open, self._close = open_, close
        self._opened: T

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        await to_the_end(self._close(self._opened))


class SharedExitStack(ExitStack):
    """A stack that any thread may close: whoever comes second waits for the first."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = threading.RLock()  # its thread may collect the timer of a loop meanwhile

    def close(self) -> None:
        """Call what was pushed, last first; return when all of it was called."""
        with self._closing:
            super().close()


def at_loop_end(release: Callable[[], object]) -> Callable[[], None]:
    """Have a function called when the running loop is closed; return what cancels that.

    A loop that is closed drops its timers, and with this one the last reference to it.
    """
    pid, timer = os.getpid(), asyncio.get_running_loop().call_later(YEAR_S, lambda: None)
    # A forked child may close its copy of the loop; what is open is its parent's.
    ending = weakref.finalize(timer, lambda: release() if os.getpid() == pid else None)
    ending.atexit = False
    del timer

    def cancel() -> None:
        if (found := ending.detach()) is not None:
            found[0].cancel()

    return cancel


async def to_the_end(work: Awaitable[T]) -> T:
    """Await work, such as closing a file, that is not to be cut off by a cancellation.

    Cancellations are raised after the work has ended.
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


async def opened_in_thread(open_: Callable[[], T], close: Callable[[T], object]) -> T:
    """Return the result of `open_`, run in a thread, or close it if the caller leaves before.

    A cancellation is raised after the thread has ended. If the loop ends first, and cancels all
    tasks, the thread closes the result, and the loop's end waits for that.
    """
    made: list[T] = []
    handing, opening, left = threading.Lock(), threading.Lock(), threading.Event()

    def run() -> None:
        with opening:
            if left.is_set():
                return
            one = open_()
            with handing:
                if not left.is_set():
                    made.append(one)
                    return
            close(one)

    try:
        await to_the_end(anyio.to_thread.run_sync(run))
    except BaseException:
        with handing:
            left.set()
        if made:
            close(made[0])
        elif opening.locked():  # the thread is still at it
            at_loop_end(lambda: opening.acquire(timeout=OPENING_S_MAX))
        raise
    return made[0]


def settle(future: "asyncio.Future[Any]", outcome: object) -> None:
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


class QueueRoom:
    """Room in a queue for events and their bytes; callers who wait for it go in as they came."""

    def __init__(self, events_max: int, bytes_max: int):
        self.events = self._payload_bytes = 0
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._turns = Turns()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """True if callers have to wait: a queue that is closed refuses them instead."""
        return not self._is_closed and (
            self.events >= self._events_max or self._payload_bytes >= self._bytes_max
        )

    async def wait(self) -> None:
        """Return when it is this caller's turn, or the queue is closed."""
        while self.is_full:
            await self._turns.wait()

    def take(self, events: int, payload_bytes: int) -> None:
        """Take room for events, even if there is not as much."""
        self.events += events
        self._payload_bytes += payload_bytes

    def give_back(self, events: int, payload_bytes: int) -> None:
        """Give room back, and let in no more callers than there is room for."""
        self.events -= events
        self._payload_bytes -= payload_bytes
        self._turns.wake(self._events_max - self.events)

    def close(self) -> None:
        """Let every caller in, to be refused."""
        self._is_closed = True
        self._turns.wake(len(self._turns))


class LogEnd:
    """The position of the last event of a log, and callers who wait for one behind it."""

    def __init__(self, position: int = 0):
        self.position = position
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def advance(self, position: int) -> None:
        """Take note of where the log ends now."""
        if position > self.position:
            self.position = position
            self._wake()

    def close(self) -> None:
        """End every wait."""
        self._is_closed = True
        self._wake()

    async def wait_beyond(self, position: int) -> int:
        """Wait for an event behind a position; return that of the last one, 0 at the close."""
        while self.position <= position:
            if self._is_closed:
                return 0
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)
        return self.position

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for waiter in waiting:
            settle(waiter, None)
