"""Event-sourced long-term memory for AI agents, in one process: no LLM, server, network or GPU.

from memory_actors import MemorySystem, MemoryType

async with MemorySystem.open("./memory") as memory:
    user = memory.user("user_123")
    await user.add("User enjoys skiing", MemoryType.LONG_TERM)
    hits = await user.retrieve("winter sports")
"""

import os

from eventlog.core.lazy import import_lazily

# ONNX Runtime reads this once, when it is loaded. Without it, releases from 1.29 on keep a device
# id and a database of events in the user's cache, and send the events to the vendor.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import_lazily(__name__)
