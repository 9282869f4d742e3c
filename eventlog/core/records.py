"""The values that go into the log and come out of it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

Durability: TypeAlias = Literal["commit", "relaxed"]
"""`commit` answers after fsync; `relaxed` at once, and is on disk within 50 ms."""

OnDropped: TypeAlias = Literal["raise", "mark"]
"""For a missing payload, raise `PayloadDropped` or return `Dropped` as its data."""

ANY_VERSION = -1
"""An expected version that every stream's version meets."""

NAME_BYTES_MAX = 1024  # of a stream or a total
SNAPSHOTS_KEPT = 2  # of a stream: the newest, and the one before it should the newest not load
TOTALS_MAX = 256  # they are one row, written whole with each commit that changes one
META_BYTES_MAX = 4096
DAY_US = 86_400_000_000
ENTRY_KEY_BYTES_MAX = 400  # LMDB's keys end at 511, and the name takes 16

Event = TypeVar("Event", covariant=True)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
decode_meta = msgspec.msgpack.Decoder(dict[str, str]).decode


def to_datetime(time_us: int) -> datetime:
    """Return microseconds since 1970 as an aware UTC datetime.

    Times outside the years 1 to 9999 become the first or the last moment of that range.
    """
    try:
        return _EPOCH + timedelta(0, 0, time_us)
    except OverflowError:
        return to_datetime(TIME_US_MIN if time_us < 0 else TIME_US_MAX)


def to_us(time: datetime) -> int:
    """Return an aware datetime as microseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1)


class Returned(msgspec.Struct, frozen=True):
    """Something that callers get back."""

    __iter__ = None  # its fields are named, not numbered: `in` and loops take `keys()`

    def __getitem__(self, name: str) -> Any:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields: `one[name]` is `one.name`, `dict(one)` has them all."""
        return self.__struct_fields__

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them: times as ISO 8601, lists, and a path as its text."""
        return msgspec.json.decode(self._json(), type=dict[str, Any])

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self._json().decode()

    def _json(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)


TIME_US_MIN = to_us(datetime.min.replace(tzinfo=UTC))
TIME_US_MAX = to_us(datetime.max.replace(tzinfo=UTC))


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """An event encoded for the log, before it has a place in a stream."""

    event: object
    tag: str
    schema: int
    salt: bytes
    """16 random bytes before the payload: a digest alone does not let anyone test a guess."""
    raw: bytes
    """The payload: meta length, meta, data."""
    body: bytes
    """The payload as stored: `raw`, or `raw` compressed."""
    compressed: bool
    keys: tuple[str, ...]

    @property
    def stored_bytes(self) -> int:
        """Bytes the payload takes in the log."""
        return len(self.body)

    @property
    def raw_meta(self) -> bytes:
        """The meta strings, packed, as the payload has them."""
        return self.raw[2 : 2 + int.from_bytes(self.raw[:2], "big")]


class Recorded(msgspec.Struct, Generic[Event], frozen=True, gc=False):
    """One event with its place in the log."""

    stream: str
    version: int
    """1 for the first event of a stream."""
    position: int
    """Place in the whole log, from 1 and without gaps; 0 while the append is not confirmed."""
    recorded_at_us: int
    tag: str
    data: Event
    raw_bytes: int
    stored_bytes: int
    """Payload bytes after compression; less than `raw_bytes` when it was compressed."""
    raw_meta: bytes

    @property
    def recorded_at(self) -> datetime:
        """The time at which the log got it, in UTC."""
        return to_datetime(self.recorded_at_us)

    @property
    def meta(self) -> dict[str, str]:
        """The meta strings given with the append: by whom, and why."""
        return decode_meta(self.raw_meta) if self.raw_meta else {}

    @property
    def compressed(self) -> bool:
        """True if the payload is stored compressed."""
        return self.stored_bytes < self.raw_bytes


AnyRecorded: TypeAlias = Recorded[Any]
"""An event of a log that holds several types: `tag` says of which it is."""
Rewrite: TypeAlias = Callable[[Any], object]
"""Takes the decoded fields of an event and returns those that replace them."""


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """Stands for the data of an event whose payload is gone: dropped by retention, or erased."""

    since_us: int
    erased: bool = False
    key_gone: bool = False
    """Of `read_all` alone: it is there, and its key is not. `since` is when it was recorded."""

    @property
    def since(self) -> datetime:
        """The time at which it went, in UTC."""
        return to_datetime(self.since_us)


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The place that an append got."""

    stream: str
    first_version: int
    last_version: int
    last_position: int
    """0 for a relaxed append, which is answered before it has one."""
    duplicate: bool = False
    """True when the idempotency key had been used: this is the first result, nothing was added."""


class StreamHead(msgspec.Struct, frozen=True, gc=False):
    """The end of a stream. A stream that never was has version 0 and epoch 0."""

    version: int = 0
    epoch: int = 0
    stored_bytes: int = 0
    chain: bytes = b""
    erased_version: int = 0
    """Up to which the stream is erased; what follows was appended since."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to read: it never was, or all of it is erased."""
        return self.version == self.erased_version


