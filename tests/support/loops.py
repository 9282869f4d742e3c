"""An event loop for code that takes the thread's own one, and leaves it open."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loop_of_thread() -> Iterator[None]:
    """Give this thread a loop, and close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()
