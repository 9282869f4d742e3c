"""Short-term memory: the last messages of each session, first in, first out, gone after a while.

A session expires a fixed time after its last message. What is expired is no longer read, whatever
the state still holds; the next command of the kind names it in an event, and then it goes.
"""

from collections.abc import Iterable, Sequence
from heapq import nlargest, nsmallest
from typing import Any

from msgspec.structs import replace

from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import QuotaUse
from memory_actors.kinds import kind
from memory_actors.kinds.defaults import (
    by_rows,
    its_content,
    its_session,
    no_data,
    no_rows,
    own_version,
)
from memory_actors.kinds.kind import (
    Add,
    Command,
    Delete,
    Events,
    Nature,
    Passage,
    Tally,
    Update,
    added_before,
)
from memory_actors.kinds.phrasing import spoken
from memory_actors.kinds.rows import update_of
from memory_actors.kinds.short_term.state import (
    Dump,
    Event,
    MessageAdded,
    MessageDeleted,
    MessageUpdated,
    Row,
    Session,
    SessionsExpired,
    ShortTerm,
    at,
    dump,
    evolve,
    expiry,
    find,
    fold,
    initial,
    load,
    registry,
    without,
)

NAME = "short_term"
NATURE = Nature(is_indexed=False, export_place=1)
SECOND_US = 1_000_000
SESSIONS_SEARCHED = 3  # when none is named: their messages are embedded on the way

# --- commands


class AddMessage(Add, frozen=True, kw_only=True):
    """Add a message to a session."""

    message: MessageAdded


class UpdateMessage(Update, frozen=True, kw_only=True):
    """Replace a message's content, its metadata, or both."""


class DeleteMessage(Delete, frozen=True, kw_only=True):
    """Delete a message."""


COMMANDS = (AddMessage, UpdateMessage, DeleteMessage)

# --- decide


def decide(command: Command, state: ShortTerm, limits: Limits) -> Sequence[Event]:
    """Turn a command into events.

    :raises QuotaExceededError: a message larger than a session may be.
    :raises InvalidInputError: an id that stands for another memory.
    :raises NotFoundError: no such message, or it has expired.
    """
    living = at(state, command.now_us)
    due = state.due(command.now_us)
    expired = [_sessions_expired(due, "ttl")] if due else []
    if isinstance(command, AddMessage):
        return [*expired, *added] if (added := _add(command, living, limits)) else []
    if isinstance(command, UpdateMessage):
        return [*expired, *changed] if (changed := _update(command, living, limits)) else []
    assert isinstance(command, DeleteMessage)
    row = _living(living, command.memory_id)
    return [*expired, MessageDeleted(memory_id=row.memory_id, session_id=row.session_id)]


def _sessions_expired(sessions: Sequence[Session], cause: str) -> SessionsExpired:
    return SessionsExpired(
        session_ids=tuple(session.session_id for session in sessions),
        memory_ids=tuple(row.memory_id for session in sessions for row in session.rows),
        cause=cause,
    )


def _add(command: AddMessage, state: ShortTerm, limits: Limits) -> list[Event]:
    new = command.message
    known = added_before(command, new.memory_id, MessageAdded, "content", new.content)
    if known or new.memory_id in state.session_of:
        return []
    for noun, name in (("messages", "short_term_messages"), ("sessions", "short_term_sessions")):
        if getattr(limits, name) == 0:
            refuse_count(NAME, noun, len(state.session_of), limits, name)
    if new.size_bytes > limits.short_term_bytes:
        refuse_bytes(NAME, state.size_bytes, limits, "short_term_bytes", new=new.size_bytes)
    added = replace(
        new,
        expires_at_us=command.now_us + limits.short_term_ttl_s * SECOND_US,
        evicted_ids=_first_out(new, state, limits),
    )
    return [*_room_for_a_session(new.session_id, state, limits), added]


