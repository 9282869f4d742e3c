"""Errors of the event log. Each message says what to do next."""

from typing import Any

from eventlog.core.records import to_datetime


class EventLogError(Exception):
    """Root of every error this package raises on purpose."""


class InvalidAppend(EventLogError, ValueError):
    """The request can never succeed as it is: change it."""


class WrongExpectedVersion(EventLogError):
    """The stream has moved on: read it again, decide again, append again."""

    def __init__(self, stream: str, expected: int, actual: int):
        super().__init__(
            f"stream {stream!r} is at version {actual}, not {expected}: "
            "read the new events, decide again, then append"
        )
        self.stream, self.expected, self.actual = stream, expected, actual


class IdempotencyConflict(EventLogError):
    """The idempotency key was used for another request: use a new key for a new request."""

    def __init__(self, stream: str, key: str):
        super().__init__(
            f"idempotency key {key!r} of stream {stream!r} was used for another request: "
            "use a new key"
        )
        self.stream, self.key = stream, key


class Fenced(EventLogError):
    """A newer owner holds the stream: stop writing to it."""

    def __init__(self, stream: str, epoch: int, current: int):
        super().__init__(
            f"stream {stream!r} is held at epoch {current}, so epoch {epoch} may no longer write: "
            "stop this owner, or acquire the stream again with a higher epoch"
        )
        self.stream, self.epoch, self.current = stream, epoch, current


class TotalExceeded(EventLogError):
    """A total would pass what it is capped at: nothing was kept. Take something away first."""

    def __init__(self, total: str, used: int, more: int, cap: int):
        super().__init__(f"total {total!r} is {used:,} of {cap:,}, and {more:,} more do not fit")
        self.total, self.used, self.more, self.cap = total, used, more, cap


class LeaseLapsed(EventLogError):
    """This node could not renew its lease: others may have its streams. Try again when it has."""


class UnknownEvent(EventLogError):
    """An event type, schema version or format this program cannot read: upgrade, or register it."""


class CorruptLog(EventLogError):
    """Stored bytes are not what was written: restore a backup, or run a verification."""


class MissingSegment(CorruptLog):
    """A file of the archive is not there: restore a backup."""


class LogLocked(EventLogError):
    """Another process has the log open: close it there, or open another directory."""


class LogClosed(EventLogError):
    """The log is closed, or belongs to the process that forked this one: open it here."""


_ANOTHER_LOOP = (
    "this was opened on another event loop and belongs to it: from a thread call "
    "asyncio.run_coroutine_threadsafe(coroutine, the_loop_it_was_opened_on).result(), open it on "
    "the loop that uses it, or use memory_actors.sync, which any thread may call"
)


class WrongLoop(EventLogError, RuntimeError):
    """Used on another event loop than the one it was opened on: call it there, or open it here."""

    def __init__(self, message: str = _ANOTHER_LOOP) -> None:
        super().__init__(message)


class LogUnavailable(EventLogError):
    """The directory or file cannot be opened: see the cause for the reason."""


class LogBusy(LogUnavailable):
    """The log is busy: a write has failed, or too many read. Try again."""


class ClockOutOfRange(EventLogError):
    """The clock says a time that no date can have: set it right, then try again."""


class DiskFull(EventLogError):
    """No room for this write. Nothing of it was written; reads and deletes still work."""


class StorageFailed(EventLogError):
    """The disk failed a write whose outcome is unknown: read the stream before trying again."""


class PayloadDropped(EventLogError):
    """A payload was dropped by retention: only its digest is left. Read with `dropped="mark"`."""

    def __init__(self, stream: str, version: int, since_us: int, how: str = "dropped by retention"):
        super().__init__(
            f"the payload of event {version} of stream {stream!r} was {how} on "
            f"{to_datetime(since_us):%Y-%m-%d %H:%M} UTC; its place in the chain is kept: "
            'read with dropped="mark" to pass over it'
        )
        self.stream, self.version, self.since_us = stream, version, since_us


class PayloadErased(PayloadDropped):
    """A payload was erased: only its digest is left. Read with `dropped="mark"`."""

    def __init__(self, stream: str, version: int, since_us: int):
        super().__init__(stream, version, since_us, how="erased")


class EncryptionMismatch(EventLogError):
    """The log is encrypted and was opened without keys, or it is not and was opened with them."""


class KeysUnavailable(EventLogError):
    """The keys of an encrypted log cannot be used: see the message for the reason."""


class KeyGone(EventLogError):
    """The key of this stream is gone, so nothing of it can be read: erased, or another key file."""


class BeingErased(EventLogError):
    """An erasure of this stream is under way: finish it, then append again."""


class MissingCapability(EventLogError):
    """The store cannot do this: use one that can."""

    def __init__(self, store: str, capability: str, instead: str | None = None):
        instead = instead or "use a store that has this capability, such as EventLog"
        super().__init__(f"{store} cannot do this, for it is no {capability}: {instead}")
        self.store, self.capability = store, capability


class MissingExtra(EventLogError, ImportError):
    """An optional package is not installed: the message names the extra that brings it."""


class MissingCodec(EventLogError):
    """The archive was compressed by a library that is not installed here: install it."""


class PoisonedStream(EventLogError):
    """An event of a stream cannot be folded. `state` is what the events before it made."""

    def __init__(self, stream: str, version: int, state: Any, cause: Exception):
        super().__init__(f"event {version + 1} of stream {stream!r} cannot be folded: {cause!r}")
        self.stream, self.version, self.state = stream, version, state
