"""Short-term memory: the last messages of each session, first in, first out, gone after a while.

A session expires a fixed time after its last message. What is expired is no longer read, whatever
the state still holds; the next command of the kind names it in an event, and then it goes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from heapq import nlargest, nsmallest
from typing import Any, TypeAlias

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import QuotaUse
from memory_actors.kinds import kind
from memory_actors.kinds.events import Effect, KindRegistry
from memory_actors.kinds.kind import (
    Add,
    BaseKind,
    Command,
    Decide,
    Delete,
    Events,
    Nature,
    Passage,
    Tally,
    Update,
    Updated,
    added_before,
)
from memory_actors.kinds.phrasing import spoken
from memory_actors.kinds.rows import derived, new_row, update_of, updated_row
from memory_actors.kinds.tainted import TaintedPast

SECOND_US = 1_000_000
SESSIONS_SEARCHED = 3  # when none is named: their messages are embedded on the way

registry = KindRegistry()

# --- events


@registry.about("short_term.added", Effect.ADDED, others={"evicted_ids": Effect.EVICTED})
class MessageAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message was added to a session, and the oldest left it."""

    memory_id: str
    session_id: str
    content: str
    size_bytes: int
    expires_at_us: int = 0
    """The time at which the whole session expires."""
    occurred_at_us: int
    evicted_ids: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    role: str | None = None


