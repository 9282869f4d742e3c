"""Values of working memory without those of a source: what was there before is there again."""

from memory_actors.base.quota import Limits
from memory_actors.kinds.purging.cleaning import Life
from memory_actors.kinds.working import Event, KeyDeleted, KeySet, Row, Working


def without(life: Life, row: Row, _state: Working, _limits: Limits) -> list[Event] | None:
    """Return what sets a key as others did last; None if nobody else has."""
    last: KeySet | None = None
    for recorded in life.clean:
        event = recorded.data
        its_own = isinstance(event, KeySet) and event.memory_id == row.memory_id
        last = event if its_own else None  # else it was deleted, or left for another
    if last is None:
        return None
    return [
        KeySet(
            memory_id=row.memory_id,
            key=row.key,
            value=last.value,
            size_bytes=last.size_bytes,
            metadata=last.metadata,
        )
    ]


def deleted(row: Row, _state: Working) -> list[Event]:
    """Return what takes a key away."""
    return [KeyDeleted(memory_id=row.memory_id, key=row.key)]
