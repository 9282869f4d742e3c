"""The living long-term memories, summaries among them, and how events change them.

Two memories say the same if their normalised texts are the same, with speaker, session, metadata
and origins. They are found by a key made of all but the origins, which is compared in full.
"""

import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from memory_actors.kinds.compacting import Compactable, Compacted
from memory_actors.kinds.long_term.events import Superseded
from memory_actors.kinds.packed import NO_KEY, Form, Packed, PackedRows

_KEY_BYTES = 8
SUPERSEDED_MAX = 8  # of a memory: the last ones say how things stand
# --- which say the same

Identity: TypeAlias = tuple[bytes, str | None, bytes]
"""The digest of the text, the session, the metadata as JSON."""


def identity(one: Any) -> Identity:
    """Return the key that duplicates share, for a row or a `MemoryAdded`."""
    told = msgspec.json.encode(one.metadata, order="sorted") if one.metadata else b""
    return one.same or one.digest, one.session_id, told


def duplicate_key(identity: Identity) -> int:
    """Return a number that is the same of those that say the same, and seldom of others."""
    said, session_id, told = identity
    where = zlib.crc32(session_id.encode()) if session_id else 0
    where = zlib.crc32(told, where) if told else where
    return int.from_bytes(said[:_KEY_BYTES]) ^ where or 1


# --- state


class MemoryRow(Compactable, frozen=True, kw_only=True, array_like=True, gc=False):
    """A memory without its text."""

    digest: bytes
    session_id: str | None
    role: str | None
    began: int
    """Version of the event that added it, or brought it back: its place in its session."""
    same: bytes = b""
    """Digest of the text normalised, where that is another one than `digest`."""
    times_seen: int = 1
    last_seen_us: int = 0
    """The time at which it was true last, if it was said again; else 0."""
    superseded: tuple[Superseded, ...] = ()
    """Marks of newer memories that say otherwise, in the order of the log."""
    settled: bool = False
    """True if it was said to hold all the same."""


ROWS = Form(MemoryRow, lambda row: NO_KEY if row.original_count else duplicate_key(identity(row)))


class LongTerm(Compacted[MemoryRow], frozen=True):
    """The living memories, and how many were pruned so far."""

    rows: PackedRows[MemoryRow] = PackedRows(ROWS)

    def saying(self, said: Identity) -> list[str]:
        """Return the ids of the memories that may say this."""
        return self.rows.with_key(duplicate_key(said))


# --- snapshot


class LongTermDump(msgspec.Struct, frozen=True):
    """The state as it is held, in one piece."""

    rows: Packed = Packed()
    size_bytes: int = 0
    stored_bytes: int = 0
    pruned: int = 0
    summaries: tuple[str, ...] = ()
    originals: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


# --- look-ups


def age(row: MemoryRow) -> tuple[int, int]:
    """Return the sort key of memories: by the time they were last true, then by their version."""
    return _true_since_us(row), row.version


def _true_since_us(row: MemoryRow) -> int:
    return max(row.occurred_at_us, row.last_seen_us)


def newer_ones(
    row: MemoryRow, rows: Mapping[str, MemoryRow], as_of_us: int | None = None
) -> list[MemoryRow]:
    """Return the living memories that say otherwise, the newest first, as known at a time.

    Among memories that are true since the same time, the one recorded last is the newest. Their
    versions do not tell: one that went and came back has a later version than it had.
    """
    found = [
        newer
        for mark in reversed(row.superseded)
        if as_of_us is None or mark.at_us <= as_of_us
        if (newer := rows.get(mark.by)) is not None and newer.digest == mark.digest
    ]
    return sorted(found, key=_true_since_us, reverse=True)
