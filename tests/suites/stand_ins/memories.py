"""A memory for stand-ins whose owners open a file or a directory: a user for each of those."""

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from memory_actors import Settings
from memory_actors.sync import MemorySystem, UserMemory


@cache
def memory(**parts: Any) -> MemorySystem:
    """Open a memory for this process; it goes with it."""
    directory = tempfile.TemporaryDirectory()
    settings = Settings(check_replay=True, latency_targets_ms={})
    opened = MemorySystem.open(directory.name, settings=settings, alerts=[], **parts)
    atexit.register(directory.cleanup)
    atexit.register(opened.close)
    return opened


def user_of(path: str | Path, **parts: Any) -> UserMemory:
    """Return the user that stands for a path, of a memory with these parts."""
    return memory(**parts).user(str(path))
