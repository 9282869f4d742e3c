"""An append before it is carried out: what is asked, and what no store would accept."""

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from eventlog.core import records
from eventlog.core.codec import EventRegistry
from eventlog.core.errors import ClockOutOfRange, InvalidAppend

I64_MAX = 2**63 - 1
U64_MAX = 2**64 - 1

# Limits of one commit of a store, and of the queue for it. Callers wait while the queue is full, so
# that memory stays bounded.
BATCH_EVENTS_MAX = 1024
BATCH_BYTES_MAX = 4 << 20  # of payloads
QUEUE_EVENTS_MAX = 65_536  # 64 full batches
QUEUE_BYTES_MAX = 64 << 20  # of payloads: 16 full batches, whatever the size of events


class AppendRequest(msgspec.Struct, frozen=True):
    """One append, encoded and checked."""

    stream: str
    events: Sequence[records.Prepared]
    payload_bytes: int
    """The stored size of the payloads of all events."""
    expected_version: int
    recorded_at_us: int
    epoch: int = 0
    idempotency_key: str | None = None
    digest: bytes = b""
    durability: records.Durability = "commit"
    checkpoint: records.Checkpoint | None = None
    use_reserve: bool = False
    counters: Mapping[str, int] = {}
    counted: Callable[[], object] = lambda: None
    """Called on the loop in the step in which `totals_nowait` begins to tell of the append."""
    is_timed: bool = False
    """True if the caller gave the time. Else a store with several clocks may set it forward."""


class TakesAppends(ABC):
    """The `append` of the port up to where stores differ: checked and encoded, then carried out."""

    registry: EventRegistry

    def __init__(self, registry: EventRegistry, clock: Callable[[], int]):
        self.registry = registry
        self._clock = clock

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
        """Append events to a stream, all or none. See `EventStore.append` for the contract."""
        check_stream_name(stream)
        check_int("expected version", expected_version, records.ANY_VERSION, None)
        check_int("epoch", epoch, 0, I64_MAX)
        is_timed = recorded_at_us is not None
        recorded_at_us = self._clock() if recorded_at_us is None else recorded_at_us
        check_int("time", recorded_at_us, -I64_MAX - 1, I64_MAX)
        _check_durability(durability, expected_version, idempotency_key)
        if checkpoint is not None:
            check_checkpoint(checkpoint)
        prepare, packed_meta = self.registry.prepare, self.registry.packed_meta(meta)
        prepared = [
            event if type(event) is records.Prepared else prepare(event, packed_meta)
            for event in events
        ]
        if not prepared:
            raise InvalidAppend("an append needs at least one event")
        ready = AppendRequest(
            stream=stream,
            events=prepared,
            payload_bytes=sum([len(event.body) for event in prepared]),
            expected_version=expected_version,
            recorded_at_us=recorded_at_us,
            epoch=epoch,
            idempotency_key=idempotency_key,
            digest=b"" if idempotency_key is None else _request_digest(prepared, request),
            durability=durability,
            checkpoint=checkpoint,
            use_reserve=use_reserve,
            counters={} if counters is None else _checked_counters(counters),
            counted=counted,
            is_timed=is_timed,
        )
        return await self._append(ready)

    @abstractmethod
    def _append(self, request: AppendRequest) -> Awaitable[records.Appended]:
        """Carry out an append that every store can carry out."""


def system_clock_us() -> int:
    """Return the system's time in microseconds since 1970."""
    return time.time_ns() // 1000


def checked_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """Return a clock that gives times in the years 1 to 9999 only: all others can be no date.

    It raises `ClockOutOfRange` when it is asked and the clock says another.
    """

    def now_us() -> int:
        time_us = clock()
        if not records.TIME_US_MIN <= time_us <= records.TIME_US_MAX:
            raise ClockOutOfRange(
                f"the clock says {time_us:,} microseconds since 1970, which is in none of the "
                "years 1 to 9999: set it right, then try again"
            )
        return time_us

    return now_us


def check_stream_name(stream: str) -> None:
    """Refuse a name that is no stream's.

    :raises InvalidAppend: it is not a string, empty, over 1 KiB in UTF-8, or not Unicode.
    """
    _check_name("stream", stream)


