"""What an event did to a memory that it names, by its tag and by the field that names it.

Tags end in what happened, and the fields that name ids say in what part: so an event of a kind that
this file has never heard of is understood, too. What nobody can tell is a change.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class Effect(StrEnum):
    """What happened to a memory."""

    ADDED = "added"
    CHANGED = "changed"
    RESTORED = "restored"
    DELETED = "deleted"
    PRUNED = "pruned"
    """It made room, because somebody allowed that."""
    EVICTED = "evicted"
    """It made room, as its kind does by itself."""
    EXPIRED = "expired"
    COMPRESSED = "compressed"
    """A summary took its place."""
    UNDONE = "undone"
    """A summary made room for its originals."""


BEGINS = frozenset({Effect.ADDED, Effect.RESTORED})
"""What begins the life of a memory, or begins it again."""
ENDS = frozenset(Effect) - BEGINS - {Effect.CHANGED}
"""What ends it."""

_BY_VERB: Mapping[str, Effect] = MappingProxyType(
    {
        "added": Effect.ADDED,
        "set": Effect.ADDED,
        "put": Effect.ADDED,
        "started": Effect.ADDED,
        "inserted": Effect.ADDED,
        "imported": Effect.ADDED,
        "compressed": Effect.ADDED,
        "summary_added": Effect.ADDED,
        "restored": Effect.RESTORED,
        "deleted": Effect.DELETED,
        "removed": Effect.DELETED,
        "document_deleted": Effect.DELETED,
        "pruned": Effect.PRUNED,
        "expired": Effect.EXPIRED,
        "compaction_undone": Effect.UNDONE,
    }
)
"""To the memory that an event is about."""
_BY_FIELD: Mapping[str, Effect] = MappingProxyType(
    {
        "evicted_ids": Effect.EVICTED,
        "compressed_from_ids": Effect.COMPRESSED,
        "relationship_ids": Effect.DELETED,
        "closed_ids": Effect.CHANGED,
        "superseded_by_id": Effect.CHANGED,
    }
)
"""To others that an event names."""


def verb_of(tag: str) -> str:
    """Return the last part of a tag: what happened."""
    return tag.rpartition(".")[2]


def field_naming(event: Any, memory_id: str) -> str | None:
    """Return the field by which an event names another memory than the one it is about."""
    if getattr(event, "memory_id", memory_id) == memory_id:
        return None
    return next((name for name in _BY_FIELD if memory_id in getattr(event, name, ())), None)


def effect(tag: str, event: Any, memory_id: str) -> Effect:
    """Return what an event did to a memory that it names; of a dropped one, by its tag."""
    field = field_naming(event, memory_id)
    return _BY_VERB.get(verb_of(tag), Effect.CHANGED) if field is None else _BY_FIELD[field]
