"""Capabilities of a store beyond its port: one protocol for each.

A store has a capability if it has its methods; nothing has to be declared. A feature that needs one
asks for it with `require`, which refuses with an error that names it. Therefore a store that can
only append and read still serves all other features.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from eventlog.core import records
from eventlog.core.errors import MissingCapability

Progress: TypeAlias = Callable[[int, int], None]
"""Takes how much of a long piece of work is done, and how much there is."""
Also: TypeAlias = Callable[[Path], object]
"""Puts more files into a directory that is being made."""
Capability = TypeVar("Capability")
State = TypeVar("State")
Fold: TypeAlias = Callable[[Sequence[records.AnyRecorded], State], State]
"""Returns a state after some events, in order."""


def require(store: object, capability: Callable[..., Capability]) -> Capability:
    """Return a store as one that has a capability: one of the protocols of this file.

    A store that lacks one may say in `INSTEAD`, by the name of the protocol, what to do instead.

    :raises MissingCapability: it has not.
    """
    # mypy takes no protocol for a `type[...]` (type-abstract), but does take it for a callable.
    protocol = cast("type[Capability]", capability)
    if not isinstance(store, protocol):
        name, instead = protocol.__name__, getattr(store, "INSTEAD", {})
        raise MissingCapability(type(store).__name__, name, instead.get(name))
    return store


@runtime_checkable
class CountingStore(Protocol):
    """Keeps totals: named numbers that appends change in their own transaction."""

    async def totals(self) -> dict[str, int]:
        """Return every committed total that is not 0, by name.

        :raises CorruptLog: they are not what was stored.
        """

    def totals_nowait(self) -> dict[str, int]:
        """Return every total that is not 0, at once: committed ones, and relaxed appends accepted.

        The result includes every append that has returned. A caller can therefore keep a limit: add
        your own pending amounts, and subtract each no earlier than its `append` has returned. The
        same is true if `append` raises, except for a cancelled caller: its append may still land,
        and is sure to have counted after `flush`. A relaxed append that is lost is taken out again.
        """


@runtime_checkable
class CappingStore(CountingStore, Protocol):
    """Keeps totals below caps, whichever process appends: for stores that several share."""

    def cap_totals(self, caps: Mapping[str, int]) -> None:
        """Refuse each later append of this process that adds to a total and would pass its cap.

        Such an append raises `TotalExceeded`, and writes nothing.
        """


@runtime_checkable
class ArchivingStore(Protocol):
    """Moves the payloads of events that are hardly ever read out of the store's hot part.

    No read shows it. Retention may drop what was archived long ago; the events stay, with their
    places, times and digests, and a read says of each that its payload is gone.
    """

    async def archive(self, stream: str, versions: Sequence[int]) -> records.Archived:
        """Move the payloads of these events of a stream out of the hot part of the store.

        Payloads that were moved already are skipped. No read shows that it happened.

        :raises InvalidAppend: the stream has no such event; nothing was moved.
        """

    async def drop_archived(
        self, before_us: int, stream: str | None = None
    ) -> records.DroppedPayloads:
        """Delete the payloads that were archived before a time, for good; of one stream, or of all.

        The time of archiving counts, not the time of recording: a grace period begins when they are
        moved. They go together as they were moved together: those of one call of `archive` have one
        time, or a few.
        """


@runtime_checkable
class ErasingStore(Protocol):
    """Erases streams, so that no byte of their payloads is left."""

    async def erase(
        self,
        stream: str,
        *,
        counted: Mapping[str, int] | None = None,
        projections: Sequence[str] = (),
        epoch: int | None = None,
    ) -> records.Erased:
        """Delete the payloads of all events of a stream, wherever they are, for good.

        Also its name, its snapshots, idempotency keys and index of keys, what was derived from it,
        and the checkpoints and entries of `projections`. `counted`, what the stream has added to
        the totals, is taken out of them, down to 0. Each event keeps its place, type, times, sizes
        and digest, so that the chain still verifies; it reads as an event whose payload was
        dropped, under another name.

        The stream may be written to again: its versions continue after the erased ones, and
        `StreamHead` has the last erased version. To erase what is erased is to erase nothing.

        :raises Fenced: the stream has another epoch than this one; nothing was erased.
        """


@runtime_checkable
class RedactingStore(Protocol):
    """Takes words out of events that stay."""

    async def redact(self, stream: str, rewrite: records.Rewrite) -> int:
        """Replace the data of events of a stream by what `rewrite` makes of it; return how many.

        `rewrite` takes and returns plain data, as it is stored; it is called in a thread, for each
        event with a payload, and must leave the event one of its type and schema, with the same
        keys. No byte of what was there is left in the store. Each event keeps its place, type,
        times, sizes and digest, so that the chain still verifies. Snapshots of the stream go.
        """
        ...


@runtime_checkable
class DerivingStore(Protocol):
    """Keeps what was derived from a stream beside it, for whichever process has the stream next.

    It is kept in pieces under names. All of it is optional: what is not there is derived again.
    """

    async def save_derived(
        self, stream: str, pieces: Mapping[bytes, bytes | None], *, epoch: int
    ) -> bool:
        """Keep pieces by name, all or none; None deletes one. Say whether they were kept.

        They are not if the stream has another epoch, or nothing to read: it never was, or it was
        erased. Therefore an owner that is fenced, or late, stores nothing.

        :raises InvalidAppend: a name is no bytes, empty, or over 400 of them; a piece is no bytes.
        """

    async def load_derived(
        self, stream: str, names: Sequence[bytes] | None = None
    ) -> dict[bytes, bytes]:
        """Return the existing pieces with these names, or all pieces without `names`."""


@runtime_checkable
class SettingStore(Protocol):
    """Keeps small values under names, which all processes that share the store must agree on."""

    async def load_setting(self, name: str) -> bytes | None:
        """Return the value under a name, None if nobody has saved one."""

    async def save_setting(self, name: str, value: bytes, *, expected: bytes | None) -> bool:
        """Save a value, if the one there is the `expected` one; None: if there is none.

        Say whether `value` is there now. Repeating a save after a lost answer gives the same
        result. If two callers replace the same value, one of them gets False.

        :raises InvalidAppend: the name is not text of 1 to 400 bytes, or the value is no bytes.
        """


@runtime_checkable
class LocatingStore(Protocol):
    """Finds a place in a stream in one step, where others read one event after the other."""

    async def version_at(
        self, stream: str, *, position: int | None = None, recorded_at_us: int | None = None
    ) -> int:
        """Return the version of a stream's last event at or before a position, or else a time.

        It is 0 if there is none. A caller may have given times that go back; then a time may match
        several places, and the result is the one that a binary search finds.

        :raises CorruptLog: the events there are not what was stored.
        """


@runtime_checkable
class ChainedStore(Protocol):
    """Tells the chain of an event, by which derived data knows the history that it is of."""

    async def chain_at(self, stream: str, version: int) -> bytes:
        """Return the chain value of an event, which covers those before it; empty without it."""


@runtime_checkable
class FoldingStore(Protocol):
    """Folds events where it reads them, a few at a time: they are in the processor's cache then.

    `replay` uses it where a store has it, and reads and then folds elsewhere.
    """

    async def fold_stream(
        self, stream: str, fold: Fold[State], state: State, after: int, limit: int,
        *, dropped: records.OnDropped = "raise",
    ) -> tuple[State, int]:  # fmt: skip
        """Return a state after up to `limit` events behind a version, and their number.

        `fold` is called in a thread. It raises the errors of `fold` and of `read_stream`.
        """


@runtime_checkable
class BackupStore(Protocol):
    """Writes a copy of itself to a directory."""

    async def backup(self, directory: str | Path, *, also: Also | None = None) -> records.Copied:
        """Write a copy of the store as it is at one moment to a new directory, and verify it.

        `also(path)` is called in a thread to put more into the directory, which appears whole, or
        not at all.

        :raises LogUnavailable: there is something at `directory` already, or it cannot be made.
        :raises DiskFull: the disk is full; no file remains.
        :raises StorageFailed: a write failed; no file remains.
        :raises CorruptLog: the store, and so its copy, is damaged; there is nothing of it.
        """


@runtime_checkable
class ShrinkingStore(Protocol):
    """Gives bytes back that it does not need any more."""

    async def shrink(self, *, force: bool = False) -> records.Shrunk:
        """Make the store as small as what is in it; only where that is worth it, unless `force`d.

        :raises DiskFull: there is no room to do it; nothing was changed.
        :raises CorruptLog, StorageFailed: see the message.
        """


@runtime_checkable
class VerifyingStore(Protocol):
    """Publishes where it stands, and checks that all of it is what was written."""

    async def heads(self) -> records.Heads:
        """Return where the store and its streams stand, to be published. Reads all of it."""

    async def verify(
        self, progress: Progress | None = None, *, against: records.Heads | None = None
    ) -> records.VerifyReport:
        """Check every event, chain and index; `progress(done, total)` is called from a thread.

        With `against`, heads that were published, also whether history up to them is unchanged.
        """


@runtime_checkable
class MeasuredStore(Protocol):
    """Counts what it does."""

    def statistics(self) -> records.LogStatistics:
        """Return counters and sizes."""


class Leases(Protocol):
    """The lease of one of the processes that share a store, and the streams that it claims."""

    lapsed: Callable[[], object]
    """Called on the loop when the lease had expired before it was renewed, and before this node
    vouches for anything again: others may have any of its streams."""

    async def claim(self, stream: str) -> records.StreamClaim:
        """Claim a stream: it is this node's, at a new epoch, unless a node that lives has it.

        :raises LeaseLapsed: this node has no lease at the moment.
        """

    async def release(self, stream: str, epoch: int) -> None:
        """Give a claim up, so that others need not wait for the lease to expire."""

    async def holder(self, stream: str) -> records.LiveNode | None:
        """Return the node that lives and has a stream, be it this one; None: nobody has it."""

    async def release_all(self) -> None:
        """Give every claim of this node up."""

    async def nodes(self) -> list[records.LiveNode]:
        """Return the other nodes whose lease has not expired."""

    def seconds_left(self) -> float:
        """Return for how long this node may answer from what it holds.

        By its own monotonic clock, and less than the lease: at 0 or below others may be about to
        take over, and what it holds may be old.
        """


@runtime_checkable
class LeasingStore(Protocol):
    """Lets several processes share it, each of which has some of the streams."""

    def leases(self, address: bytes) -> AbstractAsyncContextManager[Leases]:
        """Hold a lease for this process, which others reach at `address`, for a block.

        :raises LogUnavailable: the database cannot be reached.
        """
