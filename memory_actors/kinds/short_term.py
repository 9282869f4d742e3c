"""Short-term memory: the last messages of each session, first in, first out, gone after a while.

Reads leave out expired messages at once. The next command of the kind names them in an event.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import Metadata
from memory_actors.kinds.commands import Add, Command, Delete, Update, is_known, plain
from memory_actors.kinds.effects import Decision, Effect, Event, KindRegistry, Updated
from memory_actors.kinds.kind import BaseKind, Bound, Decide, Nature, rows_dump, tentative
from memory_actors.kinds.passages import spoken
from memory_actors.kinds.past import Events, TaintedPast
from memory_actors.kinds.rows import Draft, Keyed, Row, derived, new_row, update_of, updated_row

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
    metadata: Metadata = {}
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


# --- state


class MessageRow(Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A message without its text."""

    session_id: str
    role: str | None
    began: int
    """Version of the event that added it: its place in its session."""


class Session(msgspec.Struct, frozen=True):
    """A session: the ids of its messages, oldest first, and their bytes."""

    ids: tuple[str, ...] = ()
    size_bytes: int = 0
    expires_at_us: int = 0


class ShortTerm(Keyed[MessageRow], frozen=True):
    """The messages of all sessions that have not been named as expired."""

    sessions: Map[str, Session] = Map()
    next_expiry_us: int = 0
    """No session expires before this; 0 when there is none."""

    def session(self, session_id: str) -> list[MessageRow]:
        """Return the messages of a session, oldest first."""
        return [self.rows[one] for one in self.sessions.get(session_id, Session()).ids]

    def due(self, now_us: int) -> list[str]:
        """Return the sessions whose time is up, in order of their expiry."""
        if not self.next_expiry_us or now_us < self.next_expiry_us:
            return []
        return [one for one in self.by_expiry() if self.sessions[one].expires_at_us <= now_us]

    def by_expiry(self) -> list[str]:
        """Return the sessions, the one first that expires first."""
        return sorted(self.sessions, key=lambda one: (self.sessions[one].expires_at_us, one))


class _SessionsDraft(Draft[MessageRow]):
    __slots__ = ("_ids", "next_expiry_us", "sessions")

    def __init__(self, state: ShortTerm, place: None):
        super().__init__(state, place)
        self.sessions = state.sessions.mutate()
        self.next_expiry_us = state.next_expiry_us
        self._ids: dict[str, dict[str, None]] = {}
        """The ids of the messages of sessions that change, oldest first."""

    def _ids_of(self, session_id: str) -> dict[str, None]:
        if session_id not in self._ids:
            known = self.sessions.get(session_id, Session())
            self._ids[session_id] = dict.fromkeys(known.ids)
        return self._ids[session_id]

    def put(self, row: MessageRow) -> MessageRow | None:
        """Add a message at the end of its session, or replace the one with its id in its place."""
        old = super().put(row)
        self._ids_of(row.session_id)[row.memory_id] = None
        known = self.sessions.get(row.session_id, Session())
        size_bytes = known.size_bytes + row.size_bytes - (0 if old is None else old.size_bytes)
        self.sessions[row.session_id] = replace(known, size_bytes=size_bytes)
        return old

    def drop(self, memory_id: str) -> MessageRow:
        """Take a message away, and its session with the last one."""
        row = super().drop(memory_id)
        ids, known = self._ids_of(row.session_id), self.sessions[row.session_id]
        del ids[memory_id]
        if ids:
            size_bytes = known.size_bytes - row.size_bytes
            self.sessions[row.session_id] = replace(known, size_bytes=size_bytes)
        else:
            del self.sessions[row.session_id], self._ids[row.session_id]
            sessions = self.sessions.finish()
            self.next_expiry_us = min((one.expires_at_us for one in sessions.values()), default=0)
            self.sessions = sessions.mutate()
        return row

    def fields(self) -> tuple[object, ...]:
        """Return the fields of the state as they have become, in their order."""
        for session_id, ids in self._ids.items():
            self.sessions[session_id] = replace(self.sessions[session_id], ids=tuple(ids))
        return (*super().fields(), self.sessions.finish(), self.next_expiry_us)


