"""Sessions of messages: the state of short-term memory, and how it changes. Never in place.

What has expired stays in the state until an event names it; `at` gives the state as it reads.
"""

from collections.abc import Iterable

import msgspec
from immutables import Map

from memory_actors.kinds import kind


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
        return Session(
            session_id=self.session_id,
            rows=held,
            size_bytes=sum(row.size_bytes for row in held),
            stored_bytes=sum(row.stored_bytes for row in held),
            expires_at_us=self.expires_at_us if expires_at_us is None else expires_at_us,
        )


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


def at(state: ShortTerm, now_us: int) -> ShortTerm:
    """Return the state without the sessions that have expired by then."""
    for session in state.due(now_us):
        state = state.put(session.holding(()))
    return state


def messages(state: ShortTerm, session_id: str) -> tuple[Row, ...]:
    """Return a session's messages, oldest first."""
    return state.session(session_id).rows


def _session_of(known: Map[str, str], old: Session, new: Session) -> Map[str, str]:
    before = {row.memory_id for row in old.rows}
    after = {row.memory_id for row in new.rows}
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
