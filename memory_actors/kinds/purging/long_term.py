"""Facts without the words of a source."""

from typing import Any

from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.kinds.long_term.events import (
    Event,
    MemoryAdded,
    MemoryDeleted,
    MemoryUpdated,
    SummaryAdded,
)
from memory_actors.kinds.long_term.state import LIVES, LongTerm, Restored, Row, as_it_was
from memory_actors.kinds.purging.cleaning import Life


def without(life: Life, row: Row, _state: LongTerm, _limits: Limits) -> list[Event] | None:
    """Return what makes a memory what others have left of it; None if nothing is left."""
    then = _left(life)
    if then is None or isinstance(then, SummaryAdded):
        return None
    content = None if then.digest == row.digest else then.content
    # Said again even where nothing changes: what is not in its log was not purged.
    return [
        MemoryUpdated(
            memory_id=row.memory_id,
            content=content,
            size_bytes=then.size_bytes if content is not None else 0,
            digest=then.digest if content is not None else b"",
            metadata=then.metadata,
        )
    ]


def deleted(row: Row, _state: LongTerm) -> list[Event]:
    """Return what takes a memory away."""
    return [MemoryDeleted(memory_id=row.memory_id)]


def returning(life: Life, _limits: Limits) -> list[Event] | None:
    """Return what brings an original of a summary back, without the source's words."""
    then = _left(life)
    return None if then is None else [then]


def _left(life: Life) -> Restored | None:
    events = life.cleaned(MemoryAdded, _gives_content)
    try:
        return as_it_was(LIVES.last(life.memory_id, events))
    except NotFoundError:
        return None


def _gives_content(event: Any) -> bool:
    return isinstance(event, MemoryAdded) or (
        isinstance(event, MemoryUpdated) and event.content is not None
    )
