"""A memory of AutoGen: a user's memory.

    AssistantAgent("agent", client, memory=[MemoryActorsMemory(user)])

Before the model answers, memories about the last message of the user are added to its messages.
`add` stores long-term memories.
"""

from typing import Final

from memory_actors.base.errors import InvalidInputError, importing
from memory_actors.base.validation import check_count
from memory_actors.integrations import adapting

with importing(adapting.NEEDS, "autogen"):
    from autogen_core import CancellationToken
    from autogen_core.memory import (
        Memory,
        MemoryContent,
        MemoryMimeType,
        MemoryQueryResult,
        UpdateContextResult,
    )
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import SystemMessage, UserMessage

TEXTS: Final = (MemoryMimeType.TEXT.value, MemoryMimeType.MARKDOWN.value)


class MemoryActorsMemory(Memory):
    """The memory of one user; `user` is async, or that of a `memory_actors.sync`.

    The memories given to the model take at most `token_budget` tokens.
    """

    def __init__(self, user: adapting.AnyUser, *, token_budget: int = 1_000):
        self._user = adapting.checked_user(user)
        self._token_budget = check_count(token_budget, "token_budget", 1)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Tell the model what is known about the last message of the user, as quoted data."""
        messages = await model_context.get_messages()
        asked = [one.content for one in messages if isinstance(one, UserMessage)]
        query = asked[-1] if asked and isinstance(asked[-1], str) else ""
        known = await adapting.known_about(self._user, query, self._token_budget)
        if known:
            await model_context.add_message(SystemMessage(content=known))
        found = [MemoryContent(content=known, mime_type=MemoryMimeType.TEXT)] if known else []
        return UpdateContextResult(memories=MemoryQueryResult(results=found))

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        **kwargs: object,
    ) -> MemoryQueryResult:
        """Return the memories that best answer a query; options are those of `retrieve`."""
        del cancellation_token  # a search is short, and a task that is cancelled ends it
        asked = query if isinstance(query, str) else _text(query)
        hits = await adapting.reach(self._user, lambda user: user.retrieve(asked, **kwargs))
        found = [
            MemoryContent(
                content=hit.content,
                mime_type=MemoryMimeType.TEXT,
                metadata={**hit.metadata, "memory_id": hit.memory_id, "score": hit.score},
            )
            for hit in hits
        ]
        return MemoryQueryResult(results=found)

    async def add(
        self, content: MemoryContent, cancellation_token: CancellationToken | None = None
    ) -> None:
        """Keep a text with its metadata.

        :raises InvalidInputError: it is no text.
        :raises QuotaExceededError: there is no room for it.
        """
        del cancellation_token  # a write that has begun is not undone
        text = _text(content)
        await adapting.reach(self._user, lambda user: user.add(text, metadata=content.metadata))

    async def clear(self) -> None:
        """Delete the user's long-term memories."""
        await adapting.reach(
            self._user, lambda user: user.delete_many({}, memory_types=["long_term"])
        )

    async def close(self) -> None:
        """Do nothing: the memory system is yours to close."""


def _text(content: MemoryContent) -> str:
    mime_type = content.mime_type
    kind = mime_type.value if isinstance(mime_type, MemoryMimeType) else mime_type
    if kind not in TEXTS or not isinstance(content.content, str):
        raise InvalidInputError(f"a memory is a text: give one of {' or '.join(TEXTS)}, not {kind}")
    return content.content
