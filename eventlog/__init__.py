"""An embedded, append-only event store on LMDB: streams, snapshots, subscriptions, deciders.

    registry = EventRegistry()

    @registry.event("account.opened")
    class Opened(msgspec.Struct, frozen=True):
        owner: str

    async with EventLog.open("./data", registry) as log:
        await log.append("account-1", [Opened("Ada")], expected_version=0)

It knows nothing about what the events mean.
"""

from eventlog.backup import BackedUp, Restored, restore
from eventlog.checkpoints import Checkpoint
from eventlog.codec import EventRegistry
from eventlog.copying import Shrunk
from eventlog.decider import Decider
from eventlog.environment import Environment
from eventlog.errors import (
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
    MissingCodec,
    MissingExtra,
    PayloadDropped,
    PayloadErased,
    StorageFailed,
    UnknownEvent,
    WrongExpectedVersion,
    WrongLoop,
)
from eventlog.exporting import Exported
from eventlog.frame import stream_id
from eventlog.heads import Heads, load_heads, write_heads
from eventlog.importing import Imported
from eventlog.inmemory import InMemoryLog
from eventlog.keys import NO_KEYS, Cipher, Keys
from eventlog.log import EventLog, LogStatistics
from eventlog.port import EventStore
from eventlog.records import (
    ANY_VERSION,
    Appended,
    Archived,
    ArchiveStatistics,
    Dropped,
    DroppedPayloads,
    Durability,
    Erased,
    OnDropped,
    Prepared,
    Recorded,
    Snapshot,
    StreamHead,
    to_datetime,
    to_us,
)
from eventlog.repair import LeftBehind, RepairReport, repair
from eventlog.replay import PoisonedStream, replay
from eventlog.requests import system_clock_us
from eventlog.subscription import subscribe
from eventlog.verification import Finding, Progress, VerifyReport

__all__ = [
    "ANY_VERSION",
    "NO_KEYS",
    "Appended",
    "ArchiveStatistics",
    "Archived",
    "BackedUp",
    "BeingErased",
    "Checkpoint",
    "Cipher",
    "ClockOutOfRange",
    "CorruptLog",
    "Decider",
    "DiskFull",
    "Dropped",
    "DroppedPayloads",
    "Durability",
    "EncryptionMismatch",
    "Environment",
    "Erased",
    "EventLog",
    "EventLogError",
    "EventRegistry",
    "EventStore",
    "Exported",
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
    "Shrunk",
    "Snapshot",
    "StorageFailed",
    "StreamHead",
    "UnknownEvent",
    "VerifyReport",
    "WrongExpectedVersion",
    "WrongLoop",
    "load_heads",
    "repair",
    "replay",
    "restore",
    "stream_id",
    "subscribe",
    "system_clock_us",
    "to_datetime",
    "to_us",
    "write_heads",
]