class LiveNode(msgspec.Struct, frozen=True):
    """A process that has a store open and a lease, among others that have."""

    id: str
    address: bytes
    """The place where others reach it, as the node gave it."""


class StreamClaim(msgspec.Struct, frozen=True):
    """The answer to a claim of a stream."""

    epoch: int
    """Of the stream: its holder writes under it."""
    holder: LiveNode | None = None
    """The node that has the stream; None: it is now that of the node that asked."""


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A state as bytes, and the version of the stream it stands for."""

    version: int
    data: bytes


class Archived(msgspec.Struct, frozen=True, gc=False):
    """The result of a call of `archive`."""

    events: int = 0
    """Events whose payloads were moved; the others had been before."""
    segments: int = 0
    hot_bytes: int = 0
    """Taken out of the rows that are read at every replay."""
    archive_bytes: int = 0
    """Written instead, salts included."""


class DroppedPayloads(msgspec.Struct, frozen=True, gc=False):
    """The result of a call of `drop_archived`."""

    events: int = 0
    segments: int = 0
    archive_bytes: int = 0


class Erased(msgspec.Struct, frozen=True, gc=False):
    """The result of a call of `erase`. It holds nothing of what was erased."""

    events: int = 0
    """Events whose payloads are gone; their places in the log and the chain stay."""
    erased_at_us: int = 0
    """0 when there was nothing to erase."""
    segments: int = 0
    """Files of the archive that were deleted."""
    before_bytes: int = 0
    after_bytes: int = 0
    """Of the store's file."""
    key_deleted: bool = False
    """True if this stream, of an encrypted log, had a key, which is deleted now."""


class ArchiveStatistics(msgspec.Struct, frozen=True, gc=False):
    """The size of the archive, of one stream or of all."""

    segments: int = 0
    events: int = 0
    raw_bytes: int = 0
    """Of their payloads, uncompressed."""
    archive_bytes: int = 0
    dropped_segments: int = 0
    dropped_events: int = 0


class Checkpoint(msgspec.Struct, frozen=True):
    """A subscriber's position and the entries that go with it."""

    name: str
    position: int
    writes: Mapping[bytes, bytes | None] = {}
    """Entries of the projection `name` to put, by key of up to 400 bytes; None deletes one."""


# --- what work on a whole store has come to


class LogStatistics(Returned, frozen=True):
    """Counts since a log was opened, and its size."""

    last_position: int
    queued_events: int
    events_appended: int
    batches: int
    relaxed_lost: int
    """Events acknowledged as relaxed whose write failed afterwards."""
    used_bytes: int


class Shrunk(msgspec.Struct, frozen=True):
    """The bytes of a file before and after it was shrunk; the same if there was little to gain."""

    before_bytes: int
    after_bytes: int


class Copied(Returned, frozen=True):
    """A copy of a log that was written and verified."""

    target: str
    """Its directory, or its schema in a database."""
    position: int
    """Of its last event: it has as many events."""
    size_bytes: int = 0
    """Of its files; 0 in a database."""
    replaced: str | None = None
    """The new place of the log that was there before."""


class Head(Returned, frozen=True):
    """The end of a stream."""

    version: int
    chain: str
    """In hex digits."""


class Heads(Returned, frozen=True):
    """The ends of a log and of its streams at one moment."""

    format: int
    published_at_us: int
    position: int
    digest: str
    """SHA-256 over the chain values of events 1 to `position`, in hex digits."""
    streams: dict[str, Head]
    """By stream id, in hex digits."""


class Finding(Returned, frozen=True):
    """One thing that is not as it should be."""

    position: int
    """0 where it is not about one event."""
    stream: str
    message: str


class VerifyReport(Returned, frozen=True):
    """The result of a verification."""

    events: int
    streams: int
    findings: list[Finding]
    archived_events: int = 0
    """Events whose payloads are in the archive."""
    dropped_events: int = 0
    """Events whose payloads retention has dropped: only their digests were verified."""
    erased_events: int = 0
    unread_events: int = 0
    """Encrypted events whose key is not here: only their digests were verified."""
    redacted_events: int = 0
    """Events with words taken out: the chain does not cover what they say now."""

    @property
    def ok(self) -> bool:
        """True if nothing was found."""
        return not self.findings


class LeftBehind(Returned, frozen=True):
    """The part of a stream that was not whole."""

    stream: str
    """Its id, in hex digits."""
    kept: int
    """The number of its events in the new log."""
    lost: int
    """The number of its events that are known to be missing."""
    reason: str


class RepairReport(Returned, frozen=True):
    """The result of a repair."""

    directory: str
    events: int
    """In the new log."""
    streams: int
    unreadable: int
    """Positions of the old log at which there was no whole event."""
    left_behind: list[LeftBehind]
    missing: int | None
    """Events that the old log or its anchor knows of, beyond those that are in the new one or in
    `left_behind`: whose they were cannot be told. None: neither says how many there were."""

    @property
    def is_whole(self) -> bool:
        """True if it is known that nothing was left behind."""
        return not self.left_behind and self.missing == 0
