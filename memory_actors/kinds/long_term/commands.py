"""What can be asked of long-term memory."""

from collections.abc import Mapping
from typing import Any

from memory_actors.kinds import compression
from memory_actors.kinds.kind import Add, Command, Delete, Restore
from memory_actors.kinds.long_term.events import MemoriesCompressed, MemoryAdded, SummaryAdded
from memory_actors.records import OnDuplicate, Origin


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


class RestoreMemories(Restore, frozen=True, kw_only=True):
    """Bring back memories that were pruned, deleted or compressed, and summaries that have gone."""


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
    CompressMemories,
    UndoCompaction,
)
