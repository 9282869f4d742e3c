"""What an add comes to: memories that are new, and such as are there already and are said again."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from eventlog import Dropped
from memory_actors.kinds.kind import added_before, refuse_id
from memory_actors.kinds.long_term.commands import AddMemories
from memory_actors.kinds.long_term.duplicates import Identity, identity, named
from memory_actors.kinds.long_term.events import MemoryAdded, MemorySeen
from memory_actors.kinds.long_term.state import LongTerm, Row


def added_or_seen(command: AddMemories, state: LongTerm) -> list[MemoryAdded | MemorySeen]:
    """Return what becomes of the memories, in their order; nothing of one that is skipped.

    Nor of one that was added before under an id of the caller's own, even if deleted since.
    """
    events: list[MemoryAdded | MemorySeen] = []
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
        elif command.on_duplicate == "count":
            events.append(MemorySeen(memory_id=living, occurred_at_us=memory.occurred_at_us))
    return events


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

    It lives, or is the `first` of the command that says so.
    """
    if command.on_duplicate == "keep" or memory.memory_id in command.distinct:
        return None
    # Of a memory from before texts were normalised the digest is that of the text as it is.
    asked = [memory, msgspec.structs.replace(memory, same=b"")] if memory.same else [memory]
    for one in asked:
        for known in named(state.duplicates, one):
            row = state.held.rows[known]
            if _stands_for(row, one) and command.origins_of.get(known, ()) == command.origins:
                return known
    before = first.get(identity(memory))
    return before.memory_id if before is not None and _stands_for(before, memory) else None


def _stands_for(known: Row | MemoryAdded, memory: MemoryAdded) -> bool:
    return identity(known) == identity(memory) and (known.pinned or not memory.pinned)
