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
from memory_actors.alerts import Alert, AlertSink, CallbackSink, LogSink, WebhookSink
from memory_actors.embedding.protocol import Embedder
from memory_actors.erasing import EraseReceipt
from memory_actors.errors import (
    BeingErasedError,
    CommandCrashedError,
    DeadlineExceededError,
    EmbedderError,
    GlobalQuotaExceededError,
    InvalidInputError,
    MemoryActorsError,
    MemoryLimitError,
    MissingExtraError,
    ModelMismatchError,
    NotFoundError,
    QuarantinedError,
    QuotaExceededError,
    StorageFullError,
    SummarizerError,
    SystemClosedError,
    UnavailableError,
)
from memory_actors.handles.user import UserMemory
from memory_actors.metrics import PrometheusMetrics
from memory_actors.monitor import MemoryMonitor
from memory_actors.quota import GlobalLimits, Limits, Plan, Prices
from memory_actors.ranking import Weights
from memory_actors.records import (
    ClusterReport,
    CompactionProgress,
    CompactionReport,
    CompactionStats,
    Context,
    ContextPart,
    HistoryEntry,
    Hit,
    Item,
    KindUsage,
    Memory,
    MemoryType,
    QuotaUse,
    Receipt,
    Tier,
    Usage,
)
from memory_actors.repairing import repair_store
from memory_actors.settings import SUNDAYS, Settings
from memory_actors.statistics import SystemStatistics
from memory_actors.summarizers import (
    CallableSummarizer,
    Cluster,
    ExtractiveSummarizer,
    OpenAISummarizer,
    Summarizer,
)
from memory_actors.system import MemorySystem
from memory_actors.usage import CostEstimate, SystemUsage
from memory_actors.verifying import verify_store

__all__ = [
    "SUNDAYS",
    "Alert",
    "AlertSink",
    "BeingErasedError",
    "CallableSummarizer",
    "CallbackSink",
    "Cluster",
    "ClusterReport",
    "CommandCrashedError",
    "CompactionProgress",
    "CompactionReport",
    "CompactionStats",
    "Context",
    "ContextPart",
    "CorruptLog",
    "CostEstimate",
    "DeadlineExceededError",
    "DiskFull",
    "Embedder",
    "EmbedderError",
    "EraseReceipt",
    "EventLogError",
    "ExtractiveSummarizer",
    "GlobalLimits",
    "GlobalQuotaExceededError",
    "HistoryEntry",
    "Hit",
    "InvalidInputError",
    "Item",
    "KindUsage",
    "Limits",
    "LogClosed",
    "LogLocked",
    "LogSink",
    "Memory",
    "MemoryActorsError",
    "MemoryLimitError",
    "MemoryMonitor",
    "MemorySystem",
    "MemoryType",
    "MissingExtraError",
    "ModelMismatchError",
    "NotFoundError",
    "OpenAISummarizer",
    "Plan",
    "Prices",
    "PrometheusMetrics",
    "QuarantinedError",
    "QuotaExceededError",
    "QuotaUse",
    "Receipt",
    "Settings",
    "StorageFullError",
    "Summarizer",
    "SummarizerError",
    "SystemClosedError",
    "SystemStatistics",
    "SystemUsage",
    "Tier",
    "UnavailableError",
    "Usage",
    "UserMemory",
    "WebhookSink",
    "Weights",
    "WrongExpectedVersion",
    "repair_store",
    "verify_store",
]
