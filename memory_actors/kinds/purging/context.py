"""Blocks of context documents without the words of a source. What it put in the archive, too."""

from typing import Any

from memory_actors.base.errors import QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds.context.commands import BUDGET
from memory_actors.kinds.context.events import BlockEdited, BlockInserted, BlockRemoved, Event
from memory_actors.kinds.context.sizes import after, check_document
from memory_actors.kinds.context.state import Context, Row
from memory_actors.kinds.purging.cleaning import Life


def without(life: Life, row: Row, state: Context, limits: Limits) -> list[Event] | None:
    """Return what gives a block the text that others have left; None if they have left none.

    An archived one that the source edited goes as a whole, and so does one whose earlier text has
    no room in the document any more.
    """
    texts = [one.data for one in life.clean if _gives_text(one.data)]
    if row.archived or not texts:
        return None
    said = [one.data.metadata for one in life.clean if _gives_metadata(one.data)]
    edited = BlockEdited(
        memory_id=row.memory_id,
        raw=texts[-1].raw,
        heading=texts[-1].heading,
        metadata=said[-1] if said else {},
    )
    try:
        check_document(row.document, state, after(state, [edited], 0), limits, BUDGET)
    except QuotaExceededError:
        return None
    return [edited]


def deleted(row: Row, _state: Context) -> list[Event]:
    """Return what takes a block out."""
    return [BlockRemoved(memory_id=row.memory_id)]


def _gives_text(event: Any) -> bool:
    return getattr(event, "raw", None) is not None


def _gives_metadata(event: Any) -> bool:
    return isinstance(event, BlockInserted) or getattr(event, "metadata", None) is not None
