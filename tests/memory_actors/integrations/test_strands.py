"""A memory store of Strands Agents, and its agent: it remembers, ends, and recalls in a new one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors import Settings, sync

pytest.importorskip("strands", reason="needs strands-agents: scripts/contracts runs it")

from strands import Agent
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext
from strands.models import Model

from memory_actors.integrations.strands import SCORE, MemoryActorsStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[sync.MemorySystem]:
    settings = Settings(check_replay=True, latency_targets_ms={})
    with sync.MemorySystem.open(
        tmp_path / "memory", embedder=FakeEmbedder(), settings=settings, alerts=[]
    ) as opened:
        yield opened


@pytest.fixture
def store(memory: sync.MemorySystem) -> MemoryActorsStore:
    return MemoryActorsStore(memory.user("ada"))


def message(text: str, role: str = "user") -> Any:
    return {"role": role, "content": [{"text": text}]}


async def test_what_is_added_is_found_with_its_id_and_score(store) -> None:
    receipt = await store.add("Ada skis in Davos", {"topic": "sports"})
    (entry,) = await store.search("Davos")
    assert entry.content == "Ada skis in Davos"
    assert entry.metadata["topic"] == "sports"
    assert entry.metadata["memory_id"] == receipt.memory_id
    assert 0 < entry.metadata[SCORE] <= 1
    assert (await store.add("Ada skis in Davos", {"topic": "sports"})).operation == "seen"
    assert await store.search(" … ") == []


async def test_messages_are_memories_of_one_session_each_of_them_once(store, memory) -> None:
    await store.initialize()
    result = {"toolResult": {"toolUseId": "t", "content": [], "status": "success"}}
    silent: Any = {"role": "user", "content": [result]}
    messages = [message("ok"), message("ok", "assistant"), message("ok"), silent]
    numbers = AddMessagesContext(sequence_numbers=[0, 1, 2, 3])
    for _ in range(2):
        await store.add_messages(messages, numbers)
    kept = memory.user("ada").list_memories()
    assert [(one.content, one.role) for one in reversed(kept)] == [
        ("ok", "user"), ("ok", "assistant"), ("ok", "user"),
    ]  # fmt: skip
    assert len({one.session_id for one in kept}) == 1
    await store.initialize()
    await store.add_messages(messages[:1], AddMessagesContext(sequence_numbers=[0]))
    await store.add_messages(messages[:1])
    assert len({one.session_id for one in memory.user("ada").list_memories()}) == 2
    assert memory.user("ada").count() == 5


class Scripted(Model):
    """A model that says what it is told to, and notes what it is given."""

    def __init__(self, *script: Any):
        self.script = [*script]
        self.given: list[Any] = []

    def get_config(self) -> Any:
        return {}

    def update_config(self, **_: Any) -> None: ...

    def structured_output(self, *_: Any, **__: Any) -> Any: ...

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.given.append([*messages])
        said = self.script.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": said}}}
        else:
            name, arguments = said
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": "t"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(said, str) else "tool_use"}}


def test_an_agent_recalls_across_conversations(memory) -> None:
    """An agent recalls in a new conversation what it was told."""
    user = memory.user("ada")
    first = Scripted(("add_memory", '{"entries": ["Ada skis in Davos"]}'), "Noted.")
    manager = MemoryManager(stores=[MemoryActorsStore(user)], add_tool_config=True)
    agent = Agent(model=first, memory_manager=manager, callback_handler=None)
    assert {"memory_update_memory", "memory_delete_memory"} <= set(agent.tool_names)
    agent("I ski in Davos")
    (fact,) = user.list_memories()
    second = Scripted(
        "In Davos.", ("memory_delete_memory", f'{{"memory_id": "{fact.memory_id}"}}'), "Gone."
    )
    manager = MemoryManager(stores=[MemoryActorsStore(user)])
    agent = Agent(model=second, memory_manager=manager, callback_handler=None)
    agent("Where in Davos do I ski?")
    assert "Ada skis in Davos" in str(second.given[0])
    agent("Forget it")
    assert user.count() == 0


def test_an_agent_keeps_the_messages_themselves_if_asked(memory) -> None:
    from strands.memory.extraction.triggers import InvocationTrigger
    from strands.memory.extraction.types import ExtractionConfig

    store = MemoryActorsStore(
        memory.user("ada"), extraction=ExtractionConfig(trigger=InvocationTrigger())
    )
    manager = MemoryManager(stores=[store])
    agent = Agent(model=Scripted("Noted."), memory_manager=manager, callback_handler=None)
    agent("I ski in Davos")
    asyncio.run(manager.flush())
    said = [one.content for one in memory.user("ada").list_memories()]
    assert sorted(said) == ["I ski in Davos", "Noted."]
