"""A memory block of LlamaIndex: a user's memory.

    Memory.from_defaults(memory_blocks=[MemoryActorsBlock(user=user)])

Messages that leave LlamaIndex's own queue become long-term memories, one each; before an answer the
block gives back what is known about the last message.
"""

from typing import Any, Final

from memory_actors.base.errors import importing
from memory_actors.base.records import Item
from memory_actors.integrations import adapting

with importing(adapting.NEEDS, "llama-index"):
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock

BYTES_A_TOKEN: Final = 4  # about, as everywhere


class MemoryActorsBlock(BaseMemoryBlock[str]):
    """The memory of one user; `user` is async, or that of a `memory_actors.sync`.

    Calls of `Memory.put`, `get` and the like without `await` need a user of the sync API. The
    memories that the block returns take at most `token_budget` tokens.
    """

    name: str = Field(default="memory_actors", description="The name of the block.")
    user: Any = Field(exclude=True, description="The user's memory: memory.user(…).")
    token_budget: int = Field(default=1_000, gt=0, description="The most that is given back.")

    def model_post_init(self, context: object) -> None:
        """Check the user.

        :raises InvalidInputError: it is none.
        """
        super().model_post_init(context)
        adapting.checked_user(self.user)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: object) -> str:
        """Return the memories about the user's last message, as quoted data, or "".

        A message after it that is a tool's or the model's does not count.
        """
        del block_kwargs
        asked = [one.content or "" for one in messages or () if one.role == "user"]
        return await adapting.known_about(self.user, asked[-1] if asked else "", self.token_budget)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Keep messages of the user and of the model.

        :raises QuotaExceededError: there is no room for them.
        """
        items = [
            Item(
                content=message.content or "",
                role=message.role.value,
                session_id=message.additional_kwargs.get("session_id"),
            )
            for message in messages
            if message.role.value in adapting.SAID_BY
        ]
        await adapting.add_messages(self.user, items)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the content without its last memories, so many tokens less, or None if empty.

        The best stand first. The lines that open and close the quotation stay.
        """
        # Some lines stand before the memories, which take a line each; one may stand behind them.
        lines = content.split("\n")
        first = lines.index("<memory>") + 1 if "<memory>" in lines else 0
        last = len(lines) - (lines[-1] == "</memory>")
        opening, memories, end = lines[:first], lines[first:last], lines[last:]
        excess = tokens_to_truncate * BYTES_A_TOKEN
        while memories and excess > 0:
            excess -= len(memories.pop().encode()) + 1
        return "\n".join([*opening, *memories, *end]) if memories else None
