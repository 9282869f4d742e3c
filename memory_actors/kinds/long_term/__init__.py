"""Long-term memory: facts with metadata and pinning, found by meaning, kept until deleted.

Full means full: an add beyond the limit is refused, or, if it asks for pruning, the oldest tenth of
what is not pinned goes first. "Oldest" is by the time it was true, then by the order of arrival.

Compaction puts summaries in the place of old memories (`compression`): a summary is a memory too,
counted, listed, deleted and pruned like any other, but never compressed or reworded.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import QuotaUse
from memory_actors.kinds import kind
from memory_actors.kinds.compression import (
    compressible,
    is_there,
    refuse_beside_originals,
    refuse_rewording,
    summary_data,
    summary_passages,
    summary_text,
)
from memory_actors.kinds.kind import (
    Command,
    Events,
    Passage,
    Tally,
    its_content,
    its_session,
    none_at_hand,
    own_version,
    same_json,
    timeless,
)
from memory_actors.kinds.long_term.adding import added_or_seen, duplicate_of
from memory_actors.kinds.long_term.commands import (
    COMMANDS,
    AddMemories,
    AddSummary,
    CompressMemories,
    DeleteMemory,
    Pair,
    RestoreMemories,
    SupersedeMemories,
    UndoCompaction,
    UpdateMemory,
)
from memory_actors.kinds.long_term.compression import (
    Restored,
    compress,
    gone_as_it_was,
    undo,
)
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    Event,
    MemoriesCompressed,
    MemoriesPruned,
    MemoryAdded,
    MemoryDeleted,
    MemoryReinstated,
    MemoryRestored,
    MemorySeen,
    MemorySuperseded,
    MemoryUpdated,
    SummaryAdded,
    SummaryEvent,
    registry,
)
from memory_actors.kinds.long_term.state import (
    Dump,
    LongTerm,
    Row,
    dump,
    evolve,
    fold,
    initial,
    load,
)
from memory_actors.kinds.long_term.superseding import (
    age,
    newer_ones,
    passed_on,
    reinstated,
    supersede,
)
from memory_actors.kinds.phrasing import spoken
from memory_actors.kinds.rows import Held, oldest

__all__ = [
    "COMMANDS",
    "NAME",
    "AddMemories",
    "AddSummary",
    "CompactionUndone",
    "CompressMemories",
    "DeleteMemory",
    "Dump",
    "LongTerm",
    "MemoriesCompressed",
    "MemoriesPruned",
    "MemoryAdded",
    "MemoryDeleted",
    "MemoryReinstated",
    "MemoryRestored",
    "MemorySeen",
    "MemorySuperseded",
    "MemoryUpdated",
    "Pair",
    "RestoreMemories",
    "Row",
    "SummaryAdded",
    "SupersedeMemories",
    "UndoCompaction",
    "UpdateMemory",
    "age",
    "at",
    "at_hand",
    "chain",
    "compressed",
    "compressible",
    "content",
    "data",
    "decide",
    "dump",
    "duplicate_of",
    "evolve",
    "find",
    "fold",
    "indexed_rows",
    "initial",
    "is_own",
    "load",
    "newer_ones",
    "passage_text",
    "passages",
    "quotas",
    "registry",
    "rows",
    "sources",
    "summaries",
    "tally",
    "told",
    "whose",
]

NAME = "long_term"

# --- decide


def decide(command: Command, state: LongTerm, limits: Limits) -> Sequence[Event]:
    """Turn a command into events.

    :raises QuotaExceededError: no room, and no leave to make some.
    :raises InvalidInputError: an id that stands for another memory, a summary of what lives.
    :raises NotFoundError: no such memory.
    """
    decided: Sequence[Event] = _DECISIONS[type(command)](command, state, limits)
    return decided


def _delete(command: DeleteMemory, state: LongTerm, _limits: Limits) -> Sequence[Event]:
    _living(state, command.memory_id)
    return [MemoryDeleted(memory_id=command.memory_id)]


def _restore(command: RestoreMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    restored = gone_as_it_was(command.memory_ids, command.past, state)
    refuse_beside_originals(restored, state.held.rows)
    _make_room(restored, state, limits, auto_prune=False)
    return [*restored, *reinstated(command.memory_ids, state)]


def _supersede(command: SupersedeMemories, state: LongTerm, _limits: Limits) -> Sequence[Event]:
    return supersede(command, state)


def _add(command: AddMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    events = added_or_seen(command, state)
    fresh = [event for event in events if isinstance(event, MemoryAdded)]
    seen = {event.memory_id for event in events if isinstance(event, MemorySeen)}
    victims = _make_room(fresh, state, limits, auto_prune=command.auto_prune, needed=seen)
    return [MemoriesPruned(memory_ids=victims, cause="quota"), *events] if victims else events


def _make_room(
    fresh: Sequence[MemoryAdded | Restored],
    state: LongTerm,
    limits: Limits,
    *,
    auto_prune: bool,
    needed: Collection[str] = (),
) -> tuple[str, ...]:
    """Return what has to go for `fresh` to fit; not what is `needed`."""
    held = state.held
    over_count = len(held) + len(fresh) - limits.long_term_memories
    size = sum(memory.size_bytes for memory in fresh)
    over_bytes = held.size_bytes + size - limits.long_term_bytes
    if not fresh or (over_count <= 0 and over_bytes <= 0):
        return ()
    may_go = (row for row in held.rows.values() if row.memory_id not in needed)
    victims = oldest(may_go, len(held), over_count, over_bytes) if auto_prune else None
    if victims is None:
        if over_count > 0:
            _refuse_count(held, limits, len(fresh))
        _refuse_bytes(held, limits, size)
    return victims


def _refuse_count(held: Held[Row], limits: Limits, new: int) -> NoReturn:
    refuse_count(NAME, "memories", len(held), limits, "long_term_memories", new=new)


def _refuse_bytes(held: Held[Row], limits: Limits, new: int) -> NoReturn:
    refuse_bytes(NAME, held.size_bytes, limits, "long_term_bytes", new=new)


def _update(command: UpdateMemory, state: LongTerm, limits: Limits) -> Sequence[Event]:
    row = _living(state, command.memory_id)
    content = None if command.digest == row.digest else command.content
    if content is not None:
        refuse_rewording(row)
    metadata = None if same_json(command.metadata, row.metadata) else command.metadata
    if content is None and metadata is None:
        return []
    now_bytes = state.held.size_bytes
    size = now_bytes - row.size_bytes + command.size_bytes
    if content is not None and size > max(limits.long_term_bytes, now_bytes):
        _refuse_bytes(state.held, limits, command.size_bytes)
    return [
        MemoryUpdated(
            memory_id=command.memory_id,
            content=content,
            size_bytes=command.size_bytes if content is not None else 0,
            digest=command.digest if content is not None else b"",
            same=command.same if content is not None else b"",
            metadata=metadata,
        )
    ]


def _compress(command: CompressMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    events = compress(command, state)
    if events:
        gone = [state.held.rows[memory_id] for memory_id, _ in command.originals]
        _check_exchange([command.summary.size_bytes], gone, state, limits)
        return [*events, *passed_on(command, state)]
    return events


def _undo(command: UndoCompaction, state: LongTerm, limits: Limits) -> Sequence[Event]:
    undone, restored = undo(command, state)
    sizes = [memory.size_bytes for memory in restored]
    _check_exchange(sizes, [state.held.rows[command.memory_id]], state, limits)
    return [undone, *restored]


def _check_exchange(
    sizes: Sequence[int], gone: Sequence[Row], state: LongTerm, limits: Limits
) -> None:
    """Refuse to put memories of these sizes in the place of others if they do not fit.

    Above a limit that was lowered, less than before fits.
    """
    held = state.held
    count = len(held) + len(sizes) - len(gone)
    size = held.size_bytes + sum(sizes) - sum(row.size_bytes for row in gone)
    if count > max(limits.long_term_memories, len(held)):
        _refuse_count(held, limits, len(sizes))
    if size > max(limits.long_term_bytes, held.size_bytes):
        _refuse_bytes(held, limits, sum(sizes))


def _add_summary(command: AddSummary, state: LongTerm, limits: Limits) -> Sequence[Event]:
    if is_there(command, find(state, command.summary.memory_id), SummaryEvent):
        return []
    _make_room([command.summary], state, limits, auto_prune=False)
    return [command.summary]


_DECISIONS: Mapping[type[Command], Callable[..., Sequence[Event]]] = MappingProxyType(
    {
        AddMemories: _add,
        AddSummary: _add_summary,
        UpdateMemory: _update,
        DeleteMemory: _delete,
        RestoreMemories: _restore,
        SupersedeMemories: _supersede,
        CompressMemories: _compress,
        UndoCompaction: _undo,
    }
)


def _living(state: LongTerm, memory_id: str) -> Row:
    row = find(state, memory_id)
    if row is None:
        raise NotFoundError(
            f"no memory {memory_id!r}: it was never there, deleted, or compressed into a summary; "
            "`why` tells what became of it"
        )
    return row


# --- reads

at = timeless


def tally(state: LongTerm) -> Tally:
    """Return counts and bytes."""
    held, told = state.held, state.summaries.tallied()
    return Tally(len(held), held.size_bytes, held.stored_bytes, pruned=state.pruned, **told)


def quotas(state: LongTerm, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is."""
    return (
        QuotaUse("memories", "count", len(state.held), limits.long_term_memories),
        QuotaUse("bytes", "bytes", state.held.size_bytes, limits.long_term_bytes),
    )


def rows(state: LongTerm) -> Iterable[Row]:
    """Return the living memories."""
    return state.held.rows.values()


def find(state: LongTerm, memory_id: str) -> Row | None:
    """Return a living memory's row."""
    return state.held.rows.get(memory_id)


def passages(row: Row) -> Sequence[Passage]:
    """Return one passage, the memory; of a summary, its parts."""
    if row.original_count:
        return summary_passages(row)
    return (Passage(kind.label(row.version), row.digest, row.began),)


def passage_text(row: Row, label: int, events: Events) -> str:
    """Return the memory with its speaker; of a summary, the part."""
    if row.original_count:
        return summary_text(row, label, events)
    return spoken(its_content(row, events), row.role)


def data(row: Row, events: Events) -> Any:
    """Return what a summary was made of; None for any other memory."""
    return summary_data(row, events) if row.original_count else None


at_hand = none_at_hand
indexed_rows = rows
chain = its_session
sources = own_version
content = its_content

# --- compaction


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
