"""The messages between an actor and its callers, its batches and its hooks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from eventlog import (
    DiskFull,
    Durability,
    EventLogError,
    Fenced,
    IdempotencyConflict,
    InvalidAppend,
    Prepared,
    Recorded,
    TotalExceeded,
)
from eventlog.core.records import AnyRecorded
from eventlog.core.waiting import settle
from memory_actors.base.errors import (
    CommandCrashedError,
    DeadlineExceededError,
    GlobalQuotaExceededError,
    InvalidInputError,
    MemoryActorsError,
    MovedError,
    StorageFullError,
    UnavailableError,
)

if TYPE_CHECKING:
    import asyncio

Seen = TypeVar("Seen", contravariant=True)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A command with what the log should know about it."""

    command: Any
    meta: dict[str, str] = {}
    durability: Durability = "commit"
    frees: bool = False
    """True if it makes room: it is let in when the log is at its size limit."""
    alone: bool = False
    """True if it is decided in a batch of its own: it has to see all before it in the log."""
    idempotency_key: str | None = None
    digest: bytes = b""
    """The digest of what the caller asked: the same key with another digest is a conflict."""
    accepted: Callable[[], object] | None = None
    """Called once it is decided that the command is carried out, before its events are appended."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command: its events, now in the log, and the states before and after."""

    events: Sequence[AnyRecorded]
    before: Any
    """The state it was decided on. A caller cannot know it: others may have been in front."""
    state: Any
    duplicate: bool = False
    """True when the idempotency key had been used: these are the first events, and both states
    are the present one."""
    repeated: bool = False
    """True when the command was carried out before, for the same call of another process: these
    are the events and the states of then, and the ids may not be those that it has now."""


class Behaviour(Protocol[Seen]):
    """The hooks of an actor: all that it does and that is not in its decider."""

    async def enrich(self, command: object, state: Seen) -> object:
        """Add to a command what its decision needs and may not look up itself."""

    def check_totals(self, before: Seen, after: Seen) -> None:
        """Refuse a decision that would pass a limit over all streams; nothing is claimed.

        :raises MemoryActorsError: there is no room for it.
        """

    def admit(self, before: Seen, after: Seen) -> Mapping[str, int]:
        """Claim room for a decision's changes to the totals over all streams; return them.

        :raises MemoryActorsError: there is no room for it; nothing is claimed.
        """

    def release(self, changes: Mapping[str, int]) -> None:
        """Give back what was claimed: the append has counted it, or was not made."""

    def published(self, events: Sequence[Recorded[object]], before: Seen, after: Seen) -> None:
        """Take note of events that have become part of the state: update what is derived."""

    def rebuilt(self, state: Seen) -> None:
        """Take note that the state was read again from the log."""

    def fenced(self) -> None:
        """Take note that another process has the stream: this actor writes to it no more."""


def unavailable(error: EventLogError) -> MemoryActorsError:
    """Return an error of the log in this package's terms: by what the caller does next."""
    if isinstance(error, TotalExceeded):
        return _over(error)
    kind: type[MemoryActorsError] = UnavailableError
    if isinstance(error, IdempotencyConflict | InvalidAppend):
        kind = InvalidInputError
    elif isinstance(error, DiskFull):
        kind = StorageFullError
    elif isinstance(error, Fenced):
        kind = MovedError
    translated = kind(f"the log refused the write: {error}")
    translated.__cause__ = error
    return translated


def _over(error: TotalExceeded) -> GlobalQuotaExceededError:
    """Return the refusal of what other processes left no room for since it was decided."""
    refusal = GlobalQuotaExceededError(
        f"All users together hold {error.used:,} of {error.cap:,} ({error.total}), and this adds "
        f"{error.more:,}: delete memories of some, or raise Settings.global_limits.",
        kind=error.total.partition(".")[0],
        used=error.used,
        limit=error.cap,
        unit="bytes" if error.total.endswith("bytes") else "count",
        tier="all users",
    )
    refusal.__cause__ = error
    return refusal


def crashed(error: Exception) -> CommandCrashedError:
    """Return the error for a command that raised an unexpected exception."""
    translated = CommandCrashedError(f"the command crashed: {error!r}; nothing of it was kept")
    translated.__cause__ = error
    return translated


def late(deadline_s: float) -> DeadlineExceededError:
    """Return the error for a call whose deadline has passed."""
    return DeadlineExceededError(
        f"no answer within {deadline_s:g} s: it may still be carried out; read, then retry"
    )


BATCH_COMMANDS_MAX = 64  # decided in one go: about 2 ms on the loop
BATCH_PAYLOAD_BYTES_MAX = 1 << 20

S = TypeVar("S")


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request in the mailbox, and who waits for its answer."""

    request: Request
    answer: "asyncio.Future[Reply]"
    alarm: "asyncio.TimerHandle"
    """Tells who waits that the deadline has passed."""
    caller: object
    """The mark of who asks, for whoever traces. See tracing.py."""

    def settle(self, outcome: Reply | Exception) -> None:
        """Answer the caller, if they still wait."""
        self.alarm.cancel()
        settle(self.answer, outcome)


@dataclass(slots=True)
class CommandBatch(Generic[S]):
    """Commands decided together, and what they would lead to."""

    state: S
    version: int
    now_us: int
    prepared: list[Prepared] = field(default_factory=list)
    events: list[AnyRecorded] = field(default_factory=list)
    outcomes: list[tuple[QueuedRequest, Reply | Exception]] = field(default_factory=list)
    payload_bytes: int = 0
    changes: list[Mapping[str, int]] = field(default_factory=list)
    """The changes of the totals over all streams by each command."""

    @property
    def is_full(self) -> bool:
        """True if no other command is to be decided with these."""
        return (
            len(self.outcomes) >= BATCH_COMMANDS_MAX or self.payload_bytes > BATCH_PAYLOAD_BYTES_MAX
        )

    def total_changes(self) -> dict[str, int]:
        """Return by how much all commands together change the totals."""
        total: dict[str, int] = {}
        for change in self.changes:
            for name, amount in change.items():
                total[name] = total.get(name, 0) + amount
        return {name: amount for name, amount in total.items() if amount}


def tentative(stream: str, version: int, event: Prepared, now_us: int) -> Recorded[object]:
    """Return an event as it will be recorded, but for its position."""
    return Recorded(
        stream, version, 0, now_us, event.tag, event.event, len(event.raw), event.stored_bytes,
        event.raw_meta,
    )  # fmt: skip
