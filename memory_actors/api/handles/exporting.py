"""In which order memories are exported: an import, line by line, finds there what it needs.

Facts first, then entities, the relationships between them, episodes and documents, each oldest
first; then messages, the session that was used last at the end; then working memory as it was set;
then context documents, block by block. An import in this order gives the same order again.
"""

from collections.abc import Iterable
from typing import Any

from memory_actors.kinds import (
    context,
    entity,
    episodic,
    long_term,
    short_term,
    structured,
    working,
)
from memory_actors.kinds.short_term import Session
from memory_actors.kinds.user_state import UserState
from memory_actors.search.reading import Found


def in_export_order(state: UserState) -> list[Found]:
    """Return every living row, and headings of context documents. Slow for many: in a thread."""
    entities = state.entity
    parts = [
        (long_term, _oldest_first(long_term.rows(state.long_term))),
        (entity, _oldest_first(entities.held.rows.values())),
        (entity, _oldest_first(entities.graph.held.rows.values())),
        (episodic, _oldest_first(episodic.rows(state.episodic))),
        (structured, _oldest_first(structured.rows(state.structured))),
        (short_term, _by_session(state.short_term.sessions.values())),
        (working, list(working.rows(state.working))),
        (context, list(context.exported(state.context))),
    ]
    return [Found(kind, row) for kind, rows in parts for row in rows]


def _oldest_first(rows: Iterable[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row.occurred_at_us, row.version))


def _by_session(sessions: Iterable[Session]) -> list[Any]:
    ordered = sorted(sessions, key=lambda session: max(row.version for row in session.rows))
    return [row for session in ordered for row in session.rows]
