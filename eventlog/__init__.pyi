"""The public names, each from its module: for type checkers, and for `import_lazily`."""

# isort: skip_file
# (It would give each name a statement of its own.)

from eventlog.core.capabilities import (
    ArchivingStore as ArchivingStore,
    BackupStore as BackupStore,
    CountingStore as CountingStore,
    ErasingStore as ErasingStore,
    ExportingStore as ExportingStore,
    MeasuredStore as MeasuredStore,
    Progress as Progress,
    ShrinkingStore as ShrinkingStore,
    VerifyingStore as VerifyingStore,
    require as require,
)
from eventlog.core.codec import (
    EventRegistry as EventRegistry,
)
from eventlog.core.decider import (
    Decider as Decider,
    PoisonedStream as PoisonedStream,
    replay as replay,
)
from eventlog.core.errors import (
    BeingErased as BeingErased,
    ClockOutOfRange as ClockOutOfRange,
    CorruptLog as CorruptLog,
    DiskFull as DiskFull,
    EncryptionMismatch as EncryptionMismatch,
    EventLogError as EventLogError,
    Fenced as Fenced,
    IdempotencyConflict as IdempotencyConflict,
    InvalidAppend as InvalidAppend,
    KeyGone as KeyGone,
    KeysUnavailable as KeysUnavailable,
    LogBusy as LogBusy,
    LogClosed as LogClosed,
    LogLocked as LogLocked,
    LogUnavailable as LogUnavailable,
    MissingCapability as MissingCapability,
    MissingCodec as MissingCodec,
    MissingExtra as MissingExtra,
    PayloadDropped as PayloadDropped,
    PayloadErased as PayloadErased,
    StorageFailed as StorageFailed,
    UnknownEvent as UnknownEvent,
    WrongExpectedVersion as WrongExpectedVersion,
    WrongLoop as WrongLoop,
)
from eventlog.core.frame import (
    stream_id as stream_id,
)
from eventlog.core.in_memory import (
    InMemoryLog as InMemoryLog,
)
from eventlog.core.keys import (
    NO_KEYS as NO_KEYS,
    Cipher as Cipher,
    Keys as Keys,
)
from eventlog.core.port import (
    EventStore as EventStore,
)
from eventlog.core.records import (
    ANY_VERSION as ANY_VERSION,
    Appended as Appended,
    Archived as Archived,
    ArchiveStatistics as ArchiveStatistics,
    BackedUp as BackedUp,
    Checkpoint as Checkpoint,
    Dropped as Dropped,
    DroppedPayloads as DroppedPayloads,
    Durability as Durability,
    Erased as Erased,
    Exported as Exported,
    Finding as Finding,
    Heads as Heads,
    Imported as Imported,
    LogStatistics as LogStatistics,
    OnDropped as OnDropped,
    Prepared as Prepared,
    Recorded as Recorded,
    Shrunk as Shrunk,
    Snapshot as Snapshot,
    StreamHead as StreamHead,
    VerifyReport as VerifyReport,
    to_datetime as to_datetime,
    to_us as to_us,
)
from eventlog.core.requests import (
    system_clock_us as system_clock_us,
)
from eventlog.core.subscription import (
    subscribe as subscribe,
)
from eventlog.lmdb.environment import (
    Environment as Environment,
)
from eventlog.lmdb.heads import (
    load_heads as load_heads,
    write_heads as write_heads,
)
from eventlog.log import (
    EventLog as EventLog,
)
from eventlog.upkeep.backup import (
    Restored as Restored,
    restore as restore,
)
from eventlog.upkeep.repair import (
    LeftBehind as LeftBehind,
    RepairReport as RepairReport,
    repair as repair,
)
