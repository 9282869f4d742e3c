"""Blocks of context documents without the words of a source.

A block that is archived, and one whose earlier text has no room any more, goes as a whole.
"""

from typing import Any

from memory_actors.base.errors import QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds.context.commands import BUDGET
from memory_actors.kinds.context.events import BlockEdited, BlockInserted
from memory_actors.kinds.context.sizes import after, check_document
from memory_actors.kinds.context.state import ContextState, Row
from memory_actors.kinds.rows import derived
from memory_actors.kinds.tainted import TaintedPast


def without(
    past: TaintedPast, row: Row, state: ContextState, limits: Limits
) -> list[BlockEdited] | None:
    """Return the event that makes a block say what others have said of it last."""
    texts = [one.data for one in past.clean if getattr(one.data, "raw", None) is not None]
    if row.archived or not texts:
        return None
    said = [one.data.metadata for one in past.clean if _gives_metadata(one.data)]
    metadata = said[-1] if said else {}
    edited = derived(BlockEdited, texts[-1], metadata=metadata, spacing=False)
    try:
        check_document(row.document, state, after(state, [edited], 0), limits, BUDGET)
    except QuotaExceededError:
        return None
    return [edited]


def _gives_metadata(event: Any) -> bool:
    return isinstance(event, BlockInserted) or getattr(event, "metadata", None) is not None
