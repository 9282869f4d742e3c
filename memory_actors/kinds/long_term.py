"""Long-term memory: facts with metadata and pinning, found by meaning, kept until deleted.

Full means full: an add beyond the limit is refused, or, if it asks for pruning, the oldest tenth of
what is not pinned goes first. "Oldest" is by the time it was true, then by the order of arrival.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import msgspec
from immutables import Map

from eventlog import EventRegistry, Recorded
from memory_actors.errors import InvalidInputError, NotFoundError
from memory_actors.kinds.kind import Command, Kind, same_json
from memory_actors.quota import Limits, refuse_bytes, refuse_count
from memory_actors.records import KindUsage

NAME = "long_term"
PRUNE_DIVISOR = 10  # a prune deletes the oldest tenth, so that its cost is spread over many adds

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


@registry.event("long_term.updated", keys=lambda event: (event.memory_id,))
class MemoryUpdated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory got a new content, new metadata, or both; None keeps what was."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    metadata: dict[str, Any] | None = None


@registry.event("long_term.deleted", keys=lambda event: (event.memory_id,))
class MemoryDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory was deleted by its user."""

    memory_id: str


@registry.event("long_term.pruned", keys=lambda event: event.memory_ids)
class MemoriesPruned(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest memories were deleted to make room."""

    memory_ids: tuple[str, ...]
    cause: str


Event: TypeAlias = MemoryAdded | MemoryUpdated | MemoryDeleted | MemoriesPruned

# --- state


class Row(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A memory without its text."""

    memory_id: str
    version: int
    """Of the event that has the text; also the label of its vector."""
    size_bytes: int
    stored_bytes: int
    digest: bytes
    created_at_us: int
    occurred_at_us: int
    metadata: dict[str, Any]
    session_id: str | None
    role: str | None
    pinned: bool


class LongTerm(msgspec.Struct, frozen=True):
    """The living memories and their sums."""

    rows: Map[str, Row] = Map()
    size_bytes: int = 0
    stored_bytes: int = 0


# --- evolve


def evolve(state: LongTerm, recorded: Recorded[Event]) -> LongTerm:
    """Fold one event into the state."""
    return fold(state, (recorded,))


def fold(state: LongTerm, events: Iterable[Recorded[Event]]) -> LongTerm:
    """Fold many events into the state: ten times as fast as one state after each."""
    draft = _Draft(state)
    for recorded in events:
        event = recorded.data
        if isinstance(event, MemoryAdded):
            draft.put(_new_row(event, recorded))
        elif isinstance(event, MemoryUpdated):
            draft.put(_updated_row(draft.rows[event.memory_id], event, recorded))
        elif isinstance(event, MemoryDeleted):
            draft.drop(event.memory_id)
        else:
            for memory_id in event.memory_ids:
                draft.drop(memory_id)
    return draft.finish()


class _Draft:
    """A state that changes in place, seen by one fold only."""

    __slots__ = ("rows", "size_bytes", "stored_bytes")

    def __init__(self, state: LongTerm):
        self.rows = state.rows.mutate()
        self.size_bytes = state.size_bytes
        self.stored_bytes = state.stored_bytes

    def put(self, row: Row) -> None:
        old = self.rows.get(row.memory_id)
        if old is not None:
            self.size_bytes -= old.size_bytes
            self.stored_bytes -= old.stored_bytes
        self.rows[row.memory_id] = row
        self.size_bytes += row.size_bytes
        self.stored_bytes += row.stored_bytes

    def drop(self, memory_id: str) -> None:
        row = self.rows.pop(memory_id)
        self.size_bytes -= row.size_bytes
        self.stored_bytes -= row.stored_bytes

    def finish(self) -> LongTerm:
        return LongTerm(self.rows.finish(), self.size_bytes, self.stored_bytes)


def _new_row(event: MemoryAdded, recorded: Recorded[Event]) -> Row:
    return Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        digest=event.digest,
        created_at_us=recorded.recorded_at_us,
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        session_id=event.session_id,
        role=event.role,
        pinned=event.pinned,
    )


def _updated_row(row: Row, event: MemoryUpdated, recorded: Recorded[Event]) -> Row:
    if event.metadata is not None:
        row = msgspec.structs.replace(row, metadata=event.metadata)
    if event.content is None:
        return row
    return msgspec.structs.replace(
        row,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        digest=event.digest,
    )


# --- commands


class NewMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A memory to add, checked and measured."""

    memory_id: str
    content: str
    size_bytes: int
    digest: bytes
    occurred_at_us: int
    metadata: dict[str, Any] = {}
    session_id: str | None = None
    role: str | None = None
    pinned: bool = False


class AddMemories(Command, frozen=True, kw_only=True):
    """Add memories, all or none."""

    memories: tuple[NewMemory, ...]
    auto_prune: bool = False
    own_ids: bool = False
    """Whether the caller chose ids, which may have been used before."""
    used: Mapping[str, bytes] = {}
    """Those that were, alive or deleted, with the digest that each was first added with."""


class UpdateMemory(Command, frozen=True, kw_only=True):
    """Replace a memory's content, its metadata, or both."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    metadata: dict[str, Any] | None = None


class DeleteMemory(Command, frozen=True, kw_only=True):
    """Delete a memory."""

    memory_id: str


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
    assert isinstance(command, DeleteMemory)
    _living(state, command.memory_id)
    return [MemoryDeleted(memory_id=command.memory_id)]