# --- commands


class AddMessage(Add, frozen=True, kw_only=True):
    """Add a message to a session."""

    message: MessageAdded


UpdateMessage = plain(Update, "UpdateMessage")
DeleteMessage = plain(Delete, "DeleteMessage")


def _expired(state: ShortTerm, session_ids: Sequence[str], cause: str) -> SessionsExpired:
    return SessionsExpired(
        session_ids=tuple(session_ids),
        memory_ids=tuple(row.memory_id for one in session_ids for row in state.session(one)),
        cause=cause,
    )


# --- the kind


class ShortTermKind(BaseKind[ShortTerm, MessageRow]):
    """The messages of a user."""

    NAME = "short_term"
    NATURE = Nature(is_indexed=False, export_place=1, expires_by_clock=True)
    NOUN = "message"
    MISSING = "it was never there, deleted or expired"
    UPDATE, DELETE, DELETED = UpdateMessage, DeleteMessage, MessageDeleted
    BOUNDS = (
        Bound("messages", "short_term_messages", evicts=True),
        Bound("bytes", "short_term_bytes", "bytes", evicts=True),
        Bound("sessions", "short_term_sessions", evicts=True),
    )
    DRAFT = _SessionsDraft
    Dump = rows_dump(
        "ShortTermDump", MessageRow, "evicted", "next_expiry_us", expires=(dict[str, int], {})
    )
    registry = registry
    initial = ShortTerm()

    # --- fold

    def apply(self, draft: _SessionsDraft, recorded: Recorded[Event]) -> None:
        """Fold one event into a draft: a message renews the time of its session."""
        before_us = draft.next_expiry_us
        super().apply(draft, recorded)
        event = recorded.data
        if isinstance(event, MessageAdded):
            expires_us, session = event.expires_at_us, draft.sessions[event.session_id]
            draft.sessions[event.session_id] = replace(session, expires_at_us=expires_us)
            draft.next_expiry_us = min(before_us or expires_us, expires_us)

    def begun(self, recorded: Recorded[object], _draft: Draft[MessageRow]) -> MessageRow:
        """Return the row of a message."""
        return new_row(MessageRow, recorded, began=recorded.version)

    def changed(self, row: MessageRow, recorded: AnyRecorded) -> MessageRow:
        """Return a row after an update."""
        return updated_row(row, recorded.data, recorded)

    def at(self, state: ShortTerm, now_us: int) -> ShortTerm:
        """Return the state without the sessions that have expired by then."""
        due = state.due(now_us)
        if not due:
            return state
        left = self.fold(state, tentative([_expired(state, due, "ttl")]))
        return replace(left, evicted=state.evicted)

    def dump(self, state: ShortTerm) -> object:
        """Return the messages of each session in their order, and when each session expires."""
        expires = {name: one.expires_at_us for name, one in sorted(state.sessions.items())}
        return derived(self.Dump, state, rows=list(self.rows(state)), expires=expires)

    def load(self, dumped: Any) -> ShortTerm:
        """Return the state back."""
        state = self.of_rows(dumped.rows, evicted=dumped.evicted)
        sessions = {
            name: replace(one, expires_at_us=dumped.expires[name])
            for name, one in state.sessions.items()
        }
        return replace(state, sessions=Map(sessions), next_expiry_us=dumped.next_expiry_us)

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {**super().decisions(), AddMessage: self._add}

    def decide(self, command: Command, state: ShortTerm, limits: Limits) -> Decision:
        """Turn a command into events, before which the sessions go that have expired.

        :raises QuotaExceededError: a message larger than a session may be.
        :raises InvalidInputError: an id that stands for another memory.
        :raises NotFoundError: no such message, or it has expired.
        """
        events = super().decide(command, self.at(state, command.now_us), limits)
        due = state.due(command.now_us)
        return [_expired(state, due, "ttl"), *events] if due and events else events

    def _add(self, command: AddMessage, state: ShortTerm, limits: Limits) -> list[Event]:
        new = command.message
        said = attrgetter("content"), new.content
        was_added = is_known(command, new.memory_id, None, MessageAdded, *said)
        if was_added or new.memory_id in state.rows:
            return []
        session = state.sessions.get(new.session_id, Session())
        for noun, name, used in (
            ("messages", "short_term_messages", len(session.ids)),
            ("sessions", "short_term_sessions", len(state.sessions)),
        ):
            if getattr(limits, name) == 0:
                refuse_count(self.NAME, noun, used, limits, name)
        if new.size_bytes > limits.short_term_bytes:
            refuse_bytes(
                self.NAME, session.size_bytes, limits, "short_term_bytes", new=new.size_bytes
            )
        added = replace(
            new,
            expires_at_us=command.now_us + limits.short_term_ttl_s * SECOND_US,
            evicted_ids=self._first_out(new, state, limits),
        )
        over = len(state.sessions) + 1 - limits.short_term_sessions
        if new.session_id in state.sessions or over <= 0:
            return [added]
        return [_expired(state, state.by_expiry()[:over], "quota"), added]

    def _first_out(self, new: MessageAdded, state: ShortTerm, limits: Limits) -> tuple[str, ...]:
        session = state.sessions.get(new.session_id, Session())
        over_count = len(session.ids) + 1 - limits.short_term_messages
        over_bytes = session.size_bytes + new.size_bytes - limits.short_term_bytes
        gone = 0
        while gone < len(session.ids) and (gone < over_count or over_bytes > 0):
            over_bytes -= state.rows[session.ids[gone]].size_bytes
            gone += 1
        return session.ids[:gone]

    def _update(self, command: Update, state: ShortTerm, limits: Limits) -> list[Event]:
        row = self.living(state, command.memory_id)
        session = state.sessions[row.session_id]
        size = session.size_bytes - row.size_bytes + command.size_bytes
        if command.content is not None and size > max(limits.short_term_bytes, session.size_bytes):
            refuse_bytes(
                self.NAME, session.size_bytes, limits, "short_term_bytes", new=command.size_bytes
            )
        updated = update_of(MessageUpdated, command, row, session_id=row.session_id)
        return [] if updated is None else [updated]

    def without(
        self, past: TaintedPast, row: MessageRow, _state: ShortTerm, _limits: Limits
    ) -> list[MessageUpdated] | None:
        """Return the event that makes a message say what others have said of it last."""
        told = [one.data for one in past.cleaned(MessageAdded)]
        texts = [event for event in told if getattr(event, "content", None) is not None]
        if not texts:
            return None
        metadata = [getattr(event, "metadata", None) for event in told]
        last = next(one for one in reversed(metadata) if one is not None)
        fields = {"session_id": row.session_id, "metadata": last, "pinned": None}
        return [derived(MessageUpdated, texts[-1], **fields)]

    # --- reads

    def used(self, state: ShortTerm, session_id: str | None) -> tuple[int, ...]:
        """Return the use of each limit: of a session, or of the fullest one, and of sessions."""
        chosen = [*state.sessions.values()]
        if session_id is not None:
            chosen = [state.sessions.get(session_id, Session())]
        count = max((len(one.ids) for one in chosen), default=0)
        size_bytes = max((one.size_bytes for one in chosen), default=0)
        return count, size_bytes, len(state.sessions)

    def rows(self, state: ShortTerm) -> Iterable[MessageRow]:
        """Return the messages of all sessions, by session."""
        return (row for one in sorted(state.sessions) for row in state.session(one))

    def at_hand(self, state: ShortTerm, session_id: str | None) -> Sequence[MessageRow]:
        """Return a session's messages, or those of the sessions that were used last."""
        if session_id is not None:
            return state.session(session_id)
        recent = state.by_expiry()[: -SESSIONS_SEARCHED - 1 : -1]
        return [row for one in recent for row in state.session(one)]

    def passage_text(self, row: MessageRow, _label: int, events: Events) -> str:
        """Return the message with its speaker."""
        return spoken(self.content(row, events), row.role)

    def exported(self, state: ShortTerm) -> Iterable[MessageRow]:
        """Return the messages by session, those of the session that was used last at the end."""
        sessions = map(state.session, state.sessions)
        ordered = sorted(sessions, key=lambda rows: max(row.version for row in rows))
        return [row for rows in ordered for row in rows]


KIND = ShortTermKind()
