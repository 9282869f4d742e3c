"""The files that a call crosses, really traced, in all threads and tasks."""

import inspect
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

CALLS = 5


class Crossing:
    """Notes the files below directories in which functions run, by their first call."""

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
        """Return the files that each of CALLS calls crosses on the way to its result.

        Files that only some of the calls cross are chance: a background task, a warning about a
        slow call. The call is given numbers from 0; the first two only warm up.
        """
        seen = []
        for number in range(2 + CALLS):
            self.files = {}
            await call(number)
            seen.append(self.files)
        self.files = None
        return [file for file in seen[-1] if all(file in files for files in seen[2:])]


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
