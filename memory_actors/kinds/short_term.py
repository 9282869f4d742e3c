"""Short-term memory: the last messages of each session, first in, first out, gone after a while.

A session expires a fixed time after its last message. What is expired is no longer read, whatever
the state still holds; the next command of the kind names it in an event, and then it goes.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from immutables import Map

from eventlog import EventRegistry, Recorded
from memory_actors.errors import NotFoundError
from memory_actors.kinds.kind import Command, Kind, same_json
from memory_actors.quota import Limits, refuse_bytes
from memory_actors.records import KindUsage

NAME = "short_term"
SECOND_US = 1_000_000

registry = EventRegistry()

# --- events


@registry.event("short_term.added", keys=lambda event: (event.memory_id, *event.evicted))
class MessageAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message was added to a session, and the oldest left it."""

    memory_id: str
    session_id: str
    content: str
    size_bytes: int
    expires_at_us: int
    """When the whole session expires."""
    occurred_at_us: int
    evicted: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    role: str | None = None


@registry.event("short_term.updated", keys=lambda event: (event.memory_id,))
class MessageUpdated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message got a new content, new metadata, or both; None keeps what was."""

    memory_id: str
    session_id: str
    content: str | None = None
    size_bytes: int = 0
    metadata: dict[str, Any] | None = None


@registry.event("short_term.deleted", keys=lambda event: (event.memory_id,))
class MessageDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A message was deleted by its user."""

    memory_id: str
    session_id: str


