"""Event-sourced long-term memory for AI agents, in one process: no LLM, server, network or GPU.

from memory_actors import MemorySystem, MemoryType

async with MemorySystem.open("./memory") as memory:
    user = memory.user("user_123")
    await user.add("User enjoys skiing", MemoryType.LONG_TERM)
    hits = await user.retrieve("winter sports")
"""

from eventlog.core.lazy import import_lazily

import_lazily(__name__)
