"""Long-term memory: facts with metadata and pinning, found by meaning, kept until deleted.

Full means full: an add beyond the limit is refused, or, if it asks for pruning, the oldest tenth of
what is not pinned goes first. "Oldest" is by the time it was true, then by the order of arrival.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import msgspec

from eventlog import EventRegistry, Recorded
from memory_actors.errors import NotFoundError
from memory_actors.kinds import kind
from memory_actors.kinds.held import Draft, Held, oldest
from memory_actors.kinds.kind import (
    Add,
    Command,
    Delete,
    Events,
    Passage,
    Pruned,
    Restore,
    Tally,
    Updated,
    added_before,
    its_content,
    its_session,
    no_data,
    none_at_hand,
    own_version,
    refuse_id,
    same_json,
    timeless,
    updated_row,
)
from memory_actors.phrasing import spoken
from memory_actors.quota import Limits, refuse_bytes, refuse_count
from memory_actors.records import QuotaUse

NAME = "long_term"

registry = EventRegistry()

# --- events


@registry.event("long_term.added", keys=lambda event: (event.memory_id,))
class MemoryAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory was added."""

    memory_id: str
    content: str
    size_bytes: int
    digest: bytes
    """Of the text that is indexed: where derived data (its vector) is found."""
    occurred_at_us: int
    metadata: dict[str, Any] = {}
    session_id: str | None = None
    role: str | None = None
    pinned: bool = False


@registry.event("long_term.restored", keys=lambda event: (event.memory_id,))
class MemoryRestored(MemoryAdded, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory that had gone came back, as it was when it went."""

    created_at_us: int


@registry.event("long_term.updated", keys=lambda event: (event.memory_id,))
class MemoryUpdated(Updated, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory got a new content, new metadata, or both; None keeps what was."""

    digest: bytes = b""


@registry.event("long_term.deleted", keys=lambda event: (event.memory_id,))
class MemoryDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory was deleted by its user."""

    memory_id: str


@registry.event("long_term.pruned", keys=lambda event: event.memory_ids)
class MemoriesPruned(Pruned, frozen=True, kw_only=True):
    """The oldest memories were deleted to make room."""


Event: TypeAlias = MemoryAdded | MemoryRestored | MemoryUpdated | MemoryDeleted | MemoriesPruned

# --- state


class Row(kind.Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A memory without its text."""

    digest: bytes
    session_id: str | None
    role: str | None
    pinned: bool


class LongTerm(msgspec.Struct, frozen=True):
    """The living memories, and how many were pruned so far."""

    held: Held[Row] = Held()
    pruned: int = 0


initial = LongTerm()

# --- evolve


def evolve(state: LongTerm, recorded: Recorded[Event]) -> LongTerm:
    """Fold one event into the state."""
    return fold(state, (recorded,))


def fold(state: LongTerm, events: Iterable[Recorded[Event]]) -> LongTerm:
    """Fold many events into the state."""
    draft, pruned = state.held.draft(), state.pruned
    for recorded in events:
        event = recorded.data
        if isinstance(event, MemoryAdded):
            draft.put(_new_row(event, recorded))
        elif isinstance(event, MemoryUpdated):
            row = draft.rows[event.memory_id]
            draft.put(updated_row(row, event, recorded, digest=event.digest))
        elif isinstance(event, MemoryDeleted):
            draft.drop(event.memory_id)
        else:
            pruned += _drop_all(draft, event.memory_ids)
    return LongTerm(draft.finish(), pruned)


def _drop_all(draft: Draft[Row], memory_ids: Sequence[str]) -> int:
    for memory_id in memory_ids:
        draft.drop(memory_id)
    return len(memory_ids)


def _new_row(event: MemoryAdded, recorded: Recorded[Event]) -> Row:
    return Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        created_at_us=getattr(event, "created_at_us", recorded.recorded_at_us),
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        digest=event.digest,
        session_id=event.session_id,
        role=event.role,
        pinned=event.pinned,
    )


# --- commands


class AddMemories(Add, frozen=True, kw_only=True):
    """Add memories, all or none."""

    memories: tuple[MemoryAdded, ...]
    auto_prune: bool = False