@registry.event("short_term.expired", keys=lambda event: event.memory_ids)
class SessionsExpired(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions went because their time was up."""

    session_ids: tuple[str, ...]
    memory_ids: tuple[str, ...]


Event: TypeAlias = MessageAdded | MessageUpdated | MessageDeleted | SessionsExpired

# --- state


class Row(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A message without its text."""

    memory_id: str
    version: int
    """Of the event that has the text."""
    size_bytes: int
    stored_bytes: int
    created_at_us: int
    occurred_at_us: int
    metadata: dict[str, Any]
    session_id: str
    role: str | None


class Session(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The messages of one session, oldest first."""

    session_id: str
    rows: tuple[Row, ...] = ()
    size_bytes: int = 0
    expires_at_us: int = 0


class ShortTerm(msgspec.Struct, frozen=True):
    """All sessions that have not been named as expired."""

    sessions: Map[str, Session] = Map()
    session_of: Map[str, str] = Map()
    """Memory id -> session id."""
    next_expiry_us: int = 0
    """No session expires before this; 0 when there is none."""


# --- evolve


def evolve(state: ShortTerm, recorded: Recorded[Event]) -> ShortTerm:
    """Fold one event into the state."""
    event = recorded.data
    if isinstance(event, MessageAdded):
        return _added(state, event, recorded)
    if isinstance(event, MessageUpdated):
        return _updated(state, event, recorded)
    if isinstance(event, MessageDeleted):
        session = _without(state.sessions[event.session_id], (event.memory_id,))
        return ShortTerm(
            state.sessions.set(event.session_id, session),
            state.session_of.delete(event.memory_id),
            state.next_expiry_us,
        )
    return _expired(state, event)


def _added(state: ShortTerm, event: MessageAdded, recorded: Recorded[Event]) -> ShortTerm:
    old = state.sessions.get(event.session_id) or Session(session_id=event.session_id)
    kept = _without(old, event.evicted)
    row = Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        created_at_us=recorded.recorded_at_us,
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        session_id=event.session_id,
        role=event.role,
    )
    session = Session(
        session_id=event.session_id,
        rows=(*kept.rows, row),
        size_bytes=kept.size_bytes + row.size_bytes,
        expires_at_us=event.expires_at_us,
    )
    session_of = state.session_of
    for memory_id in event.evicted:
        session_of = session_of.delete(memory_id)
    return ShortTerm(
        state.sessions.set(event.session_id, session),
        session_of.set(event.memory_id, event.session_id),
        min(state.next_expiry_us or event.expires_at_us, event.expires_at_us),
    )


def _updated(state: ShortTerm, event: MessageUpdated, recorded: Recorded[Event]) -> ShortTerm:
    session = state.sessions[event.session_id]
    rows = tuple(
        _updated_row(row, event, recorded) if row.memory_id == event.memory_id else row
        for row in session.rows
    )
    changed = msgspec.structs.replace(
        session, rows=rows, size_bytes=sum(row.size_bytes for row in rows)
    )
    return msgspec.structs.replace(state, sessions=state.sessions.set(event.session_id, changed))


def _updated_row(row: Row, event: MessageUpdated, recorded: Recorded[Event]) -> Row:
    if event.metadata is not None:
        row = msgspec.structs.replace(row, metadata=event.metadata)
    if event.content is None:
        return row
    return msgspec.structs.replace(
        row,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
    )


def _expired(state: ShortTerm, event: SessionsExpired) -> ShortTerm:
    sessions, session_of = state.sessions, state.session_of
    for session_id in event.session_ids:
        sessions = sessions.delete(session_id)
    for memory_id in event.memory_ids:
        session_of = session_of.delete(memory_id)
    next_expiry = min((session.expires_at_us for session in sessions.values()), default=0)
    return ShortTerm(sessions, session_of, next_expiry)


def _without(session: Session, memory_ids: Sequence[str]) -> Session:
    if not memory_ids:
        return session
    kept = tuple(row for row in session.rows if row.memory_id not in memory_ids)
    return msgspec.structs.replace(
        session, rows=kept, size_bytes=sum(row.size_bytes for row in kept)
    )


# --- commands


class AddMessage(Command, frozen=True, kw_only=True):
    """Add a message to a session."""

    memory_id: str
    session_id: str
    content: str
    size_bytes: int
    occurred_at_us: int
    metadata: dict[str, Any] = {}
    role: str | None = None
    own_id: bool = False
    """Whether the caller chose the id."""
    used: bool = False
    """Whether this very message was added before, alive or not."""


class UpdateMessage(Command, frozen=True, kw_only=True):
    """Replace a message's content, its metadata, or both."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    metadata: dict[str, Any] | None = None


class DeleteMessage(Command, frozen=True, kw_only=True):
    """Delete a message."""

    memory_id: str


# --- decide


def decide(command: Command, state: ShortTerm, limits: Limits) -> Sequence[Event]:
    """Turn a command into events.

    :raises QuotaExceededError: a message larger than a session may be.
    :raises NotFoundError: no such message, or it has expired.
    """
    expired = _expire(state, command.now_us)
    if isinstance(command, AddMessage):
        if command.used or command.memory_id in state.session_of:
            return []
        return [*expired, _add(command, state, limits)]
    if isinstance(command, UpdateMessage):
        changed = _update(command, state, limits)
        return [*expired, *changed] if changed else []
    assert isinstance(command, DeleteMessage)
    row = _living(state, command.memory_id, command.now_us)
    return [*expired, MessageDeleted(memory_id=row.memory_id, session_id=row.session_id)]


def _expire(state: ShortTerm, now_us: int) -> list[Event]:
    if not state.next_expiry_us or now_us < state.next_expiry_us:
        return []
    due = [session for session in state.sessions.values() if session.expires_at_us <= now_us]
    if not due:
        return []
    due.sort(key=lambda session: (session.expires_at_us, session.session_id))
    return [
        SessionsExpired(
            session_ids=tuple(session.session_id for session in due),
            memory_ids=tuple(row.memory_id for session in due for row in session.rows),
        )
    ]


def _add(command: AddMessage, state: ShortTerm, limits: Limits) -> MessageAdded:
    if command.size_bytes > limits.short_term_bytes:
        refuse_bytes(NAME, command.size_bytes, limits.short_term_bytes)
    rows = messages(state, command.session_id, command.now_us)
    count, size = len(rows) + 1, sum(row.size_bytes for row in rows) + command.size_bytes
    evicted: list[str] = []
    while count > limits.short_term_messages or size > limits.short_term_bytes:
        oldest = rows[len(evicted)]
        evicted.append(oldest.memory_id)
        count, size = count - 1, size - oldest.size_bytes
    return MessageAdded(
        memory_id=command.memory_id,
        session_id=command.session_id,
        content=command.content,
        size_bytes=command.size_bytes,
        expires_at_us=command.now_us + limits.short_term_ttl_s * SECOND_US,
        occurred_at_us=command.occurred_at_us,
        evicted=tuple(evicted),
        metadata=command.metadata,
        role=command.role,
    )


def _update(command: UpdateMessage, state: ShortTerm, limits: Limits) -> list[Event]:
    row = _living(state, command.memory_id, command.now_us)
    metadata = None if same_json(command.metadata, row.metadata) else command.metadata
    if command.content is None and metadata is None:
        return []
    session = state.sessions[row.session_id]
    size = session.size_bytes - row.size_bytes + command.size_bytes
    if command.content is not None and size > max(limits.short_term_bytes, session.size_bytes):
        refuse_bytes(NAME, session.size_bytes, limits.short_term_bytes)
    return [
        MessageUpdated(
            memory_id=row.memory_id,
            session_id=row.session_id,
            content=command.content,
            size_bytes=command.size_bytes,
            metadata=metadata,
        )
    ]


def _living(state: ShortTerm, memory_id: str, now_us: int) -> Row:
    row = find(state, memory_id, now_us)
    if row is None:
        raise NotFoundError(f"no message {memory_id!r}: it was never there, deleted or expired")
    return row


# --- reads


def messages(state: ShortTerm, session_id: str, now_us: int) -> tuple[Row, ...]:
    """Return a session's messages, oldest first; none once it has expired."""
    session = state.sessions.get(session_id)
    return session.rows if session is not None and now_us < session.expires_at_us else ()


def living_sessions(state: ShortTerm, now_us: int) -> list[Session]:
    """Return the sessions that have not expired, by id."""
    living = (session for session in state.sessions.values() if now_us < session.expires_at_us)
    return sorted(living, key=lambda session: session.session_id)


def recent_sessions(state: ShortTerm, now_us: int, count: int) -> list[Session]:
    """Return the living sessions that were used last, newest first."""
    living = living_sessions(state, now_us)
    return sorted(living, key=lambda session: -session.expires_at_us)[:count]


def find(state: ShortTerm, memory_id: str, now_us: int) -> Row | None:
    """Return a message's row, unless its session has expired."""
    rows = messages(state, state.session_of.get(memory_id, ""), now_us)
    return next((row for row in rows if row.memory_id == memory_id), None)


# --- the kind


class Dump(msgspec.Struct, frozen=True):
    """The state as sessions, by id."""

    sessions: list[Session] = []
    next_expiry_us: int = 0


def dump(state: ShortTerm) -> Dump:
    """Return the state as plain sessions."""
    ordered = sorted(state.sessions.values(), key=lambda session: session.session_id)
    return Dump(ordered, state.next_expiry_us)


def load(dumped: Dump) -> ShortTerm:
    """Return the state back."""
    return ShortTerm(
        Map((session.session_id, session) for session in dumped.sessions),
        Map((row.memory_id, s.session_id) for s in dumped.sessions for row in s.rows),
        dumped.next_expiry_us,
    )


def usage(state: ShortTerm, limits: Limits, now_us: int) -> KindUsage:
    """Return counts and bytes over all living sessions; the limits are a session's."""
    rows = [row for session in living_sessions(state, now_us) for row in session.rows]
    return KindUsage(
        count=len(rows),
        count_limit=limits.short_term_messages,
        size_bytes=sum(row.size_bytes for row in rows),
        size_limit_bytes=limits.short_term_bytes,
        stored_bytes=sum(row.stored_bytes for row in rows),
    )


KIND = Kind(
    name=NAME,
    registry=registry,
    initial=ShortTerm(),
    evolve=evolve,
    commands=(AddMessage, UpdateMessage, DeleteMessage),
    decide=decide,
    dump=dump,
    load=load,
    dumped=Dump,
    usage=usage,
    find=find,
)
