"""Writes of several steps, all or none: what the first have done is undone if a later one fails."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio

from memory_actors.base.errors import MemoryActorsError

Undo: TypeAlias = Callable[[], Awaitable[object]]


@asynccontextmanager
async def all_or_none() -> AsyncIterator[list[Undo]]:
    """Hold a list of what undoes each step; if the block fails, call them, the newest first.

    A block that is cancelled has failed, too: a call that nobody waits for leaves nothing half
    done. The log keeps both, as it keeps everything. A process that is killed in between leaves the
    first steps.
    """
    undo: list[Undo] = []
    try:
        yield undo
    except BaseException:
        with anyio.CancelScope(shield=True):
            for step in reversed(undo):
                with suppress(MemoryActorsError):  # somebody else has undone it meanwhile
                    await step()
        raise
