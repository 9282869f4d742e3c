"""The commands of long-term memory, and what each of them decides."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

import msgspec

from eventlog import Dropped
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import LEVELS, OnDuplicate, Origin, least
from memory_actors.kinds import compacting
from memory_actors.kinds.compacting import (
    compressible,
    is_there,
    originals_as_read,
    refuse_beside_originals,
    refuse_rewording,
    summary_to_undo,
)
from memory_actors.kinds.defaults import deciding
from memory_actors.kinds.kind import Add, Command, Delete, Restore, Update, added_before, refuse_id
from memory_actors.kinds.long_term.events import (
    CompactionUndone,
    Event,
    MemoriesCompressed,
    MemoriesPruned,
    MemoryAdded,
    MemoryDeleted,
    MemorySeen,
    MemoryUpdated,
    SummaryAdded,
    SummaryEvent,
)
from memory_actors.kinds.long_term.state import (
    LIVES,
    Identity,
    LongTerm,
    Restored,
    Row,
    age,
    as_it_was,
    find,
    identity,
    newer_ones,
)
from memory_actors.kinds.long_term.superseding import (
    SupersedeMemories,
    passed_on,
    reinstated,
    supersede,
)
from memory_actors.kinds.rows import Held, oldest, update_of

NAME = "long_term"

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


class AddSummary(compacting.AddAnySummary, frozen=True, kw_only=True):
    """Add a summary as another store has made it."""

    summary: SummaryAdded


class UpdateMemory(Update, frozen=True, kw_only=True):
    """Replace a memory's content, its metadata, or both."""

    same: bytes = b""


class DeleteMemory(Delete, frozen=True, kw_only=True):
    """Delete a memory."""


class RestoreMemories(Restore, frozen=True, kw_only=True):
    """Bring back memories that were pruned, deleted or compressed, and summaries that have gone.

    Of memories that live, those that were superseded are said to hold all the same.
    """


class CompressMemories(compacting.Compress, frozen=True, kw_only=True):
    """Put a summary in the place of memories, if they are still what it was made of."""

    summary: MemoriesCompressed


class UndoCompaction(compacting.UndoAnyCompaction, frozen=True, kw_only=True):
    """Take a summary away and bring back its originals."""


# --- add