@registry.about("short_term.updated", Effect.CHANGED)
class MessageUpdated(Updated, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A message got a new content, new metadata, or both; None keeps what was."""

    session_id: str


@registry.about("short_term.deleted", Effect.DELETED)
class MessageDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A message was deleted by its user."""

    memory_id: str
    session_id: str


@registry.about("short_term.expired", Effect.EXPIRED)
class SessionsExpired(msgspec.Struct, frozen=True, kw_only=True):
    """Whole sessions went."""

    session_ids: tuple[str, ...]
    memory_ids: tuple[str, ...]
    cause: str
    """ttl: their time was up; quota: too many sessions were living."""


Event: TypeAlias = MessageAdded | MessageUpdated | MessageDeleted | SessionsExpired

# --- state


class Row(kind.Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A message without its text."""

    session_id: str
    role: str | None
    began: int
    """Version of the event that added it: its place in its session."""


class Session(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The messages of one session, oldest first."""

    session_id: str
    rows: tuple[Row, ...] = ()
    size_bytes: int = 0
    stored_bytes: int = 0
    expires_at_us: int = 0

    def holding(self, rows: Iterable[Row], expires_at_us: int | None = None) -> "Session":
        """Return the session with these messages; None keeps the time it expires."""
        held = tuple(rows)
        gone, came = _difference(self.rows, held)
        return Session(
            session_id=self.session_id,
            rows=held,
            size_bytes=self.size_bytes
            + sum([row.size_bytes for row in came])
            - sum([row.size_bytes for row in gone]),
            stored_bytes=self.stored_bytes
            + sum([row.stored_bytes for row in came])
            - sum([row.stored_bytes for row in gone]),
            expires_at_us=self.expires_at_us if expires_at_us is None else expires_at_us,
        )


def _difference(old: tuple[Row, ...], new: tuple[Row, ...]) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return rows to take away from old ones and to add, for the new ones; not always the fewest.

    Most often one has come and the oldest have gone; else it is all of them.
    """
    gone = len(old) + 1 - len(new)
    if new and gone >= 0 and old[gone:] == new[:-1]:
        return old[:gone], new[-1:]
    return old, new


class ShortTerm(msgspec.Struct, frozen=True):
    """All sessions that have not been named as expired."""

    sessions: Map[str, Session] = Map()
    session_of: Map[str, str] = Map()
    """Memory id -> session id."""
    next_expiry_us: int = 0
    """No session expires before this; 0 when there is none."""
    size_bytes: int = 0
    stored_bytes: int = 0
    evicted: int = 0

    def session(self, session_id: str) -> Session:
        """Return a session, an empty one if there is none."""
        return self.sessions.get(session_id) or Session(session_id=session_id)

    def put(self, session: Session, evicted: int = 0) -> "ShortTerm":
        """Return the state with a session as it is now; one without messages goes.

        `evicted` is how many messages left by it.
        """
        old, sessions = self.session(session.session_id), self.sessions.mutate()
        if session.rows:
            sessions[session.session_id] = session
        else:
            sessions.pop(session.session_id, None)
        changed = sessions.finish()
        return ShortTerm(
            sessions=changed,
            session_of=_session_of(self.session_of, old, session),
            next_expiry_us=_next_expiry(self, changed, session),
            size_bytes=self.size_bytes - old.size_bytes + session.size_bytes,
            stored_bytes=self.stored_bytes - old.stored_bytes + session.stored_bytes,
            evicted=self.evicted + evicted,
        )

    def due(self, now_us: int) -> list[Session]:
        """Return the sessions whose time is up, in order of their expiry."""
        if not self.next_expiry_us or now_us < self.next_expiry_us:
            return []
        over = (session for session in self.sessions.values() if session.expires_at_us <= now_us)
        return sorted(over, key=expiry)


def expiry(session: Session) -> tuple[int, str]:
    """Sort sessions by when they expire."""
    return session.expires_at_us, session.session_id


def _session_of(known: Map[str, str], old: Session, new: Session) -> Map[str, str]:
    gone, came = _difference(old.rows, new.rows)
    before = {row.memory_id for row in gone}
    after = {row.memory_id for row in came}
    if before == after:
        return known
    draft = known.mutate()
    for memory_id in before - after:
        del draft[memory_id]
    for memory_id in after - before:
        draft[memory_id] = new.session_id
    return draft.finish()


def _next_expiry(state: ShortTerm, sessions: Map[str, Session], changed: Session) -> int:
    if changed.rows:
        return min(state.next_expiry_us or changed.expires_at_us, changed.expires_at_us)
    return min((session.expires_at_us for session in sessions.values()), default=0)


class Dumped(msgspec.Struct, frozen=True):
    """The state as sessions, by id."""

    living: list[Session] = []
    next_expiry_us: int = 0
    evicted: int = 0


# --- commands


class AddMessage(Add, frozen=True, kw_only=True):
    """Add a message to a session."""

    message: MessageAdded


class UpdateMessage(Update, frozen=True, kw_only=True):
    """Replace a message's content, its metadata, or both."""


class DeleteMessage(Delete, frozen=True, kw_only=True):
    """Delete a message."""


# --- what each event makes of the state


def _evolved(state: ShortTerm, recorded: Recorded[Event]) -> ShortTerm:
    event = recorded.data
    if isinstance(event, MessageAdded):
        return _added(state, event, recorded)
    if isinstance(event, MessageUpdated):
        return _updated(state, event, recorded)
    if isinstance(event, MessageDeleted):
        session = state.session(event.session_id)
        return state.put(session.holding(_without(session, (event.memory_id,))))
    for session_id in event.session_ids:
        session = state.session(session_id)
        state = state.put(session.holding(()), evicted=len(session.rows))
    return state


def _added(state: ShortTerm, event: MessageAdded, recorded: Recorded[Event]) -> ShortTerm:
    row, session = new_row(Row, recorded, began=recorded.version), state.session(event.session_id)
    rows = (*_without(session, event.evicted_ids), row)
    changed = session.holding(rows, event.expires_at_us)
    return state.put(changed, evicted=len(event.evicted_ids))


def _updated(state: ShortTerm, event: MessageUpdated, recorded: Recorded[Event]) -> ShortTerm:
    session = state.session(event.session_id)
    rows = (
        updated_row(row, event, recorded) if row.memory_id == event.memory_id else row
        for row in session.rows
    )
    return state.put(session.holding(rows))


def _without(session: Session, memory_ids: Sequence[str]) -> tuple[Row, ...]:
    rows, count = session.rows, len(memory_ids)
    if all(row.memory_id in memory_ids for row in rows[:count]):  # the oldest, as most often
        return rows[count:]
    return tuple(row for row in rows if row.memory_id not in memory_ids)


# --- what makes room


def _sessions_expired(sessions: Sequence[Session], cause: str) -> SessionsExpired:
    return SessionsExpired(
        session_ids=tuple(session.session_id for session in sessions),
        memory_ids=tuple(row.memory_id for session in sessions for row in session.rows),
        cause=cause,
    )


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


# --- the kind


class ShortTermKind(BaseKind[ShortTerm, Row]):
    """The messages of a user."""

    NAME = "short_term"
    NATURE = Nature(is_indexed=False, export_place=1, expires_by_clock=True)
    NOUN = "message"
    MISSING = "it was never there, deleted or expired"
    UPDATE, DELETE = UpdateMessage, DeleteMessage
    Dump = Dumped
    registry = registry
    initial = ShortTerm()

    # --- fold

    def fold(self, state: ShortTerm, events: Iterable[Recorded[Event]]) -> ShortTerm:
        """Fold events into the state."""
        return reduce(_evolved, events, state)

    def at(self, state: ShortTerm, now_us: int) -> ShortTerm:
        """Return the state without the sessions that have expired by then."""
        for session in state.due(now_us):
            state = state.put(session.holding(()))
        return state

    def dump(self, state: ShortTerm) -> Dumped:
        """Return the state as plain sessions."""
        ordered = sorted(state.sessions.values(), key=lambda session: session.session_id)
        return Dumped(ordered, state.next_expiry_us, state.evicted)

    def load(self, dumped: Dumped) -> ShortTerm:
        """Return the state back."""
        return ShortTerm(
            Map((session.session_id, session) for session in dumped.living),
            Map((row.memory_id, s.session_id) for s in dumped.living for row in s.rows),
            dumped.next_expiry_us,
            sum(session.size_bytes for session in dumped.living),
            sum(session.stored_bytes for session in dumped.living),
            dumped.evicted,
        )

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return what turns a command of each type into events."""
        return {**super().decisions(), AddMessage: self._add, UpdateMessage: self._update}

    def decide(self, command: Command, state: ShortTerm, limits: Limits) -> Sequence[Event]:
        """Turn a command into events, before which the sessions go that have expired.

        :raises QuotaExceededError: a message larger than a session may be.
        :raises InvalidInputError: an id that stands for another memory.
        :raises NotFoundError: no such message, or it has expired.
        """
        events = super().decide(command, self.at(state, command.now_us), limits)
        due = state.due(command.now_us)
        return [_sessions_expired(due, "ttl"), *events] if due and events else events

    def _add(self, command: AddMessage, state: ShortTerm, limits: Limits) -> list[Event]:
        new = command.message
        known = added_before(command, new.memory_id, MessageAdded, "content", new.content)
        if known or new.memory_id in state.session_of:
            return []
        for noun, name in (
            ("messages", "short_term_messages"),
            ("sessions", "short_term_sessions"),
        ):
            if getattr(limits, name) == 0:
                refuse_count(self.NAME, noun, len(state.session_of), limits, name)
        if new.size_bytes > limits.short_term_bytes:
            refuse_bytes(
                self.NAME, state.size_bytes, limits, "short_term_bytes", new=new.size_bytes
            )
        added = replace(
            new,
            expires_at_us=command.now_us + limits.short_term_ttl_s * SECOND_US,
            evicted_ids=_first_out(new, state, limits),
        )
        return [*_room_for_a_session(new.session_id, state, limits), added]

    def _update(self, command: UpdateMessage, state: ShortTerm, limits: Limits) -> list[Event]:
        row = self.living(state, command.memory_id)
        session = state.sessions[row.session_id]
        size = session.size_bytes - row.size_bytes + command.size_bytes
        if command.content is not None and size > max(limits.short_term_bytes, session.size_bytes):
            refuse_bytes(
                self.NAME, session.size_bytes, limits, "short_term_bytes", new=command.size_bytes
            )
        updated = update_of(MessageUpdated, command, row, session_id=row.session_id)
        return [] if updated is None else [updated]

    def deleted(self, row: Row, _state: ShortTerm) -> list[MessageDeleted]:
        """Return the event that takes a message away."""
        return [MessageDeleted(memory_id=row.memory_id, session_id=row.session_id)]

    def without(
        self, past: TaintedPast, row: Row, _state: ShortTerm, _limits: Limits
    ) -> list[MessageUpdated] | None:
        """Return the event that makes a message say what others have said of it last."""
        told = [one.data for one in past.cleaned(MessageAdded)]
        texts = [event for event in told if getattr(event, "content", None) is not None]
        if not texts:
            return None
        metadata = [
            event.metadata for event in told if getattr(event, "metadata", None) is not None
        ]
        fields = {"session_id": row.session_id, "metadata": metadata[-1], "pinned": None}
        return [derived(MessageUpdated, texts[-1], **fields)]

    # --- reads

    def find(self, state: ShortTerm, memory_id: str) -> Row | None:
        """Return a message's row."""
        held = state.session(state.session_of.get(memory_id, "")).rows
        return next((row for row in held if row.memory_id == memory_id), None)

    def tally(self, state: ShortTerm) -> Tally:
        """Return counts and bytes over all sessions."""
        return Tally(len(state.session_of), state.size_bytes, state.stored_bytes, state.evicted)

    def quotas(
        self, state: ShortTerm, limits: Limits, session_id: str | None
    ) -> Sequence[QuotaUse]:
        """Return how full a session is, or the fullest one."""
        found = state.sessions.get(session_id) if session_id is not None else None
        chosen = [found] if found else [] if session_id is not None else state.sessions.values()
        count = max((len(session.rows) for session in chosen), default=0)
        size_bytes = max((session.size_bytes for session in chosen), default=0)
        return (
            QuotaUse("messages", "count", count, limits.short_term_messages, evicts=True),
            QuotaUse("bytes", "bytes", size_bytes, limits.short_term_bytes, evicts=True),
            QuotaUse(
                "sessions", "count", len(state.sessions), limits.short_term_sessions, evicts=True
            ),
        )

    def rows(self, state: ShortTerm) -> Iterable[Row]:
        """Return the messages of all sessions, by session."""
        ordered = sorted(state.sessions.values(), key=lambda session: session.session_id)
        return (row for session in ordered for row in session.rows)

    def at_hand(self, state: ShortTerm, session_id: str | None) -> Sequence[Row]:
        """Return a session's messages, or those of the sessions that were used last."""
        if session_id is not None:
            return state.session(session_id).rows
        recent = nlargest(SESSIONS_SEARCHED, state.sessions.values(), key=expiry)
        return [row for session in recent for row in session.rows]

    def passages(self, row: Row) -> Sequence[Passage]:
        """Return one passage: the message."""
        return (Passage(kind.label(row.version), b"", row.began),)

    def passage_text(self, row: Row, _label: int, events: Events) -> str:
        """Return the message with its speaker."""
        return spoken(self.content(row, events), row.role)

    def exported(self, state: ShortTerm) -> Iterable[Row]:
        """Return the messages by session, those of the session that was used last at the end."""
        sessions = state.sessions.values()
        ordered = sorted(sessions, key=lambda session: max(row.version for row in session.rows))
        return [row for session in ordered for row in session.rows]

    def chain(self, row: Row) -> str:
        """Return the session."""
        return row.session_id


KIND = ShortTermKind()
