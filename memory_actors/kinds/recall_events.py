"""The event of a read, if reads are audited. See recalls.py."""

import msgspec

from eventlog import EventRegistry

registry = EventRegistry()


@registry.event("recall.made", keys=lambda event: event.memory_ids)
class RecallMade(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Memories were returned for a query."""

    query: str
    """The text that was asked, or a keyed hash of it."""
    memory_ids: tuple[str, ...]
    """In the order they were returned; as the query."""
    hashed: bool
