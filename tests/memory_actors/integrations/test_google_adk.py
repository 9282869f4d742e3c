"""A memory service of Google's ADK, and its runner: a session ends, and a new one recalls it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from memory_actors import InvalidInputError, NotFoundError

pytest.importorskip("google.adk", reason="needs google-adk: scripts/contracts runs it")

from google.adk.agents import Agent
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import load_memory, preload_memory
from google.genai import types

from memory_actors.integrations.google_adk import MemoryActorsService

pytestmark = pytest.mark.anyio
ADA: dict[str, str] = {"app_name": "trips", "user_id": "ada"}
AT = datetime(2026, 3, 1, tzinfo=UTC)


def event(text: str | None, event_id: str = "e1", author: str = "user", **more: Any) -> Event:
    parts = [] if text is None else [types.Part(text=text, **more)]
    return Event(
        id=event_id, author=author, timestamp=AT.timestamp(), content=types.Content(parts=parts)
    )


async def found(service: MemoryActorsService, query: str, **whose: str) -> list[MemoryEntry]:
    return (await service.search_memory(**{**ADA, **whose}, query=query)).memories


async def test_events_are_found_with_author_time_and_session(memory) -> None:
    service = MemoryActorsService(memory)
    events = [event("I ski in Davos"), event("Noted.", "e2", "guide"), event(None, "e3")]
    thought = event("a thought about Davos", "e4", "guide", thought=True)
    for _ in range(2):
        await service.add_events_to_memory(**ADA, events=[*events, thought], session_id="s")
    entries = await found(service, "Davos")
    first = entries[0]
    assert len(entries) == 2
    assert first.content == types.Content(role="user", parts=[types.Part(text="I ski in Davos")])
    assert (first.author, first.timestamp) == ("user", AT.isoformat())
    assert first.custom_metadata["session_id"] == "s"
    assert entries[1].content.role == "model"
    assert await found(service, " ") == []


async def test_users_and_apps_are_apart_unless_told_otherwise(memory) -> None:
    apart = MemoryActorsService(memory)
    shared = MemoryActorsService(memory, user_of=lambda _app, user: user)
    for service in (apart, shared):
        await service.add_events_to_memory(**ADA, events=[event("I ski in Davos")])
    assert len(await found(apart, "Davos")) == 1
    assert await found(apart, "Davos", app_name="other") == []
    assert await found(apart, "Davos", user_id="grace") == []
    assert len(await found(shared, "Davos", app_name="other")) == 1


async def test_what_was_deleted_does_not_come_back_with_its_session(memory) -> None:
    service = MemoryActorsService(memory)
    await service.add_events_to_memory(**ADA, events=[event("I ski in Davos")], session_id="s")
    (entry,) = await found(service, "Davos")
    await service.delete_memory(**ADA, memory_id=entry.id)
    await service.add_events_to_memory(**ADA, events=[event("I ski in Davos")], session_id="s")
    assert await found(service, "Davos") == []
    with pytest.raises(NotFoundError):
        await service.delete_memory(**ADA, memory_id=entry.id)
    with pytest.raises(InvalidInputError, match="memory_id"):
        await service.delete_memory(**ADA)


class Scripted(BaseLlm):
    """A model that says what it is told to, and notes what it is given."""

    script: list[Any] = []
    given: list[Any] = []

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        self.given.append(llm_request.model_dump_json())
        part = self.script.pop(0)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def test_an_agent_recalls_across_sessions(memory) -> None:
    """An agent recalls in a new session what was said in another."""
    recall = types.Part(
        function_call=types.FunctionCall(name="load_memory", args={"query": "Davos"})
    )
    model = Scripted(
        model="scripted",
        script=[types.Part(text="Noted."), recall, types.Part(text="In Davos.")],
    )
    agent = Agent(name="guide", model=model, tools=[load_memory, preload_memory])
    sessions: Any = InMemorySessionService()
    service = MemoryActorsService(memory)
    runner = Runner(agent=agent, app_name="trips", session_service=sessions, memory_service=service)
    for session_id, text in (("monday", "I ski in Davos"), ("friday", "Where in Davos?")):
        session = await sessions.create_session(**ADA, session_id=session_id)
        said = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in runner.run_async(user_id="ada", session_id=session_id, new_message=said):
            pass
        session = await sessions.get_session(**ADA, session_id=session_id)
        await service.add_session_to_memory(session)
    await runner.close()
    assert "PAST_CONVERSATIONS" in model.given[1]
    assert "I ski in Davos" in model.given[1]
    assert "function_response" in model.given[2]
    assert model.given[2].count("I ski in Davos") > model.given[1].count("I ski in Davos")
