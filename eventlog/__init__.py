"""An embedded, append-only event store on LMDB: streams, snapshots, subscriptions, deciders.

    registry = EventRegistry()

    @registry.event("account.opened")
    class Opened(msgspec.Struct, frozen=True):
        owner: str

    async with EventLog.open("./data", registry) as log:
        await log.append("account-1", [Opened("Ada")], expected_version=0)

It knows nothing about what the events mean.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from eventlog.core.capabilities import (
    ArchivingStore,
    BackupStore,
    CountingStore,
    ErasingStore,
    ExportingStore,
    MeasuredStore,
    Progress,
    ShrinkingStore,
    VerifyingStore,
    require,
)
from eventlog.core.codec import EventRegistry
from eventlog.core.decider import Decider, PoisonedStream, replay
from eventlog.core.errors import (
    BeingErased,
    ClockOutOfRange,
    CorruptLog,
    DiskFull,
    EncryptionMismatch,
    EventLogError,
    Fenced,
    IdempotencyConflict,
    InvalidAppend,
    KeyGone,
    KeysUnavailable,
    LogBusy,
    LogClosed,
    LogLocked,
    LogUnavailable,
    MissingCapability,
    MissingCodec,
    MissingExtra,
    PayloadDropped,
    PayloadErased,
    StorageFailed,
    UnknownEvent,
    WrongExpectedVersion,
    WrongLoop,
)
from eventlog.core.frame import stream_id
from eventlog.core.in_memory import InMemoryLog
from eventlog.core.keys import NO_KEYS, Cipher, Keys
from eventlog.core.port import EventStore
from eventlog.core.records import (
    ANY_VERSION,
    Appended,
    Archived,
    ArchiveStatistics,
    BackedUp,
    Checkpoint,
    Dropped,
    DroppedPayloads,
    Durability,
    Erased,
    Exported,
    Finding,
    Heads,
    Imported,
    LogStatistics,
    OnDropped,
    Prepared,
    Recorded,
    Shrunk,
    Snapshot,
    StreamHead,
    VerifyReport,
    to_datetime,
    to_us,
)
from eventlog.core.requests import system_clock_us
from eventlog.core.subscription import subscribe

if TYPE_CHECKING:
    from eventlog.lmdb.environment import Environment
    from eventlog.lmdb.heads import load_heads, write_heads
    from eventlog.log import EventLog
    from eventlog.upkeep.backup import Restored, restore
    from eventlog.upkeep.repair import LeftBehind, RepairReport, repair

_ON_LMDB = {
    "Environment": "eventlog.lmdb.environment",
    "EventLog": "eventlog.log",
    "LeftBehind": "eventlog.upkeep.repair",
    "RepairReport": "eventlog.upkeep.repair",
    "Restored": "eventlog.upkeep.backup",
    "load_heads": "eventlog.lmdb.heads",
    "repair": "eventlog.upkeep.repair",
    "restore": "eventlog.upkeep.backup",
    "write_heads": "eventlog.lmdb.heads",
}
"""Names that load LMDB, by module: whoever uses the port alone never loads it."""

__all__ = [
    "ANY_VERSION",
    "NO_KEYS",
    "Appended",
    "ArchiveStatistics",
    "Archived",
    "ArchivingStore",
    "BackedUp",
    "BackupStore",
    "BeingErased",
    "Checkpoint",
    "Cipher",
    "ClockOutOfRange",
    "CorruptLog",
    "CountingStore",
    "Decider",
    "DiskFull",
    "Dropped",
    "DroppedPayloads",
    "Durability",
    "EncryptionMismatch",
    "Environment",
    "Erased",
    "ErasingStore",
    "EventLog",
    "EventLogError",
    "EventRegistry",
    "EventStore",
    "Exported",
    "ExportingStore",
    "Fenced",
    "Finding",
    "Heads",
    "IdempotencyConflict",
    "Imported",
    "InMemoryLog",
    "InvalidAppend",
    "KeyGone",
    "Keys",
    "KeysUnavailable",
    "LeftBehind",
    "LogBusy",
    "LogClosed",
    "LogLocked",
    "LogStatistics",
    "LogUnavailable",
    "MeasuredStore",
    "MissingCapability",
    "MissingCodec",
    "MissingExtra",
    "OnDropped",
    "PayloadDropped",
    "PayloadErased",
    "PoisonedStream",
    "Prepared",
    "Progress",
    "Recorded",
    "RepairReport",
    "Restored",
    "ShrinkingStore",
    "Shrunk",
    "Snapshot",
    "StorageFailed",
    "StreamHead",
    "UnknownEvent",
    "VerifyReport",
    "VerifyingStore",
    "WrongExpectedVersion",
    "WrongLoop",
    "load_heads",
    "repair",
    "replay",
    "require",
    "restore",
    "stream_id",
    "subscribe",
    "system_clock_us",
    "to_datetime",
    "to_us",
    "write_heads",
]


def __getattr__(name: str) -> object:
    if name not in _ON_LMDB:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_ON_LMDB[name]), name)
    globals()[name] = value
    return value
