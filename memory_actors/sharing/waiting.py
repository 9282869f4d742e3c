"""A call of a client that has no result yet."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from memory_actors.sharing import frames
from memory_actors.sharing.declaration import How
from memory_actors.sharing.generated_operations import DECLARED

ERASURES: Final = "system.watch_erasures"
FORGET: Final = "node.forget"
"""Between nodes: let go of all that you keep of a user, who is being erased."""


class Waiting:
    """A call that has no result yet."""

    def __init__(self, message: frames.Call, kept: list[Any]):
        self.message = message
        self.kept = kept
        """The functions and events among its arguments."""
        self.after: int | None = None
        """The position of the log when it was first sent."""
        self.result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.items: asyncio.Queue[bytes | None] = asyncio.Queue()
        """Of an iteration; None when it ends."""
        self.raised: dict[bytes, BaseException] = {}
        """The exceptions that the caller's functions raised: they come back as they were."""
        self.is_endless = message.operation == ERASURES or (
            message.operation in DECLARED and DECLARED[message.operation].how is How.ITERATED
        )
        self.taken = 0
        """Items that were taken."""
        self.tasks: set[asyncio.Task[None]] = set()
        """They pass on what the caller sets, and call what it gave."""

    def events(self) -> Iterator[tuple[int, asyncio.Event]]:
        """Yield the events among its arguments, each with its number."""
        for place, one in enumerate(self.kept):
            if isinstance(one, asyncio.Event):
                yield place, one

    def settle(self, value: bytes) -> None:
        """Give it its result."""
        if not self.result.done():
            self.result.set_result(value)
        self.items.put_nowait(None)

    def fail(self, error: BaseException) -> None:
        """Give it an error instead."""
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # nobody may be waiting any more
        self.items.put_nowait(None)
