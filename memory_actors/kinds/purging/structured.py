"""Documents without what a source has put."""

from typing import Any

from memory_actors.base.quota import Limits
from memory_actors.kinds.purging.cleaning import Life
from memory_actors.kinds.structured.state import (
    LIVES,
    DocumentDeleted,
    DocumentPut,
    DocumentUpdated,
    Event,
    Row,
    Structured,
    as_it_was,
)


def without(life: Life, _row: Row, _state: Structured, _limits: Limits) -> list[Event] | None:
    """Return what puts a document as others have left it; None if nobody else has a say in it."""
    events = life.cleaned(DocumentPut, _gives_value)
    return [as_it_was(LIVES.last(life.memory_id, events))] if events else None


def deleted(row: Row, _state: Structured) -> list[Event]:
    """Return what takes a document away."""
    return [DocumentDeleted(memory_id=row.memory_id)]


def _gives_value(event: Any) -> bool:
    return isinstance(event, DocumentPut) or (
        isinstance(event, DocumentUpdated) and event.value is not None
    )