class UpdateMemory(Command, frozen=True, kw_only=True):
    """Replace a memory's content, its metadata, or both."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    metadata: dict[str, Any] | None = None


class DeleteMemory(Delete, frozen=True, kw_only=True):
    """Delete a memory."""


class RestoreMemories(Restore, frozen=True, kw_only=True):
    """Bring back memories that were pruned or deleted."""


COMMANDS = (AddMemories, UpdateMemory, DeleteMemory, RestoreMemories)

# --- decide


def decide(command: Command, state: LongTerm, limits: Limits) -> Sequence[Event]:
    """Turn a command into events.

    :raises QuotaExceededError: no room, and no leave to make some.
    :raises InvalidInputError: an id that stands for another memory.
    :raises NotFoundError: no such memory.
    """
    if isinstance(command, AddMemories):
        return _add(command, state, limits)
    if isinstance(command, UpdateMemory):
        return _update(command, state, limits)
    if isinstance(command, RestoreMemories):
        return _restore(command, state, limits)
    assert isinstance(command, DeleteMemory)
    _living(state, command.memory_id)
    return [MemoryDeleted(memory_id=command.memory_id)]


def _add(command: AddMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    fresh = _fresh(command, state)
    victims = _make_room(fresh, state, limits, auto_prune=command.auto_prune)
    return [MemoriesPruned(memory_ids=victims, cause="quota"), *fresh] if victims else fresh


def _fresh(command: AddMemories, state: LongTerm) -> list[MemoryAdded]:
    """Return the memories that are new; what was added before, even if deleted since, is not."""
    fresh: dict[str, MemoryAdded] = {}
    for memory in command.memories:
        memory_id, digest = memory.memory_id, memory.digest
        if added_before(command, memory_id, MemoryAdded, "digest", digest):
            continue
        known = fresh.get(memory_id) or state.held.rows.get(memory_id)
        if known is None:
            fresh[memory_id] = memory
        elif known.digest != digest:
            refuse_id(memory_id)
    return list(fresh.values())


def _make_room(
    fresh: Sequence[MemoryAdded], state: LongTerm, limits: Limits, *, auto_prune: bool
) -> tuple[str, ...]:
    """Return what has to go for `fresh` to fit."""
    held = state.held
    over_count = len(held) + len(fresh) - limits.long_term_memories
    over_bytes = (
        held.size_bytes + sum(memory.size_bytes for memory in fresh) - limits.long_term_bytes
    )
    if not fresh or (over_count <= 0 and over_bytes <= 0):
        return ()
    victims = oldest(held.rows.values(), len(held), over_count, over_bytes) if auto_prune else None
    if victims is None:
        _refuse(held, limits, over_count)
    return victims


def _refuse(held: Held[Row], limits: Limits, over_count: int) -> NoReturn:
    if over_count > 0:
        refuse_count(NAME, "memories", len(held), limits.long_term_memories, limits.tier)
    refuse_bytes(NAME, held.size_bytes, limits.long_term_bytes, limits.tier)


def _update(command: UpdateMemory, state: LongTerm, limits: Limits) -> Sequence[Event]:
    row = _living(state, command.memory_id)
    content = None if command.digest == row.digest else command.content
    metadata = None if same_json(command.metadata, row.metadata) else command.metadata
    if content is None and metadata is None:
        return []
    now_bytes = state.held.size_bytes
    size = now_bytes - row.size_bytes + command.size_bytes
    if content is not None and size > max(limits.long_term_bytes, now_bytes):
        refuse_bytes(NAME, now_bytes, limits.long_term_bytes, limits.tier)
    return [
        MemoryUpdated(
            memory_id=command.memory_id,
            content=content,
            size_bytes=command.size_bytes if content is not None else 0,
            digest=command.digest if content is not None else b"",
            metadata=metadata,
        )
    ]


def _restore(command: RestoreMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    gone = [memory_id for memory_id in command.memory_ids if memory_id not in state.held.rows]
    restored = [_as_it_was(memory_id, command.past) for memory_id in dict.fromkeys(gone)]
    _make_room(restored, state, limits, auto_prune=False)
    return restored


def _as_it_was(memory_id: str, past: Mapping[str, Sequence[Recorded[Any]]]) -> MemoryRestored:
    """Return a memory as its last events left it."""
    memory: MemoryRestored | None = None
    for recorded in past.get(memory_id, ()):
        event = recorded.data
        if isinstance(event, MemoryRestored):
            memory = event
        elif isinstance(event, MemoryAdded):
            fields = msgspec.structs.asdict(event)
            memory = MemoryRestored(**fields, created_at_us=recorded.recorded_at_us)
        elif isinstance(event, MemoryUpdated) and memory is not None:
            memory = _with_update(memory, event)
    if memory is None:
        raise NotFoundError(f"no memory {memory_id!r} to restore: it was never there")
    return memory


def _with_update(memory: MemoryRestored, event: MemoryUpdated) -> MemoryRestored:
    changed: dict[str, Any] = {} if event.metadata is None else {"metadata": event.metadata}
    if event.content is not None:
        changed |= {
            "content": event.content, "size_bytes": event.size_bytes, "digest": event.digest,
        }  # fmt: skip
    return msgspec.structs.replace(memory, **changed)


def _living(state: LongTerm, memory_id: str) -> Row:
    row = find(state, memory_id)
    if row is None:
        raise NotFoundError(f"no memory {memory_id!r}: it was never there, or it was deleted")
    return row


# --- snapshot


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their texts' versions."""

    rows: list[Row] = []
    pruned: int = 0


def dump(state: LongTerm) -> Dump:
    """Return the state as plain rows."""
    return Dump(state.held.in_order(), state.pruned)


def load(dumped: Dump) -> LongTerm:
    """Return the state back."""
    return LongTerm(Held.of(dumped.rows), dumped.pruned)


# --- reads

at = timeless


def tally(state: LongTerm) -> Tally:
    """Return counts and bytes."""
    held = state.held
    return Tally(len(held), held.size_bytes, held.stored_bytes, pruned=state.pruned)


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
    """Return one passage: the memory."""
    return (Passage(kind.label(row.version), row.digest),)


def passage_text(row: Row, _label: int, events: Events) -> str:
    """Return the memory with its speaker."""
    return spoken(its_content(row, events), row.role)


at_hand = none_at_hand
chain = its_session
sources = own_version
content = its_content
data = no_data
