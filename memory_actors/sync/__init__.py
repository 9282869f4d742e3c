"""The memory without `await`, for programs that are not async, threads, and notebooks.

from memory_actors.sync import MemorySystem

with MemorySystem.open("./memory") as memory:
    user = memory.user("user_123")
    user.add("User enjoys skiing")
    hits = user.retrieve("winter sports")

Every method, argument, result and error is that of `memory_actors`, which documents them; this one
runs it on an event loop in a thread of its own, so a loop that runs already does not matter. An
`async with` there is open at once here, and is closed by `with` or `close()`.
"""

from memory_actors.sync.blocking import CLASSES, on_loop

__all__ = [
    "ContextDocument",
    "Documents",
    "EntityGraph",
    "Episodes",
    "MemorySystem",
    "PastMemory",
    "ShortTermMemory",
    "UserContext",
    "UserMemory",
    "WorkingMemory",
    "on_loop",
]

globals().update({kind.__name__: kind for kind in CLASSES.values()})
