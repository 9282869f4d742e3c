"""Messages without the words of a source."""

from typing import Any

from memory_actors.base.quota import Limits
from memory_actors.kinds.purging.cleaning import Life
from memory_actors.kinds.short_term import (
    Event,
    MessageAdded,
    MessageDeleted,
    MessageUpdated,
    Row,
    ShortTerm,
)


def without(life: Life, row: Row, _state: ShortTerm, _limits: Limits) -> list[Event] | None:
    """Return what makes a message what others have left of it; None if nothing is left."""
    told = [one.data for one in life.cleaned(MessageAdded, _gives_content)]
    texts = [event for event in told if _gives_content(event)]
    if not texts:
        return None
    metadata = [event.metadata for event in told if getattr(event, "metadata", None) is not None]
    return [
        MessageUpdated(
            memory_id=row.memory_id,
            session_id=row.session_id,
            content=texts[-1].content,
            size_bytes=texts[-1].size_bytes,
            metadata=metadata[-1],
        )
    ]


def deleted(row: Row, _state: ShortTerm) -> list[Event]:
    """Return what takes a message away."""
    return [MessageDeleted(memory_id=row.memory_id, session_id=row.session_id)]


def _gives_content(event: Any) -> bool:
    return getattr(event, "content", None) is not None
