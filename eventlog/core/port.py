"""The port of an event store: what every store must do to stand behind the memory.

`EventLog` (LMDB) and `PgEventStore` implement it, and so does the shortest store, in
`tests/support/in_memory_log.py`. `tests/contracts` says what it means and runs over all of them.
Every method is a coroutine, so that a store may live behind a network. A store may do more:
capabilities.py names what.

Ownership: each stream has an epoch, 0 at first. `acquire(stream, epoch)` raises it; an append or an
acquire with a lower epoch than the stream's is `Fenced`. A placement layer hands out rising epochs,
and a former owner that wakes up late is refused by the store, not by good manners.

Names: reads and writes alike raise `InvalidAppend` for the name of a stream that is not a string,
empty, over 1 KiB or not Unicode, and for another name or key that could not be stored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from eventlog.core import records
from eventlog.core.codec import EventRegistry


class EventStore(Protocol):
    """Streams of events, appended atomically under an expected version."""

    registry: EventRegistry

    async def append(
        self,
        stream: str,
        events: Sequence[object],
        expected_version: int,
        *,
        epoch: int = 0,
        idempotency_key: str | None = None,
        request: bytes | None = None,
        durability: records.Durability = "commit",
        meta: Mapping[str, str] | None = None,
        recorded_at_us: int | None = None,
        checkpoint: records.Checkpoint | None = None,
        use_reserve: bool = False,
        counters: Mapping[str, int] | None = None,
        counted: Callable[[], object] = lambda: None,
    ) -> records.Appended:
        """Append events (registered Structs, or `Prepared` ones) to a stream, all or none.

        `idempotency_key` makes a retry harmless: the same key with the same request returns the
        first result. Two requests are the same when their events are, or, if `request` is given,
        when those bytes are. `relaxed` takes no key and needs an explicit version.
        `use_reserve` lets an append into the last room of a log that is at its size limit: for
        deletes, which have to be recorded too. A caller that is cancelled while it waits does not
        undo the append.

        `counters` is added to the totals in the same transaction (see `CountingStore`): it counts
        if and only if the events are there, and once for each idempotency key. A total begins at 0
        and never leaves 0..2**63-1; there are at most 256 that are not 0. `counted` is called on
        the loop in the very step in which `totals_nowait` begins to tell of the append, so that
        room that was set aside for it is not counted beside it; never for one that fails, or was
        made before. Both are for a `CountingStore` alone.

        :raises WrongExpectedVersion: the stream is at another version (`ANY_VERSION` accepts all).
        :raises Fenced: `epoch` is lower than the stream's.
        :raises IdempotencyConflict: the key was used for another request.
        :raises InvalidAppend: no events, a name that is empty, over 1 KiB or not Unicode, an event
            of an unregistered type or too large, or a total that would leave its range.
        :raises DiskFull: no room; nothing was kept.
        :raises StorageFailed: the disk failed; the outcome is unknown until the stream is read.
        :raises LogClosed: the log is closed.
        """

    async def acquire(self, stream: str, epoch: int) -> records.StreamHead:
        """Make `epoch` the stream's, so that lower ones are refused; return its head.

        :raises Fenced: the stream's epoch is higher.
        """

    async def head(self, stream: str) -> records.StreamHead:
        """Return the end of a stream; version 0 if it never was."""

    async def streams(self) -> list[str]:
        """Return the name of every stream, in no useful order; an erased one has none."""

    async def read_stream(
        self, stream: str, after: int = 0, limit: int = 512, *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return up to `limit` events of a stream behind version `after`, in order.

        :raises PayloadDropped: the payload of one of them was dropped by retention, or erased
            (`PayloadErased`); with `dropped="mark"` its data is `Dropped` instead. All reads behave
            the same.
        """

    async def read_all(
        self, after: int = 0, limit: int = 512, *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return up to `limit` events of the log behind position `after`, in order.

        :raises KeyGone: one of them is encrypted under a key that is gone; with `dropped="mark"`
            its data is `Dropped`. Reads of one stream raise it either way.
        """

    async def read_event(
        self, position: int, *, dropped: records.OnDropped = "raise"
    ) -> records.AnyRecorded | None:
        """Return the event at a position, None if there is none."""

    async def read_versions(
        self, stream: str, versions: Sequence[int], *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return these events of a stream, which must exist, in the order asked for."""

    async def versions_about(self, stream: str, key: str) -> list[int]:
        """Return the versions of a stream's events whose type names `key`, in order."""

    async def find_request(
        self, stream: str, idempotency_key: str, request: bytes
    ) -> records.Appended | None:
        """Return the first result of this request's idempotency key, or None if it is new.

        :raises IdempotencyConflict: the key was used for another request.
        """

    async def save_snapshot(
        self, stream: str, snapshot: records.Snapshot, fingerprint: str
    ) -> None:
        """Keep a snapshot beside the newest one before it; older ones go.

        One that is ahead of its stream rests on a relaxed append that was lost: it is not kept.
        """

    async def load_snapshot(
        self, stream: str, fingerprint: str, *, until: int | None = None
    ) -> records.Snapshot | None:
        """Return the newest whole snapshot taken under this schema fingerprint, if any.

        With `until`, the newest that stands for this version of the stream or an earlier one.
        """

    async def save_checkpoint(self, checkpoint: records.Checkpoint) -> None:
        """Store how far a subscriber has come, with the entries that go with it, atomically."""

    async def load_checkpoint(self, name: str) -> int:
        """Return a subscriber's position, 0 if it has none."""

    async def load_entry(self, name: str, key: bytes) -> bytes | None:
        """Return one entry that a subscriber stored with its checkpoint."""

    async def wait_beyond(self, position: int) -> int:
        """Wait until the log holds an event behind `position`; return the position of its last one.

        0 when the log closes.
        """

    async def flush(self) -> None:
        """Return when everything accepted so far, relaxed appends included, is durable."""
