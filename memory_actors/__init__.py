"""Event-sourced long-term memory for AI agents, in one process: no LLM, server, network or GPU.

from memory_actors import MemorySystem, MemoryType

async with MemorySystem.open("./memory") as memory:
    user = memory.user("user_123")
    await user.add("User enjoys skiing", MemoryType.LONG_TERM)
    hits = await user.retrieve("winter sports")
"""

from eventlog import (
    CorruptLog,
    DiskFull,
    EventLogError,
    LogClosed,
    LogLocked,
    WrongExpectedVersion,
)
from memory_actors.embedding.protocol import Embedder
from memory_actors.errors import (
    CommandCrashedError,
    DeadlineExceededError,
    EmbedderError,
    InvalidInputError,
    MemoryActorsError,
    ModelMismatchError,
    NotFoundError,
    QuarantinedError,
    QuotaExceededError,
    StorageFullError,
    SystemClosedError,
    UnavailableError,
)
from memory_actors.handles.user import UserMemory
from memory_actors.quota import Limits
from memory_actors.records import (
    HistoryEntry,
    Hit,
    Item,
    KindUsage,
    Memory,
    MemoryType,
    Receipt,
    Usage,
)
from memory_actors.settings import Settings
from memory_actors.system import MemorySystem, SystemStatistics

__all__ = [
    "CommandCrashedError",
    "CorruptLog",
    "DeadlineExceededError",
    "DiskFull",
    "Embedder",
    "EmbedderError",
    "EventLogError",
    "HistoryEntry",
    "Hit",
    "InvalidInputError",
    "Item",
    "KindUsage",
    "Limits",
    "LogClosed",
    "LogLocked",
    "Memory",
    "MemoryActorsError",
    "MemorySystem",
    "MemoryType",
    "ModelMismatchError",
    "NotFoundError",
    "QuarantinedError",
    "QuotaExceededError",
    "Receipt",
    "Settings",
    "StorageFullError",
    "SystemClosedError",
    "SystemStatistics",
    "UnavailableError",
    "Usage",
    "UserMemory",
    "WrongExpectedVersion",
]
