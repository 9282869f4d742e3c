"""From what was found to what goes into a prompt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_actors.phrasing import spoken
from memory_actors.records import Context, ContextPart, Memory, MemoryType

if TYPE_CHECKING:
    from memory_actors.handles.user import UserMemory

CONTEXT_MESSAGES = 3  # what was said last: an agent has more of it itself


async def prompt(user: "UserMemory", query: str, session_id: str | None, limit: int) -> Context:
    """Return what `user.context(query)` says. See `UserContext`."""
    said = await user.short_term.messages(session_id, last=CONTEXT_MESSAGES)
    hits = await user.retrieve(query, memory_types=[MemoryType.LONG_TERM], top_k=limit)
    return context_of([*said, *hits])


def context_of(memories: Sequence[Memory]) -> Context:
    """Return messages, memories and summaries as the parts of a context, in their order."""
    return Context(tuple(map(_part, memories)))


def _part(memory: Memory) -> ContextPart:
    said = memory.memory_type == MemoryType.SHORT_TERM
    return ContextPart(
        source="message" if said else memory.source,
        memory_id=memory.memory_id,
        text=spoken(memory.content, memory.role),
        occurred_at=memory.occurred_at,
        score=getattr(memory, "score", None),
        origins=memory.origins,
        trust=memory.trust,
    )
