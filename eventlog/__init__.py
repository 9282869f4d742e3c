"""An embedded, append-only event store on LMDB: streams, snapshots, subscriptions, deciders.

    registry = EventRegistry()

    @registry.event("account.opened")
    class Opened(msgspec.Struct, frozen=True):
        owner: str

    async with EventLog.open("./data", registry) as log:
        await log.append("account-1", [Opened("Ada")], expected_version=0)

It knows nothing about what the events mean.
"""

from eventlog.audit import Finding, VerifyReport
from eventlog.checkpoints import Checkpoint
from eventlog.codec import EventRegistry
from eventlog.copying import Shrunk
from eventlog.decider import Decider
from eventlog.environment import Environment
from eventlog.errors import (
    CorruptLog,
    DiskFull,
    EventLogError,
    Fenced,
    IdempotencyConflict,
    InvalidAppend,
    LogClosed,
    LogLocked,
    LogUnavailable,
    MissingCodec,
    PayloadDropped,
    StorageFailed,
    UnknownEvent,
    WrongExpectedVersion,
)
from eventlog.inmemory import InMemoryLog
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
    OnDropped,
    Prepared,
    Recorded,
    Snapshot,
    StreamHead,
)
from eventlog.replay import PoisonedStream, replay
from eventlog.subscription import subscribe

__all__ = [
    "ANY_VERSION",
    "Appended",
    "ArchiveStatistics",
    "Archived",
    "Checkpoint",
    "CorruptLog",
    "Decider",
    "DiskFull",
    "Dropped",
    "DroppedPayloads",
    "Durability",
    "Environment",
    "EventLog",
    "EventLogError",
    "EventRegistry",
    "EventStore",
    "Fenced",
    "Finding",
    "IdempotencyConflict",
    "InMemoryLog",
    "InvalidAppend",
    "LogClosed",
    "LogLocked",
    "LogStatistics",
    "LogUnavailable",
    "MissingCodec",
    "OnDropped",
    "PayloadDropped",
    "PoisonedStream",
    "Prepared",
    "Recorded",
    "Shrunk",
    "Snapshot",
    "StorageFailed",
    "StreamHead",
    "UnknownEvent",
    "VerifyReport",
    "WrongExpectedVersion",
    "replay",
    "subscribe",
]
