"""The kinds of memory, by name. What each is: `memory_actors/kinds`."""

from enum import StrEnum

from memory_actors.base.validation import check_member


class MemoryType(StrEnum):
    """The kinds of memory. Every parameter that takes one also takes its string."""

    WORKING = "working"
    SHORT_TERM = "short_term"
    LONG_TERM = "long_term"
    ENTITY = "entity"
    EPISODIC = "episodic"
    STRUCTURED = "structured"
    CONTEXT = "context"


def check_memory_type(value: MemoryType | str) -> MemoryType:
    """Return a memory type from itself or its string.

    :raises InvalidInputError: there is no such type.
    """
    return check_member(MemoryType, value, "memory type")
