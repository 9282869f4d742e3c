"""Background work of one user: named, at most one of each name, never in the way of a caller."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from eventlog.core.logs import get_logger
from memory_actors.base.privacy import reason

_logger = get_logger("memory_actors.user")


class BackgroundTasks:
    """Runs coroutines as tasks; what one raises is logged."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task unless one of that name is running."""
        if name not in self._running:
            task = asyncio.create_task(work())
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
