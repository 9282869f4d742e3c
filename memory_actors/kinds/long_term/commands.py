"""The commands of long-term memory."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from memory_actors.base.records import OnDuplicate, Origin
from memory_actors.kinds import compacting
from memory_actors.kinds.commands import Add, Command, Delete, Restore, Update
from memory_actors.kinds.long_term.events import MemoriesCompressed, MemoryAdded, SummaryAdded


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


class AddSummary(compacting.PutSummary, frozen=True, kw_only=True):
    """Add a summary as another store has made it."""

    summary: SummaryAdded


class UpdateMemory(Update, frozen=True, kw_only=True):
    """Replace a memory's content, its metadata, or both."""

    same: bytes = b""


class DeleteMemory(Delete, frozen=True, kw_only=True):
    """Delete a memory."""


class RestoreMemories(Restore, frozen=True, kw_only=True):
    """Bring back memories that were pruned, deleted or compressed, and summaries that have gone.

    Living memories that were superseded are marked as current again.
    """


class CompressMemories(compacting.Compress, frozen=True, kw_only=True):
    """Put a summary in the place of memories, if they are still what it was made of."""

    summary: MemoriesCompressed


class UndoCompaction(compacting.UndoCompression, frozen=True, kw_only=True):
    """Take a summary away and bring back its originals."""


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
