"""What can be asked of long-term memory."""

from collections.abc import Mapping
from typing import Any

import msgspec

from memory_actors.base.records import OnDuplicate, Origin
from memory_actors.kinds import compression
from memory_actors.kinds.kind import Add, Command, Delete, Restore
from memory_actors.kinds.long_term.events import MemoriesCompressed, MemoryAdded, SummaryAdded


class AddMemories(Add, frozen=True, kw_only=True):
    """Add memories, all or none."""

    memories: tuple[MemoryAdded, ...]
    auto_prune: bool = False
    on_duplicate: OnDuplicate = "keep"
    distinct: frozenset[str] = frozenset()
    """Ids of those that are kept, whatever else says the same."""
    origins: tuple[Origin, ...] = ()
    """Where they come from."""
    origins_of: Mapping[str, tuple[Origin, ...]] = {}
    """Where the living memories come from, those of which nobody said left out."""


class AddSummary(compression.AddSummary, frozen=True, kw_only=True):
    """Add a summary as another store has made it."""

    summary: SummaryAdded


class UpdateMemory(Command, frozen=True, kw_only=True):
    """Replace a memory's content, its metadata, or both."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    same: bytes = b""
    metadata: dict[str, Any] | None = None


class DeleteMemory(Delete, frozen=True, kw_only=True):
    """Delete a memory."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories as they were compared."""

    memory_id: str
    """Of the one that holds no more."""
    superseded_by_id: str
    older_digest: bytes
    newer_digest: bytes
    similarity: float
    evidence: str


class SupersedeMemories(Command, frozen=True, kw_only=True):
    """Record that memories hold no more, if they and the newer ones are as they were compared."""

    pairs: tuple[Pair, ...]


class RestoreMemories(Restore, frozen=True, kw_only=True):
    """Bring back memories that were pruned, deleted or compressed, and summaries that have gone.

    Of memories that live, those that were superseded are said to hold all the same.
    """


class CompressMemories(compression.Compress, frozen=True, kw_only=True):
    """Put a summary in the place of memories, if they are still what it was made of."""

    summary: MemoriesCompressed


class UndoCompaction(compression.UndoCompaction, frozen=True, kw_only=True):
    """Take a summary away and bring back its originals."""


COMMANDS = (
    AddMemories,
    AddSummary,
    UpdateMemory,
    DeleteMemory,
    RestoreMemories,
    SupersedeMemories,
    CompressMemories,
    UndoCompaction,
)
