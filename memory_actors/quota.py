"""The limits of a user's memory, and the words in which they refuse."""

from typing import NoReturn

import msgspec

from memory_actors.errors import QuotaExceededError

KIB = 1024
MIB = 1024 * KIB
DEFAULT_TIER = "pro"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one user may hold. Sizes are UTF-8 bytes of content before compression."""

    working_keys: int = 100
    working_bytes: int = 10 * KIB
    short_term_messages: int = 100  # in each session
    short_term_bytes: int = MIB  # in each session
    short_term_ttl_s: int = 3600  # renewed by each message
    long_term_memories: int = 10_000
    long_term_bytes: int = 100 * MIB


def refuse_count(kind: str, noun: str, used: int, limit: int) -> NoReturn:
    """Raise for one more of something that is full by count."""
    raise QuotaExceededError(
        f"User has {used:,} {kind} {noun} (max: {limit:,}). "
        "Delete old memories or upgrade quota.",
        kind=kind, used=used, limit=limit, unit="count", tier=DEFAULT_TIER,
    )  # fmt: skip


def refuse_bytes(kind: str, used: int, limit: int) -> NoReturn:
    """Raise for something that does not fit by size."""
    raise QuotaExceededError(
        f"Adding this memory would exceed the size quota ({_size(used)} of {_size(limit)}). "
        "Delete old memories or upgrade quota.",
        kind=kind, used=used, limit=limit, unit="bytes", tier=DEFAULT_TIER,
    )  # fmt: skip


def _size(size_bytes: int) -> str:
    """Return a size as people read it: 10 KB, 99.98 MB (1 KB = 1024 B)."""
    unit, divisor = ("MB", MIB) if size_bytes >= MIB else ("KB", KIB)
    return f"{size_bytes / divisor:.2f}".rstrip("0").rstrip(".") + f" {unit}"
