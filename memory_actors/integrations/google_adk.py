"""A memory service of Google's Agent Development Kit: the memories of all users.

    Runner(..., memory_service=MemoryActorsService(memory))

Each event of a session that has words is one long-term memory, with its author and its time. An
event that is handed in again is there once, and does not come back after it was deleted. The users
of an app are apart from those of others: theirs is the memory of the user `app/user`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from memory_actors.base.errors import InvalidInputError, importing
from memory_actors.base.records import Hit, Item
from memory_actors.integrations import adapting

with importing(adapting.NEEDS, "google-adk"):
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions.session import Session
    from google.genai import types

SEARCH_RESULTS: Final = 10
USER: Final = "user"


class MemoryActorsService(BaseMemoryService):
    """`memory` is the system, async or of `memory_actors.sync`; the latter for `Runner.run`.

    `user_of` gives our id of a user from the app's name and the user's id: `lambda app, user: user`
    where several apps are to share what they know of a user.
    """

    def __init__(
        self,
        memory: adapting.AnyMemory,
        *,
        user_of: Callable[[str, str], str] = "{}/{}".format,
        max_results: int = SEARCH_RESULTS,
    ):
        self._memory = adapting.checked_memory(memory)
        self._user_of, self._max_results = user_of, max_results

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session; those that were added before are there once.

        :raises QuotaExceededError: there is no room for them.
        """
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add events, with `custom_metadata` as metadata. See `add_session_to_memory`."""
        items = [
            Item(
                content=_words(event.content),
                role=event.author or None,
                session_id=session_id,
                occurred_at=event.timestamp,
                memory_id=adapting.lasting_id(session_id, event.id) if event.id else None,
                metadata=custom_metadata,
            )
            for event in events
        ]
        await adapting.add_messages(self._user(app_name, user_id), items)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add facts as they are.

        :raises QuotaExceededError: there is no room for them.
        """
        items = [
            Item(
                content=_words(entry.content),
                role=entry.author,
                occurred_at=entry.timestamp,
                memory_id=entry.id,
                metadata={**(custom_metadata or {}), **entry.custom_metadata} or None,
            )
            for entry in memories
        ]
        await adapting.add_messages(self._user(app_name, user_id), items)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories that best answer a query, the best first."""
        if not query.strip():
            return SearchMemoryResponse()
        hits = await adapting.reach(
            self._user(app_name, user_id),
            lambda user: user.retrieve(query, top_k=self._max_results),
        )
        return SearchMemoryResponse(memories=[_entry(hit) for hit in hits])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete a memory by the id that a search returned.

        :raises NotFoundError: there is none.
        """
        if memory_id is None:
            raise InvalidInputError("give the memory_id that search_memory returned as `id`")
        await adapting.reach(self._user(app_name, user_id), lambda user: user.delete(memory_id))

    def _user(self, app_name: str, user_id: str) -> adapting.AnyUser:
        return self._memory.user(self._user_of(app_name, user_id))


def _words(content: types.Content | None) -> str:
    """Return the text of a content; the model's thoughts are left out."""
    parts = (content.parts if content else None) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _entry(hit: Hit) -> MemoryEntry:
    said = types.Content(
        role=USER if hit.role in (None, USER) else "model", parts=[types.Part(text=hit.content)]
    )
    session = {} if hit.session_id is None else {"session_id": hit.session_id}
    return MemoryEntry(
        id=hit.memory_id,
        content=said,
        author=hit.role,
        timestamp=hit.occurred_at.isoformat(timespec="seconds"),
        custom_metadata={**hit.metadata, "score": hit.score, **session},
    )
