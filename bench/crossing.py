"""Which files a call crosses, really traced, in all threads and tasks."""

import inspect
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any


class Crossing:
    """Notes the files below some directories in which functions run, in the order of their first call."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self.files: dict[str, None] | None = None
        """The files so far; None while nobody asks."""
        self._prefixes = tuple(f"{directory}/" for directory in directories)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note the file of a function; the bodies of modules and classes are not functions."""
        code = frame.f_code
        if self.files is None or event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if code.co_filename.startswith(self._prefixes):
            self.files[code.co_filename] = None

    async def of(self, call: Callable[[int], Awaitable[Any]]) -> list[str]:
        """Return the files between a call and its result, after two calls that warm up."""
        await call(0)
        await call(1)
        self.files = {}
        await call(2)
        crossed, self.files = list(self.files), None
        return crossed


@asynccontextmanager
async def profiled(crossing: Crossing) -> AsyncIterator[None]:
    """Profile all threads that start from here on, and this one."""
    before, before_threads = sys.getprofile(), threading.getprofile()
    sys.setprofile(crossing)
    threading.setprofile(crossing)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(before_threads)
