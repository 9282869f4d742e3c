"""The public names, each from its module: for type checkers, and for `import_lazily`."""

# isort: skip_file
# (It would give each name a statement of its own.)

from eventlog import (
    BackedUp as BackedUp,
    ClockOutOfRange as ClockOutOfRange,
    CorruptLog as CorruptLog,
    DiskFull as DiskFull,
    EncryptionMismatch as EncryptionMismatch,
    EventLogError as EventLogError,
    Exported as Exported,
    Heads as Heads,
    Imported as Imported,
    KeyGone as KeyGone,
    KeysUnavailable as KeysUnavailable,
    LogBusy as LogBusy,
    LogClosed as LogClosed,
    LogLocked as LogLocked,
    LogUnavailable as LogUnavailable,
    MissingCodec as MissingCodec,
    PayloadDropped as PayloadDropped,
    PayloadErased as PayloadErased,
    RepairReport as RepairReport,
    Restored as Restored,
    StorageFailed as StorageFailed,
    UnknownEvent as UnknownEvent,
    VerifyReport as VerifyReport,
    WrongExpectedVersion as WrongExpectedVersion,
)
from memory_actors.api.past import (
    PastMemory as PastMemory,
)
from memory_actors.api.statistics import (
    SystemStatistics as SystemStatistics,
)
from memory_actors.api.system import (
    MemorySystem as MemorySystem,
)
from memory_actors.api.user import (
    UserMemory as UserMemory,
)
from memory_actors.base.api_keys import (
    KeyFileError as KeyFileError,
)
from memory_actors.base.errors import (
    BeingErasedError as BeingErasedError,
    CommandCrashedError as CommandCrashedError,
    ContextFileError as ContextFileError,
    ContextLimitError as ContextLimitError,
    DeadlineExceededError as DeadlineExceededError,
    EmbedderError as EmbedderError,
    GlobalQuotaExceededError as GlobalQuotaExceededError,
    ImprovementError as ImprovementError,
    InvalidInputError as InvalidInputError,
    LLMError as LLMError,
    MemoryActorsError as MemoryActorsError,
    MemoryLimitError as MemoryLimitError,
    MissingExtraError as MissingExtraError,
    ModelMismatchError as ModelMismatchError,
    NotFoundError as NotFoundError,
    NotOpenError as NotOpenError,
    QuarantinedError as QuarantinedError,
    QuotaExceededError as QuotaExceededError,
    ReaderFailedError as ReaderFailedError,
    ReadOnlyError as ReadOnlyError,
    StaleDocumentError as StaleDocumentError,
    StorageFullError as StorageFullError,
    StoreBusyError as StoreBusyError,
    SummarizerError as SummarizerError,
    SystemClosedError as SystemClosedError,
    UnavailableError as UnavailableError,
    WrongLoopError as WrongLoopError,
)
from memory_actors.base.quota import (
    GlobalLimits as GlobalLimits,
    Limits as Limits,
    Plan as Plan,
    Prices as Prices,
)
from memory_actors.base.records import (
    Document as Document,
    Entity as Entity,
    Episode as Episode,
    EvictedStep as EvictedStep,
    HistoryEntry as HistoryEntry,
    Hit as Hit,
    Item as Item,
    KindUsage as KindUsage,
    Memory as Memory,
    Neighbour as Neighbour,
    Origin as Origin,
    QuotaUse as QuotaUse,
    Receipt as Receipt,
    Relationship as Relationship,
    Step as Step,
    Tier as Tier,
    Trust as Trust,
    Usage as Usage,
)
from memory_actors.base.reports import (
    Change as Change,
    ClusterReport as ClusterReport,
    CompactionProgress as CompactionProgress,
    CompactionReport as CompactionReport,
    CompactionStats as CompactionStats,
    Context as Context,
    ContextEntry as ContextEntry,
    ContextHit as ContextHit,
    ContextPart as ContextPart,
    ContextReceipt as ContextReceipt,
    ContextSize as ContextSize,
    Diff as Diff,
    DocumentBlock as DocumentBlock,
    DocumentInfo as DocumentInfo,
    LogEntry as LogEntry,
    Moment as Moment,
    Purged as Purged,
    PurgeReport as PurgeReport,
    Recall as Recall,
    Why as Why,
    WhyStep as WhyStep,
)
from memory_actors.base.settings import (
    SUNDAYS as SUNDAYS,
    Settings as Settings,
)
from memory_actors.base.tokens import (
    CalibratedEstimate as CalibratedEstimate,
    TokenCounter as TokenCounter,
    WordEstimate as WordEstimate,
)
from memory_actors.compaction.summarizers import (
    CallableSummarizer as CallableSummarizer,
    Cluster as Cluster,
    ExtractiveSummarizer as ExtractiveSummarizer,
    OpenAISummarizer as OpenAISummarizer,
    Summarizer as Summarizer,
)
from memory_actors.improve import (
    Critic as Critic,
    Critique as Critique,
    CritiqueFinding as CritiqueFinding,
    Improver as Improver,
    LocalCritic as LocalCritic,
    LocalReviser as LocalReviser,
    OpenAICritic as OpenAICritic,
    OpenAIReviser as OpenAIReviser,
    Reviser as Reviser,
    improve as improve,
    improve_stream as improve_stream,
    recorded_run as recorded_run,
)
from memory_actors.improve.bounded import (
    BoundedDict as BoundedDict,
    BoundedList as BoundedList,
)
from memory_actors.integrations.memory_tool import (
    MemoryTool as MemoryTool,
    MemoryToolError as MemoryToolError,
)
from memory_actors.kinds.context.commands import (
    EditBlock as EditBlock,
    InsertBlock as InsertBlock,
    RemoveBlock as RemoveBlock,
)
from memory_actors.kinds.phrasing import (
    text_digest as text_digest,
)
from memory_actors.kinds.user_state import (
    MemoryType as MemoryType,
)
from memory_actors.observing.alerts import (
    Alert as Alert,
    AlertSink as AlertSink,
    CallbackSink as CallbackSink,
    LogSink as LogSink,
    WebhookSink as WebhookSink,
)
from memory_actors.observing.metrics import (
    Metrics as Metrics,
    PrometheusMetrics as PrometheusMetrics,
)
from memory_actors.observing.monitor import (
    MemoryMonitor as MemoryMonitor,
)
from memory_actors.search.embedding.protocol import (
    Embedded as Embedded,
    Embedder as Embedder,
)
from memory_actors.search.superseding import (
    OpenAISuperseding as OpenAISuperseding,
    Reach as Reach,
    Statement as Statement,
    Superseding as Superseding,
    Verdict as Verdict,
)
from memory_actors.search.token_counters import (
    TokenizerCounter as TokenizerCounter,
)
from memory_actors.search.weights import (
    Weights as Weights,
)
from memory_actors.upkeep.erasing import (
    EraseReceipt as EraseReceipt,
)
from memory_actors.upkeep.offline.repairing import (
    repair_store as repair_store,
)
from memory_actors.upkeep.offline.verifying import (
    verify_store as verify_store,
)
from memory_actors.users.usage import (
    CostEstimate as CostEstimate,
    CostItem as CostItem,
    SystemUsage as SystemUsage,
)
