"""Events, rows and commands of long-term memory.

Two memories say the same if their normalised texts are the same, with speaker, session, metadata
and origins. They are found by a key made of all but the origins, which is compared in full.
"""

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec

from memory_actors.base.records import Metadata, OnDuplicate, Origin
from memory_actors.kinds import compacting
from memory_actors.kinds.commands import Add, Command, Delete, Restore, Update, plain
from memory_actors.kinds.compacting import Compactable, Compacted
from memory_actors.kinds.effects import Deleted, Effect, KindRegistry, Pruned, Updated
from memory_actors.kinds.packed import NO_KEY, Form, Packed, PackedRows

registry = KindRegistry()


class Superseded(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A newer memory that says otherwise. It counts while that lives and says the same."""

    by: str
    digest: bytes
    """Digest of the newer memory's text at that time."""
    at_us: int
    """The time at which the log got it."""


@registry.about("long_term.added", Effect.ADDED)
class MemoryAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory was added."""

    memory_id: str
    content: str
    size_bytes: int
    digest: bytes
    """Digest of the indexed text: where derived data (its vector) is found."""
    occurred_at_us: int
    metadata: Metadata = {}
    session_id: str | None = None
    role: str | None = None
    pinned: bool = False
    same: bytes = b""
    """Digest of the same text normalised, where that is another one: see `duplicate_of`."""
    times_seen: int = 1
    """The number of times it was said: more than one if it comes from elsewhere, or comes back."""
    last_seen_us: int = 0
    """The time at which it was said last, if it was said again; else 0."""


@registry.about("long_term.restored", Effect.RESTORED)
class MemoryRestored(MemoryAdded, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory that had gone came back, as it was when it went."""

    created_at_us: int
    keep: bool = False
    """It came back out of a summary: compaction leaves it alone from now on."""
    origins: tuple[Origin, ...] = ()
    """The sources of its words, of which the one who brought it back is none."""
    superseded: tuple[Superseded, ...] = ()
    settled: bool = False
    agent_id: str | None = None
    """The agent that wrote it first."""


@registry.about("long_term.updated", Effect.CHANGED)
class MemoryUpdated(Updated, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory got a new content, new metadata, or both; None keeps what was."""

    digest: bytes = b""
    same: bytes = b""


@registry.about("long_term.seen", Effect.CHANGED)
class MemorySeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A memory was said again: in the same words, by the same, with the same metadata."""

    memory_id: str
    occurred_at_us: int
    """The time at which it was true again."""


MemoryDeleted = registry.plain(Deleted, "long_term.deleted", Effect.DELETED)
MemoriesPruned = registry.plain(Pruned, "long_term.pruned", Effect.PRUNED)


# --- facts that change


@registry.about(
    "long_term.superseded", Effect.CHANGED, others={"superseded_by_id": Effect.CHANGED}, says=False
)
class MemorySuperseded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A newer memory gives the same attribute of the same thing another value."""

    memory_id: str
    """Id of the superseded memory."""
    superseded_by_id: str
    digest: bytes
    """Digest of the newer memory's text: the event counts as long as it says that."""
    similarity: float
    """Cosine of the two."""
    evidence: str
    """The words that they have in common and those that differ, or who said so."""


@registry.about("long_term.unmarked", Effect.CHANGED, says=False)
class MemoryUnmarked(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A `MemorySuperseded` was taken back: it is as if it had never been said."""

    memory_id: str
    superseded_by_id: str
    digest: bytes


@registry.about("long_term.reinstated", Effect.CHANGED, says=False)
class MemoryReinstated(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that was superseded holds after all, and is left alone from now on."""

    memory_id: str


# --- compaction


@registry.about(
    "long_term.compressed", Effect.ADDED, others={"compressed_from_ids": Effect.COMPRESSED}
)
class MemoriesCompressed(
    compacting.Compressed, frozen=True, kw_only=True, omit_defaults=True, gc=False
):
    """A summary took the place of memories, which went."""

    agent_id: str | None = None
    """The agent that wrote all of them, if one did."""


@registry.about("long_term.summary_added", Effect.ADDED)
class SummaryAdded(compacting.SummaryPut, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A summary came back, or from another store; no memory went for it."""

    agent_id: str | None = None


CompactionUndone = registry.plain(
    compacting.CompressionUndone, "long_term.compaction_undone", Effect.UNDONE
)


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


# --- commands


class AddMemories(Add, frozen=True, kw_only=True):
    """Add memories, all or none."""

    memories: tuple[MemoryAdded, ...]
    auto_prune: bool = False
    on_duplicate: OnDuplicate = "keep"
    distinct: frozenset[str] = frozenset()
    """Ids of those that are kept, whatever else says the same."""
    origins: tuple[Origin, ...] = ()
    """Their sources."""
    origins_of: Mapping[str, tuple[Origin, ...]] = {}
    """The sources of the living memories, without those of which nobody said any."""
    skip_forgotten: bool = False
    """True: those that were forgotten are left out; False: they refuse the command."""


AddSummary = plain(compacting.PutSummary, "AddSummary")


class UpdateMemory(Update, frozen=True, kw_only=True):
    """Replace a memory's content, its metadata, or both."""

    same: bytes = b""


DeleteMemory = plain(Delete, "DeleteMemory")
RestoreMemories = plain(Restore, "RestoreMemories")
CompressMemories = plain(compacting.Compress, "CompressMemories")
UndoCompaction = plain(compacting.UndoCompression, "UndoCompaction")


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories as they were compared."""

    memory_id: str
    """Id of the superseded memory."""
    superseded_by_id: str
    older_digest: bytes
    newer_digest: bytes
    similarity: float
    evidence: str


class SupersedeMemories(Command, frozen=True, kw_only=True):
    """Record that memories hold no more, if they and the newer ones are as they were compared."""

    has_words: ClassVar[bool] = False
    pairs: tuple[Pair, ...]
