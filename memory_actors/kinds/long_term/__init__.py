"""Long-term memory: facts with metadata and pinning, found by meaning, kept until deleted.

Full means full: an add beyond the limit is refused, or, if it asks for pruning, the oldest tenth of
what is not pinned goes first. "Oldest" is by the time it was true, then by the order of arrival.

Compaction puts summaries in the place of old memories (`compacting`): a summary is a memory too,
counted, listed, deleted and pruned like any other, but never compressed or reworded.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_actors.base.quota import Limits
from memory_actors.base.records import QuotaUse
from memory_actors.kinds import kind
from memory_actors.kinds import passages as cut
from memory_actors.kinds.compacting import (
    compressible,
    summary_data,
    summary_passages,
    summary_text,
)
from memory_actors.kinds.defaults import (
    by_age,
    deleting,
    its_content,
    its_session,
    none_at_hand,
    own_version,
    timeless,
)
from memory_actors.kinds.kind import Events, Nature, Passage, Tally
from memory_actors.kinds.long_term.decide import (
    COMMANDS,
    NAME,
    AddMemories,
    AddSummary,
    CompressMemories,
    DeleteMemory,
    RestoreMemories,
    UndoCompaction,
    UpdateMemory,
    decide,
    duplicate_of,
    is_true_anew,
)
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    MemoriesCompressed,
    MemoriesPruned,
    MemoryAdded,
    MemoryDeleted,
    MemoryReinstated,
    MemoryRestored,
    MemorySeen,
    MemorySuperseded,
    MemoryUnmarked,
    MemoryUpdated,
    SummaryAdded,
    registry,
)
from memory_actors.kinds.long_term.state import (
    Dump,
    LongTerm,
    Row,
    age,
    dump,
    find,
    fold,
    in_one_piece,
    initial,
    load,
    newer_ones,
    over,
    returning,
    without,
)
from memory_actors.kinds.long_term.superseding import Pair, SupersedeMemories
from memory_actors.kinds.phrasing import spoken

NATURE = Nature()

# --- reads

at = timeless


def tally(state: LongTerm) -> Tally:
    """Return counts and bytes."""
    held, told = state.held, state.summaries.tallied()
    return Tally(len(held), held.size_bytes, held.stored_bytes, pruned=state.pruned, **told)


def held_bytes(state: LongTerm) -> int:
    """Return the memory that the state takes: its rows are packed."""
    return state.rows.size_bytes


def quotas(state: LongTerm, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is."""
    return (
        QuotaUse("memories", "count", len(state.held), limits.long_term_memories),
        QuotaUse("bytes", "bytes", state.held.size_bytes, limits.long_term_bytes),
    )


def rows(state: LongTerm) -> Iterable[Row]:
    """Return the living memories."""
    return state.held.rows.values()


def passages(row: Row) -> Sequence[Passage]:
    """Return one passage, the memory; of a summary or a long text, its parts."""
    if row.original_count:
        return summary_passages(row)
    if row.digests:
        return [
            Passage(kind.label(row.version, n), digest, row.began)
            for n, digest in enumerate(row.digests)
        ]
    return (Passage(kind.label(row.version), row.digest, row.began),)


def passage_text(row: Row, label: int, events: Events) -> str:
    """Return the memory with its speaker; of a summary or a long text, the part."""
    if row.original_count:
        return summary_text(row, label, events)
    return cut.passages(its_content(row, events), row.role)[kind.index_of(label)]


def data(row: Row, events: Events) -> Any:
    """Return what a summary was made of; None for any other memory."""
    return summary_data(row, events) if row.original_count else None


at_hand = none_at_hand
indexed_rows = rows
chain = its_session
sources = own_version
content = its_content
exported = by_age(rows)
worded = find
deleted = deleting(MemoryDeleted)

# --- compaction

UNDONE = CompactionUndone


def whose(_row: Row) -> None:
    """Return nothing: all memories are the user's."""


def summaries(state: LongTerm) -> Iterable[Row]:
    """Return the living summaries."""
    return map(state.held.rows.__getitem__, state.summaries.ids)


def compressed(_rows: Sequence[Row], fields: Mapping[str, Any]) -> MemoriesCompressed:
    """Return the event that puts a summary with these fields in the place of memories."""
    return MemoriesCompressed(**fields)


def told(row: Row, events: Events) -> str:
    """Return a memory as a summariser reads it: with its speaker."""
    return spoken(its_content(row, events), row.role)


def is_own(event: Any) -> bool:
    """Say whether an event has the text of one memory, and is about nothing else."""
    return isinstance(event, MemoryAdded | MemoryUpdated)