def _add(command: AddMemories, state: LongTerm, limits: Limits) -> Sequence[Event]:
    fresh = _fresh(command, state)
    victims = _make_room(command, fresh, state, limits)
    added = [MemoryAdded(**msgspec.structs.asdict(memory)) for memory in fresh]
    return [MemoriesPruned(memory_ids=victims, cause="quota"), *added] if victims else added


def _fresh(command: AddMemories, state: LongTerm) -> list[NewMemory]:
    """Return the memories that are new; what was added before, even if deleted since, is not."""
    fresh: dict[str, NewMemory] = {}
    for memory in command.memories:
        first = _first_digest(memory.memory_id, command, state, fresh)
        if first is None:
            fresh[memory.memory_id] = memory
        elif first != memory.digest:
            raise InvalidInputError(
                f"memory id {memory.memory_id!r} stands for another content: update that memory, "
                "or use a new id"
            )
    return list(fresh.values())


def _first_digest(
    memory_id: str, command: AddMemories, state: LongTerm, fresh: Mapping[str, NewMemory]
) -> bytes | None:
    """Return what an id was first added with; None if it is new."""
    if memory_id in command.used:
        return command.used[memory_id]
    known = fresh.get(memory_id) or state.rows.get(memory_id)
    return None if known is None else known.digest


def _make_room(
    command: AddMemories, fresh: Sequence[NewMemory], state: LongTerm, limits: Limits
) -> tuple[str, ...]:
    """Return what has to go for `fresh` to fit."""
    over_count = len(state.rows) + len(fresh) - limits.long_term_memories
    over_bytes = (
        state.size_bytes + sum(memory.size_bytes for memory in fresh) - limits.long_term_bytes
    )
    if not fresh or (over_count <= 0 and over_bytes <= 0):
        return ()
    victims = _oldest(state, over_count, over_bytes) if command.auto_prune else None
    if victims is None:
        _refuse(state, limits, over_count)
    return victims


def _refuse(state: LongTerm, limits: Limits, over_count: int) -> NoReturn:
    if over_count > 0:
        refuse_count(NAME, "memories", len(state.rows), limits.long_term_memories)
    refuse_bytes(NAME, state.size_bytes, limits.long_term_bytes)


def _oldest(state: LongTerm, over_count: int, over_bytes: int) -> tuple[str, ...] | None:
    """Return as many tenths of the oldest unpinned as are needed; None if all are not enough."""
    tenth = max(1, len(state.rows) // PRUNE_DIVISOR)
    unpinned = (row for row in state.rows.values() if not row.pinned)
    ordered = sorted(unpinned, key=lambda row: (row.occurred_at_us, row.version))
    taken = 0
    while over_count > 0 or over_bytes > 0:
        chunk = ordered[taken : taken + tenth]
        if not chunk:
            return None
        taken += len(chunk)
        over_count -= len(chunk)
        over_bytes -= sum(row.size_bytes for row in chunk)
    return tuple(row.memory_id for row in ordered[:taken])


def _update(command: UpdateMemory, state: LongTerm, limits: Limits) -> Sequence[Event]:
    row = _living(state, command.memory_id)
    content = None if command.digest == row.digest else command.content
    metadata = None if same_json(command.metadata, row.metadata) else command.metadata
    if content is None and metadata is None:
        return []
    size = state.size_bytes - row.size_bytes + command.size_bytes
    if content is not None and size > max(limits.long_term_bytes, state.size_bytes):
        refuse_bytes(NAME, state.size_bytes, limits.long_term_bytes)
    return [
        MemoryUpdated(
            memory_id=command.memory_id,
            content=content,
            size_bytes=command.size_bytes if content is not None else 0,
            digest=command.digest if content is not None else b"",
            metadata=metadata,
        )
    ]


def _living(state: LongTerm, memory_id: str) -> Row:
    row = state.rows.get(memory_id)
    if row is None:
        raise NotFoundError(f"no memory {memory_id!r}: it was never there, or it was deleted")
    return row


# --- the kind


class Dump(msgspec.Struct, frozen=True):
    """The state as rows, in the order of their texts' versions."""

    rows: list[Row] = []


def dump(state: LongTerm) -> Dump:
    """Return the state as plain rows."""
    return Dump(sorted(state.rows.values(), key=lambda row: row.version))


def load(dumped: Dump) -> LongTerm:
    """Return the state back."""
    return LongTerm(
        Map((row.memory_id, row) for row in dumped.rows),
        sum(row.size_bytes for row in dumped.rows),
        sum(row.stored_bytes for row in dumped.rows),
    )


def usage(state: LongTerm, limits: Limits, _now_us: int) -> KindUsage:
    """Return counts and bytes."""
    return KindUsage(
        count=len(state.rows),
        count_limit=limits.long_term_memories,
        size_bytes=state.size_bytes,
        size_limit_bytes=limits.long_term_bytes,
        stored_bytes=state.stored_bytes,
    )


def find(state: LongTerm, memory_id: str, _now_us: int) -> Row | None:
    """Return a living memory's row."""
    return state.rows.get(memory_id)


KIND = Kind(
    name=NAME,
    registry=registry,
    initial=LongTerm(),
    evolve=evolve,
    fold=fold,
    commands=(AddMemories, UpdateMemory, DeleteMemory),
    decide=decide,
    dump=dump,
    load=load,
    dumped=Dump,
    usage=usage,
    find=find,
)
