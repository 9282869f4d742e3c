"""A memory store of Strands Agents: a user's memory.

    Agent(memory_manager=MemoryManager(stores=[MemoryActorsStore(user)]))

The manager searches it before each call of a model, and by tools. With `extraction=True` messages
are kept as they are, one memory each; with an extractor of Strands its facts are.
"""

import re
from collections.abc import Mapping
from secrets import token_hex
from typing import Final

from memory_actors.base.errors import InvalidInputError, importing
from memory_actors.base.records import Item, Receipt
from memory_actors.integrations.adapting import (
    NEEDS,
    AnyUser,
    add_messages,
    checked_user,
    lasting_id,
    reach,
)
from memory_actors.integrations.tools import memory_tools

with importing(NEEDS, "strands"):
    from strands import tool
    from strands.memory.types import (
        AddMessagesContext,
        MemoryEntry,
        MemoryStore,
        Metadata,
        SearchOptions,
    )
    from strands.types.content import Message
    from strands.types.tools import AgentTool

SEARCH_RESULTS: Final = 10
SCORE: Final = "_relevanceScore"
"""The key under which the SDK's own stores tell the relevance of an entry."""
BY_ID: Final = ("update_memory", "delete_memory")
"""The tools that the manager does not have: it searches and adds."""


class MemoryActorsStore(MemoryStore):
    """The memory of one user. `name`, `description`, … are the SDK's.

    An agent that is called without `await` needs the user of a `memory_actors.sync.MemorySystem`:
    it runs each call on a loop of its own. `labels` are metadata that each entry is given and that
    a search asks for, so that several stores of one user are apart. `min_score` leaves out what a
    search finds with less.
    """

    def __init__(
        self,
        user: AnyUser,
        *,
        name: str = "memory",
        description: str | None = None,
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: object = None,
        labels: Mapping[str, object] | None = None,
        min_score: float = 0.0,
    ):
        if not name.strip():
            raise InvalidInputError("name must not be empty.")
        self.name, self.description = name, description
        self.max_search_results = _at_least_one(max_search_results)
        self.writable, self.extraction = writable, extraction
        self._user, self._min_score = checked_user(user), min_score
        self._labels = dict(labels or {})
        self._filters = {key: {"eq": value} for key, value in self._labels.items()} or None
        self._run = token_hex(8)

    async def initialize(self) -> None:
        """Begin a conversation: what `add_messages` is given from now on is a new session."""
        self._run = token_hex(8)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the memories that best answer a query, with their ids and scores as metadata.

        :raises InvalidInputError: a number of results that is none.
        """
        asked = _at_least_one((options or {}).get("max_search_results"))
        if not re.search(r"\w", query):
            return []
        hits = await reach(
            self._user,
            lambda user: user.retrieve(
                query,
                top_k=asked or self.max_search_results or SEARCH_RESULTS,
                filters=self._filters,
                min_score=self._min_score,
            ),
        )
        return [
            MemoryEntry(
                content=hit.content,
                metadata={**hit.metadata, "memory_id": hit.memory_id, SCORE: hit.score},
            )
            for hit in hits
        ]

    async def add(self, content: str, metadata: Metadata | None = None) -> Receipt:
        """Add a fact. One that is there in the same words is that one, and its id is returned.

        :raises InvalidInputError: the store takes no writes, or the content is empty.
        :raises QuotaExceededError: there is no room.
        """
        self._check_writable()
        if not content.strip():
            raise InvalidInputError("content must not be empty.")
        labelled = {**(metadata or {}), **self._labels} or None
        return await reach(
            self._user, lambda user: user.add(content, metadata=labelled, on_duplicate="count")
        )

    async def add_messages(
        self, messages: list[Message], context: AddMessagesContext | None = None
    ) -> None:
        """Add messages, one memory each; those that are handed in again are there once.

        :raises InvalidInputError: the store takes no writes.
        :raises QuotaExceededError: there is no room for them.
        """
        self._check_writable()
        numbers = (context.sequence_numbers if context else None) or [None] * len(messages)
        items = []
        for message, number in zip(messages, numbers, strict=True):
            role = message["role"]
            said = "\n".join(block["text"] for block in message["content"] if "text" in block)
            item = Item(
                content=said,
                role=role,
                session_id=f"strands-{self._run}",
                memory_id=None if number is None else lasting_id(self._run, number, role, said),
                metadata=self._labels or None,
            )
            items.append(item)
        await add_messages(self._user, items)

    def get_tools(self) -> list[AgentTool]:
        """Return tools that change and delete by id, named as the store: `memory_delete_memory`."""
        if not self.writable:
            return []
        prefix = re.sub(r"\W", "_", self.name, flags=re.ASCII)
        functions = [one for one in memory_tools(self._user) if one.__name__ in BY_ID]
        return [tool(name=f"{prefix}_{one.__name__}")(one) for one in functions]

    def _check_writable(self) -> None:
        if not self.writable:
            raise InvalidInputError("this store is not writable: make it with writable=True")


def _at_least_one(count: int | None) -> int | None:
    if count is not None and count < 1:
        raise InvalidInputError("max_search_results must be at least 1.")
    return count
