"""A context provider of Microsoft's Agent Framework: a session ends, and a new one recalls it."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="needs agent-framework-core, of the extra dev")

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

from memory_actors.integrations.agent_framework import MemoryActorsProvider

pytestmark = pytest.mark.anyio


class Scripted(BaseChatClient[Any]):
    """A model that says what it is told to, and notes what it is given."""

    def __init__(self, *script: str):
        super().__init__()
        self.script = [*script]
        self.given: list[Sequence[Message]] = []

    async def _inner_get_response(  # type: ignore[override]
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> ChatResponse:
        assert not stream
        self.given.append(messages)
        return ChatResponse(messages=[Message("assistant", [self.script.pop(0)])])


def words(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages)


async def test_an_agent_recalls_across_sessions(user) -> None:
    """An agent recalls in a new session what was said in another."""
    model = Scripted("Noted.", "In Davos.", "You are welcome.")
    for text in ("I ski in Davos", "Where in Davos do I ski?"):
        agent = Agent(model, context_providers=[MemoryActorsProvider(user)])
        session = agent.create_session()
        await agent.run(text, session=session)
    kept = await user.list_memories()
    assert [(one.role, one.content) for one in reversed(kept)] == [
        ("user", "I ski in Davos"),
        ("assistant", "Noted."),
        ("user", "Where in Davos do I ski?"),
        ("assistant", "In Davos."),
    ]
    assert len({one.session_id for one in kept}) == 2
    assert "I ski in Davos" in words(model.given[1])
    assert "quoted\ndata" in words(model.given[1])
    assert "quoted" not in words(model.given[0])


async def test_a_provider_that_only_reads_keeps_nothing(user) -> None:
    model = Scripted("Hello.", "Hello.")
    agent = Agent(model, context_providers=[MemoryActorsProvider(user, remembers=False)])
    await agent.run("I ski in Davos")
    await agent.run(" ")
    assert await user.count() == 0


async def test_what_an_agent_is_told_fits_the_budget(user) -> None:
    model = Scripted("Noted.", "Noted.")
    for n in range(20):
        await user.add(f"Ada skis in Davos on slope number {n}")
    for budget in (200, 1_000):
        provider = MemoryActorsProvider(user, token_budget=budget, remembers=False)
        await Agent(model, context_providers=[provider]).run("Where does Ada ski?")
    counts = [told.text.count("slope number") for told, _ in model.given]
    assert 0 < counts[0] < counts[1] == 20
    assert [asked.text for _, asked in model.given] == ["Where does Ada ski?"] * 2
