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
    EncryptionMismatch,
    EventLogError,
    KeyGone,
    KeysUnavailable,
    LogClosed,
    LogLocked,
    PayloadDropped,
    WrongExpectedVersion,
)
from memory_actors.alerts import Alert, AlertSink, CallbackSink, LogSink, WebhookSink
from memory_actors.audit_records import Change, Diff, LogEntry, Moment, Recall, Why, WhyStep
from memory_actors.bounded import BoundedDict, BoundedList
from memory_actors.context_records import (
    ContextEntry,
    ContextHit,
    ContextReceipt,
    ContextSize,
    DocumentBlock,
    DocumentInfo,
)
from memory_actors.embedding.protocol import Embedder
from memory_actors.erasing import EraseReceipt
from memory_actors.errors import (
    BeingErasedError,
    CommandCrashedError,
    ContextFileError,
    ContextLimitError,
    DeadlineExceededError,
    EmbedderError,
    GlobalQuotaExceededError,
    ImprovementError,
    InvalidInputError,
    LLMError,
    MemoryActorsError,
    MemoryLimitError,
    MissingExtraError,
    ModelMismatchError,
    NotFoundError,
    QuarantinedError,
    QuotaExceededError,
    ReadOnlyError,
    StaleDocumentError,
    StorageFullError,
    SummarizerError,
    SystemClosedError,
    UnavailableError,
)
from memory_actors.handles.past import PastMemory
from memory_actors.handles.user import UserMemory
from memory_actors.improve import (
    Critic,
    Critique,
    Finding,
    Improver,
    LocalCritic,
    LocalReviser,
    OpenAICritic,
    OpenAIReviser,
    Reviser,
    improve,
    improve_stream,
    recorded_run,
)
from memory_actors.kinds.context.commands import Edit, Insert, Remove
from memory_actors.memory_tool import MemoryTool, MemoryToolError
from memory_actors.metrics import PrometheusMetrics
from memory_actors.monitor import MemoryMonitor
from memory_actors.phrasing import text_digest
from memory_actors.prompt_records import Context, ContextPart
from memory_actors.quota import GlobalLimits, Limits, Plan, Prices
from memory_actors.ranking import Weights
from memory_actors.records import (
    ClusterReport,
    CompactionProgress,
    CompactionReport,
    CompactionStats,
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
from memory_actors.source_records import Origin, Purged, PurgeReport, Trust
from memory_actors.statistics import SystemStatistics
from memory_actors.summarizers import (
    CallableSummarizer,
    Cluster,
    ExtractiveSummarizer,
    OpenAISummarizer,
    Summarizer,
)
from memory_actors.system import MemorySystem
from memory_actors.token_counters import TokenizerCounter
from memory_actors.tokens import TokenCounter, WordEstimate
from memory_actors.usage import CostEstimate, SystemUsage
from memory_actors.verifying import verify_store

__all__ = [
    "SUNDAYS",
    "Alert",
    "AlertSink",
    "BeingErasedError",
    "BoundedDict",
    "BoundedList",
    "CallableSummarizer",
    "CallbackSink",
    "Change",
    "Cluster",
    "ClusterReport",
    "CommandCrashedError",
    "CompactionProgress",
    "CompactionReport",
    "CompactionStats",
    "Context",
    "ContextEntry",
    "ContextFileError",
    "ContextHit",
    "ContextLimitError",
    "ContextPart",
    "ContextReceipt",
    "ContextSize",
    "CorruptLog",
    "CostEstimate",
    "Critic",
    "Critique",
    "DeadlineExceededError",
    "Diff",
    "DiskFull",
    "DocumentBlock",
    "DocumentInfo",
    "Edit",
    "Embedder",
    "EmbedderError",
    "EncryptionMismatch",
    "EraseReceipt",
    "EventLogError",
    "ExtractiveSummarizer",
    "Finding",
    "GlobalLimits",
    "GlobalQuotaExceededError",
    "HistoryEntry",
    "Hit",
    "ImprovementError",
    "Improver",
    "Insert",
    "InvalidInputError",
    "Item",
    "KeyGone",
    "KeysUnavailable",
    "KindUsage",
    "LLMError",
    "Limits",
    "LocalCritic",
    "LocalReviser",
    "LogClosed",
    "LogEntry",
    "LogLocked",
    "LogSink",
    "Memory",
    "MemoryActorsError",
    "MemoryLimitError",
    "MemoryMonitor",
    "MemorySystem",
    "MemoryTool",
    "MemoryToolError",
    "MemoryType",
    "MissingExtraError",
    "ModelMismatchError",
    "Moment",
    "NotFoundError",
    "OpenAICritic",
    "OpenAIReviser",
    "OpenAISummarizer",
    "Origin",
    "PastMemory",
    "PayloadDropped",
    "Plan",
    "Prices",
    "PrometheusMetrics",
    "PurgeReport",
    "Purged",
    "QuarantinedError",
    "QuotaExceededError",
    "QuotaUse",
    "ReadOnlyError",
    "Recall",
    "Receipt",
    "Remove",
    "Reviser",
    "Settings",
    "StaleDocumentError",
    "StorageFullError",
    "Summarizer",
    "SummarizerError",
    "SystemClosedError",
    "SystemStatistics",
    "SystemUsage",
    "Tier",
    "TokenCounter",
    "TokenizerCounter",
    "Trust",
    "UnavailableError",
    "Usage",
    "UserMemory",
    "WebhookSink",
    "Weights",
    "Why",
    "WhyStep",
    "WordEstimate",
    "WrongExpectedVersion",
    "improve",
    "improve_stream",
    "recorded_run",
    "repair_store",
    "text_digest",
    "verify_store",
]