def _check_name(what: str, name: str) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidAppend(f"a {what} needs a name that is a string and not empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidAppend(f"{what} name {name!r} is not valid Unicode") from error
    if size > records.NAME_BYTES_MAX:
        raise InvalidAppend(f"{what} name takes {size} bytes (max: {records.NAME_BYTES_MAX})")


def _checked_counters(counters: Mapping[str, int]) -> dict[str, int]:
    """Return deltas that are some, as a copy: the caller may go on counting in its own."""
    if not isinstance(counters, Mapping) or len(counters) > records.TOTALS_MAX:
        raise InvalidAppend(
            f"counters map up to {records.TOTALS_MAX} names to what is added to each"
        )
    for name, delta in counters.items():
        _check_name("total", name)
        check_int("what is added to a total", delta, -I64_MAX - 1, I64_MAX)
    return {name: delta for name, delta in counters.items() if delta}


def _check_durability(
    durability: records.Durability, expected_version: int, idempotency_key: str | None
) -> None:
    if idempotency_key is not None:
        check_text("idempotency key", idempotency_key)
    if durability not in ("commit", "relaxed"):
        raise InvalidAppend(f"durability {durability!r} is neither commit nor relaxed")
    if durability == "relaxed" and (
        expected_version == records.ANY_VERSION or idempotency_key is not None
    ):
        raise InvalidAppend("a relaxed append needs an expected version and takes no key")


def _request_digest(events: Sequence[records.Prepared], request: bytes | None) -> bytes:
    if request is not None:
        return given_digest(request)
    digest = hashlib.sha256()
    for prepared in events:
        data = prepared.raw[2 + int.from_bytes(prepared.raw[:2], "big") :]  # who asks is no matter
        digest.update(prepared.tag.encode() + len(data).to_bytes(8, "big") + data)
    return digest.digest()


def given_digest(request: bytes) -> bytes:
    """Return the digest of a request that the caller put in bytes.

    :raises InvalidAppend: it is not bytes.
    """
    if not isinstance(request, bytes):
        raise InvalidAppend("what a request was is told in bytes")
    return hashlib.sha256(request).digest()


def check_checkpoint(checkpoint: records.Checkpoint) -> None:
    """Refuse a checkpoint that no store could keep.

    :raises InvalidAppend: a name, position or entry that cannot be stored.
    """
    check_text("checkpoint's name", checkpoint.name)
    check_int("checkpoint's position", checkpoint.position, 0, U64_MAX)
    for key, value in checkpoint.writes.items():
        _check_entry_key(key)
        if not isinstance(value, bytes | None):
            raise InvalidAppend("an entry's value is bytes")


def check_entry(name: str, key: bytes) -> None:
    """Refuse what can be no entry of a checkpoint.

    :raises InvalidAppend: a name that is not text, a key that is not bytes or over 400 of them.
    """
    check_text("checkpoint's name", name)
    _check_entry_key(key)


def _check_entry_key(key: bytes) -> None:
    if not isinstance(key, bytes):
        raise InvalidAppend("an entry's key is bytes")
    if len(key) > records.ENTRY_KEY_BYTES_MAX:
        raise InvalidAppend(
            f"an entry's key takes {len(key)} bytes (max: {records.ENTRY_KEY_BYTES_MAX})"
        )


def check_derived(stream: str, pieces: Mapping[bytes, bytes | None], epoch: int) -> None:
    """Refuse pieces that no store could keep beside a stream.

    :raises InvalidAppend: a name or a piece that is not bytes, a name of a size that no name has.
    """
    check_stream_name(stream)
    check_int("epoch", epoch, 0, I64_MAX)
    for name, piece in pieces.items():
        if not isinstance(name, bytes) or not 0 < len(name) <= records.ENTRY_KEY_BYTES_MAX:
            raise InvalidAppend(f"the name of a piece is 1 to {records.ENTRY_KEY_BYTES_MAX} bytes")
        if not isinstance(piece, bytes | None):
            raise InvalidAppend("a piece is bytes")


def check_setting(name: str, value: bytes = b"") -> None:
    """Refuse what can be no setting of a store.

    :raises InvalidAppend: a name that is not text of 1 to 400 bytes, a value that is not bytes.
    """
    check_text("setting's name", name)
    if not 0 < len(name.encode()) <= records.ENTRY_KEY_BYTES_MAX:
        raise InvalidAppend(f"a setting's name is text of 1 to {records.ENTRY_KEY_BYTES_MAX} bytes")
    if not isinstance(value, bytes):
        raise InvalidAppend("a setting's value is bytes")


def check_snapshot(stream: str, snapshot: records.Snapshot, fingerprint: str) -> None:
    """Refuse a snapshot that no store could keep."""
    check_stream_name(stream)
    check_int("snapshot's version", snapshot.version, 0, U64_MAX)
    check_text("snapshot's fingerprint", fingerprint)
    if not isinstance(snapshot.data, bytes):
        raise InvalidAppend("a snapshot's data is bytes")


def check_int(what: str, value: object, low: int | None, high: int | None) -> None:
    """Refuse what is not exactly an int (a bool would not be read back), or out of its range."""
    if (
        type(value) is not int
        or (low is not None and value < low)
        or (high is not None and value > high)
    ):
        raise InvalidAppend(f"{what} {value!r} is no whole number in its range")


def check_text(what: str, value: Any) -> None:
    """Refuse what is not a string of valid Unicode."""
    try:
        str.encode(value)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidAppend(f"{what} {value!r} is not valid Unicode text") from error
