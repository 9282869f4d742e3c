"""An append before it is carried out: what is asked, and what no store would accept."""

import hashlib
import time
from collections.abc import Sequence

import msgspec

from eventlog.checkpoints import ENTRY_KEY_BYTES_MAX, Checkpoint
from eventlog.errors import InvalidAppend
from eventlog.records import ANY_VERSION, STREAM_NAME_BYTES_MAX, Durability, Prepared
from eventlog.tables import U64


class AppendRequest(msgspec.Struct, frozen=True):
    """One append, encoded and checked."""

    stream: str
    events: Sequence[Prepared]
    expected_version: int
    recorded_at_us: int
    epoch: int = 0
    idempotency_key: str | None = None
    digest: bytes = b""
    checkpoint: Checkpoint | None = None


def system_clock_us() -> int:
    """Return the system's time in microseconds since 1970."""
    return time.time_ns() // 1000


def request_digest(events: Sequence[Prepared]) -> bytes:
    """Return what tells one request from another under the same idempotency key."""
    digest = hashlib.sha256()
    for prepared in events:
        digest.update(prepared.tag.encode() + U64.pack(len(prepared.raw)) + prepared.raw)
    return digest.digest()


def check_stream_name(stream: str) -> None:
    """Refuse a name that is no stream's.

    :raises InvalidAppend: it is not a string, empty, over 1 KiB in UTF-8, or not Unicode.
    """
    if not isinstance(stream, str) or not stream:
        raise InvalidAppend("a stream needs a name that is a string and not empty")
    try:
        size = len(stream.encode())
    except UnicodeEncodeError as error:
        raise InvalidAppend(f"stream name {stream!r} is not valid Unicode") from error
    if size > STREAM_NAME_BYTES_MAX:
        raise InvalidAppend(f"stream name takes {size} bytes (max: {STREAM_NAME_BYTES_MAX})")


def check_append(
    stream: str,
    events: Sequence[Prepared],
    expected_version: int,
    durability: Durability,
    idempotency_key: str | None,
) -> None:
    """Refuse a request that no store could carry out.

    :raises InvalidAppend: see the message.
    """
    check_stream_name(stream)
    if not events:
        raise InvalidAppend("an append needs at least one event")
    if expected_version < ANY_VERSION:
        raise InvalidAppend(f"expected version {expected_version} is below 0: use ANY_VERSION")
    if durability == "relaxed" and (expected_version == ANY_VERSION or idempotency_key is not None):
        raise InvalidAppend("a relaxed append needs an expected version and takes no key")


def check_checkpoint(checkpoint: Checkpoint) -> None:
    """Refuse a checkpoint that no store could keep.

    :raises InvalidAppend: the key of an entry is too long.
    """
    longest = max(map(len, checkpoint.writes), default=0)
    if longest > ENTRY_KEY_BYTES_MAX:
        raise InvalidAppend(f"an entry's key takes {longest} bytes (max: {ENTRY_KEY_BYTES_MAX})")
