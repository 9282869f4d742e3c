"""Background work: of one user, named, at most one of each name; and the end of all of it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from eventlog.core.logs import get_logger
from memory_actors.base.privacy import reason

ANYIO_THREAD: Final = "AnyIO worker thread"
PACKAGE: Final = str(Path(__file__).parents[1])
T = TypeVar("T")
_logger = get_logger("memory_actors.user")


def left_quietly(task: "asyncio.Task[T]") -> "asyncio.Task[T]":
    """Return a task that asyncio does not complain about when its loop ends before it does."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
    return task


def end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """End the tasks of this package on a loop that is closed, or does not run; from any thread."""
    for task in asyncio.all_tasks(loop):
        work: Any = task.get_coro()
        code = getattr(work, "cr_code", None)
        if code is None or not code.co_filename.startswith(PACKAGE):
            continue  # the host's own
        left_quietly(task)
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:  # it is closed
            with suppress(Exception):
                work.close()
    if not loop.is_closed():
        return
    for thread in threading.enumerate():  # one that began as the loop ended keeps the process
        its: Any = thread
        if thread.name == ANYIO_THREAD and its.loop is loop and not its.stopping:
            its.stop()


class BackgroundTasks:
    """Runs coroutines as tasks; what one raises is logged."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Start a task unless one of that name is running."""
        if name not in self._running:
            loop = asyncio.get_running_loop()  # if there is none, no work is made
            task = loop.create_task(work())
            self._running[name] = task
            task.add_done_callback(lambda done: self._done(name, done))

    def running(self, name: str) -> "asyncio.Task[None] | None":
        """Return the task of that name, if it is running."""
        return self._running.get(name)

    async def cancel(self) -> None:
        """Cancel all and wait until they have ended."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _done(self, name: str, task: "asyncio.Task[None]") -> None:
        del self._running[name]
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            _logger.error("background task failed", task=name, error=reason(failure))
