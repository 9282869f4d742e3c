"""A turn of a chat: one append adds it to long-term memory and to the messages of its session."""

from typing import Any, Self

from msgspec.structs import replace

from memory_actors.kinds.kind import Command, Outside
from memory_actors.kinds.long_term import AddMemories
from memory_actors.kinds.short_term import AddMessage


class AddTurn(Command, frozen=True, kw_only=True):
    """Add a turn as a memory and as a message; neither, if the memory's id was used before."""

    memory: AddMemories
    message: AddMessage

    @property
    def alone(self) -> bool:
        """True where the caller chose the memory's id."""
        return self.memory.alone

    async def informed(self, state: Any, outside: Outside) -> Self:
        """Return the command with what the log knows of the memory's id."""
        return replace(self, memory=await self.memory.informed(state, outside))
