"""What callers hand in and get back: frozen structs, by area. Times are aware and in UTC."""

from memory_actors.base.records.audit import (
    Change,
    Diff,
    LogEntry,
    Moment,
    Recall,
    Why,
    WhyStep,
)
from memory_actors.base.records.compaction import (
    ClusterReport,
    CompactionProgress,
    CompactionReport,
    CompactionStats,
    Saving,
)
from memory_actors.base.records.context import (
    DEFAULT_DOCUMENT,
    ContextEntry,
    ContextHit,
    ContextReceipt,
    ContextSize,
    DocumentBlock,
    DocumentInfo,
)
from memory_actors.base.records.document import (
    Document,
)
from memory_actors.base.records.entity import (
    Entity,
    Neighbour,
    Relationship,
)
from memory_actors.base.records.episode import (
    Episode,
    EvictedStep,
    Step,
)
from memory_actors.base.records.memory import (
    IS_COMPRESSED,
    HistoryEntry,
    Hit,
    Item,
    Memory,
    MemoryType,
    Metadata,
    OnDuplicate,
    Order,
    Receipt,
    Tier,
    Time,
)
from memory_actors.base.records.prompt import (
    SOURCES_QUOTED_MAX,
    Context,
    ContextPart,
)
from memory_actors.base.records.source import (
    LEVELS,
    UNSAID,
    Origin,
    Purged,
    PurgeReport,
    Sourced,
    Trust,
    least,
)
from memory_actors.base.records.usage import (
    KindUsage,
    QuotaUse,
    Usage,
)

__all__ = [
    "DEFAULT_DOCUMENT",
    "IS_COMPRESSED",
    "LEVELS",
    "SOURCES_QUOTED_MAX",
    "UNSAID",
    "Change",
    "ClusterReport",
    "CompactionProgress",
    "CompactionReport",
    "CompactionStats",
    "Context",
    "ContextEntry",
    "ContextHit",
    "ContextPart",
    "ContextReceipt",
    "ContextSize",
    "Diff",
    "Document",
    "DocumentBlock",
    "DocumentInfo",
    "Entity",
    "Episode",
    "EvictedStep",
    "HistoryEntry",
    "Hit",
    "Item",
    "KindUsage",
    "LogEntry",
    "Memory",
    "MemoryType",
    "Metadata",
    "Moment",
    "Neighbour",
    "OnDuplicate",
    "Order",
    "Origin",
    "PurgeReport",
    "Purged",
    "QuotaUse",
    "Recall",
    "Receipt",
    "Relationship",
    "Saving",
    "Sourced",
    "Step",
    "Tier",
    "Time",
    "Trust",
    "Usage",
    "Why",
    "WhyStep",
    "least",
]