def _add(command: AddMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    events, needed = _added_or_seen(command, state)
    fresh = [event for event in events if isinstance(event, MemoryAdded)]
    victims = _make_room(fresh, state, limits, auto_prune=command.auto_prune, needed=needed)
    return [MemoriesPruned(memory_ids=victims, cause="quota"), *events] if victims else events


def _added_or_seen(
    command: AddMemories, state: LongTerm
) -> tuple[list[MemoryAdded | MemorySeen], set[str]]:
    """Return what becomes of the memories, in their order, and whom they need to stay for it.

    Nothing becomes of one that is skipped: the one that stands for it stays. Nor of one that was
    added before under an id of the caller's own, even if deleted since.
    """
    events: list[MemoryAdded | MemorySeen] = []
    needed: set[str] = set()
    fresh: dict[str, MemoryAdded] = {}
    first: dict[Identity, MemoryAdded] = {}
    for memory in command.memories:
        if _is_known(command, memory, fresh.get(memory.memory_id), state):
            continue
        living = duplicate_of(command, memory, state, first)
        if living is None:
            fresh[memory.memory_id] = memory
            first.setdefault(identity(memory), memory)
            events.append(memory)
            continue
        needed.add(living)
        if command.on_duplicate == "count":
            events.append(MemorySeen(memory_id=living, occurred_at_us=memory.occurred_at_us))
    return events, needed


def _is_known(
    command: AddMemories, memory: MemoryAdded, fresh: MemoryAdded | None, state: LongTerm
) -> bool:
    """Say whether this very memory is there, or was.

    :raises InvalidInputError: its id stands for another one.
    """
    memory_id, digest = memory.memory_id, memory.digest
    if isinstance(command.used.get(memory_id), Dropped):
        return True  # what it said is gone: nobody can tell, and an id is never used again
    if added_before(command, memory_id, MemoryAdded, "digest", digest):
        return True
    known = fresh or state.held.rows.get(memory_id)
    if known is not None and known.digest != digest:
        refuse_id(memory_id)
    return known is not None


def duplicate_of(
    command: AddMemories,
    memory: MemoryAdded,
    state: LongTerm,
    first: Mapping[Identity, MemoryAdded] = MappingProxyType({}),
) -> str | None:
    """Return the memory that stands for one which is not to be added beside it.

    It lives, or is the `first` of the command that says so. One that was superseded does not stand
    for what is said again after that: it was true until then, and is true anew.
    """
    if command.on_duplicate == "keep" or memory.memory_id in command.distinct:
        return None
    # Of a memory from before texts were normalised the digest is that of the text as it is.
    asked = [memory, msgspec.structs.replace(memory, same=b"")] if memory.same else [memory]
    for one in asked:
        for known in state.named(one):
            row = state.held.rows[known]
            if (
                _stands_for(row, one)
                and command.origins_of.get(known, ()) == command.origins
                and not is_true_anew(command, memory, row, state)
            ):
                return known
    before = first.get(identity(memory))
    return before.memory_id if before is not None and _stands_for(before, memory) else None


def _stands_for(known: Row | MemoryAdded, memory: MemoryAdded) -> bool:
    return identity(known) == identity(memory) and (known.pinned or not memory.pinned)


def is_true_anew(command: AddMemories, memory: MemoryAdded, row: Row, state: LongTerm) -> bool:
    """Say whether a memory says again what a newer one has spoken against, and may do so.

    What was said before that newer one says nothing new, and whom less is believed than it may not
    speak against it by saying the same once more.
    """
    newer = next(iter(newer_ones(row, state.held.rows)), None)
    if newer is None or max(memory.occurred_at_us, memory.last_seen_us) < age(newer)[0]:
        return False
    against = least(command.origins_of.get(newer.memory_id, ()))
    return LEVELS.index(least(command.origins)) >= LEVELS.index(against)


# --- room


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


# --- change, delete, restore


def _update(command: UpdateMemory, state: LongTerm, limits: Limits) -> Sequence[Event]:
    row = _living(state, command.memory_id)
    reworded = command.content is not None and command.digest != row.digest
    if reworded:
        refuse_rewording(row)
        now_bytes = state.held.size_bytes
        size = now_bytes - row.size_bytes + command.size_bytes
        if size > max(limits.long_term_bytes, now_bytes):
            _refuse_bytes(state.held, limits, command.size_bytes)
    updated = update_of(MemoryUpdated, command, row, same_content=not reworded)
    return [] if updated is None else [updated]


def _delete(command: DeleteMemory, state: LongTerm, _limits: Limits) -> Sequence[Event]:
    _living(state, command.memory_id)
    return [MemoryDeleted(memory_id=command.memory_id)]


def _restore(command: RestoreMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    restored = [as_it_was(life) for life in LIVES.gone(command, state.held.rows)]
    refuse_beside_originals(restored, state.held.rows)
    _make_room(restored, state, limits, auto_prune=False)
    return [*restored, *reinstated(command.memory_ids, state)]


def _living(state: LongTerm, memory_id: str) -> Row:
    row = find(state, memory_id)
    if row is None:
        raise NotFoundError(
            f"no memory {memory_id!r}: it was never there, deleted, or compressed into a summary; "
            "`why` tells what became of it"
        )
    return row


# --- compaction


def _compress(command: CompressMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    gone = originals_as_read(command, state.held.rows)
    if gone is None or not all(map(compressible, gone)):
        return []
    _check_exchange([command.summary.size_bytes], gone, state, limits)
    return [command.summary, *passed_on(command.summary, state)]


def _undo(command: UndoCompaction, state: LongTerm, limits: Limits) -> Sequence[Event]:
    summary = summary_to_undo(command, state.held.rows)
    restored = [as_it_was(life) for life in LIVES.gone(command, state.held.rows)]
    _check_exchange([memory.size_bytes for memory in restored], [summary], state, limits)
    return [CompactionUndone(memory_id=command.memory_id), *restored]


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


# --- decide

_DECISIONS: Mapping[type[Command], Callable[..., Sequence[Event]]] = {
    AddMemories: _add,
    AddSummary: _add_summary,
    UpdateMemory: _update,
    DeleteMemory: _delete,
    RestoreMemories: _restore,
    SupersedeMemories: supersede,
    CompressMemories: _compress,
    UndoCompaction: _undo,
}
COMMANDS = tuple(_DECISIONS)
decide = deciding(_DECISIONS)
"""Turn a command into events.

:raises QuotaExceededError: no room, and no leave to make some.
:raises InvalidInputError: an id that stands for another memory, a summary of what lives.
:raises NotFoundError: no such memory.
"""