def _first_out(new: MessageAdded, state: ShortTerm, limits: Limits) -> tuple[str, ...]:
    """Return the oldest messages, as many as have to leave the session."""
    session = state.session(new.session_id)
    count, size = len(session.rows) + 1, session.size_bytes + new.size_bytes
    evicted: list[str] = []
    while count > limits.short_term_messages or size > limits.short_term_bytes:
        oldest = session.rows[len(evicted)]
        evicted.append(oldest.memory_id)
        count, size = count - 1, size - oldest.size_bytes
    return tuple(evicted)


def _room_for_a_session(session_id: str, state: ShortTerm, limits: Limits) -> list[Event]:
    """Let the sessions that would expire first go, if there are too many for one more."""
    over = len(state.sessions) + 1 - limits.short_term_sessions
    if session_id in state.sessions or over <= 0:
        return []
    return [_sessions_expired(nsmallest(over, state.sessions.values(), key=expiry), "quota")]


def _update(command: UpdateMessage, state: ShortTerm, limits: Limits) -> list[Event]:
    row = _living(state, command.memory_id)
    session = state.sessions[row.session_id]
    size = session.size_bytes - row.size_bytes + command.size_bytes
    if command.content is not None and size > max(limits.short_term_bytes, session.size_bytes):
        refuse_bytes(NAME, session.size_bytes, limits, "short_term_bytes", new=command.size_bytes)
    updated = update_of(MessageUpdated, command, row, session_id=row.session_id)
    return [] if updated is None else [updated]


def _living(state: ShortTerm, memory_id: str) -> Row:
    row = find(state, memory_id)
    if row is None:
        raise NotFoundError(f"no message {memory_id!r}: it was never there, deleted or expired")
    return row


# --- reads

chain = its_session
indexed_rows = no_rows


def tally(state: ShortTerm) -> Tally:
    """Return counts and bytes over all sessions."""
    return Tally(len(state.session_of), state.size_bytes, state.stored_bytes, state.evicted)


held_bytes = by_rows(tally)


def quotas(state: ShortTerm, limits: Limits, session_id: str | None) -> Sequence[QuotaUse]:
    """Return how full a session is, or the fullest one."""
    found = state.sessions.get(session_id) if session_id is not None else None
    chosen = [found] if found else [] if session_id is not None else state.sessions.values()
    count = max((len(session.rows) for session in chosen), default=0)
    size_bytes = max((session.size_bytes for session in chosen), default=0)
    return (
        QuotaUse("messages", "count", count, limits.short_term_messages, evicts=True),
        QuotaUse("bytes", "bytes", size_bytes, limits.short_term_bytes, evicts=True),
        QuotaUse("sessions", "count", len(state.sessions), limits.short_term_sessions, evicts=True),
    )


def rows(state: ShortTerm) -> Iterable[Row]:
    """Return the messages of all sessions, by session."""
    ordered = sorted(state.sessions.values(), key=lambda session: session.session_id)
    return (row for session in ordered for row in session.rows)


def at_hand(state: ShortTerm, session_id: str | None) -> Sequence[Row]:
    """Return a session's messages, or those of the sessions that were used last."""
    if session_id is not None:
        return state.session(session_id).rows
    recent = nlargest(SESSIONS_SEARCHED, state.sessions.values(), key=expiry)
    return [row for session in recent for row in session.rows]


def passages(row: Row) -> Sequence[Passage]:
    """Return one passage: the message."""
    return (Passage(kind.label(row.version), b"", row.began),)


def passage_text(row: Row, _label: int, events: Events) -> str:
    """Return the message with its speaker."""
    return spoken(its_content(row, events), row.role)


sources = own_version
content = its_content
data = no_data
worded = find


def exported(state: ShortTerm) -> Iterable[Row]:
    """Return the messages by session, those of the session that was used last at the end."""
    sessions = state.sessions.values()
    ordered = sorted(sessions, key=lambda session: max(row.version for row in session.rows))
    return [row for session in ordered for row in session.rows]


def deleted(row: Row, _state: ShortTerm) -> list[MessageDeleted]:
    """Return the event that takes a message away."""
    return [MessageDeleted(memory_id=row.memory_id, session_id=row.session_id)]
