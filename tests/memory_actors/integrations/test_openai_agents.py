"""Sessions of the OpenAI Agents SDK: items come back as they were, and are found from elsewhere."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.loops import loop_of_thread

from memory_actors import InvalidInputError, Settings, WrongLoopError, sync

pytest.importorskip("agents", reason="needs openai-agents, of the extra dev")

from agents import Agent, Runner, function_tool, set_tracing_disabled
from agents.memory import Session
from agents.testing import ScriptedModel
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from memory_actors.base.validation import CONTENT_BYTES_MAX, LONG_BYTES_MAX
from memory_actors.integrations.openai_agents import (
    REST_BYTES_MAX,
    MemoryActorsSession,
)

pytestmark = pytest.mark.anyio
set_tracing_disabled(True)  # it would send what an agent does to the vendor

ITEMS: list[Any] = [
    {"content": "I ski in Davos", "role": "user"},
    {"role": "user", "content": "In winter"},
    {"role": "assistant", "content": "Noted", "id": "m1", "status": "completed"},
    {"id": "m2", "type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "It is sunny", "annotations": [{"at": 1}]}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Davos"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "t", "text": "a"}]},
    {"role": "user", "content": [{"type": "input_text", "text": "look"}, {"type": "input_image"}]},
    {"role": "user", "content": [{"type": "input_text", "text": "look here"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,"}]},
    {"role": "user", "content": []},
    {"role": "user", "content": " \n"},
    {"role": "user", "content": "half a pair \ud800"},
    {"role": "", "content": "nobody"},
    {"type": "reasoning", "summary": [], "encrypted_content": "x" * REST_BYTES_MAX},
    {"role": "user", "content": "much beside it", "more": "x" * REST_BYTES_MAX},
    {"deep": {"n": 1 << 70, "f": 0.1, "none": None, "list": [[[True]]]}},
]  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[sync.MemorySystem]:
    settings = Settings(check_replay=True, latency_targets_ms={})
    with sync.MemorySystem.open(
        tmp_path / "memory", embedder=FakeEmbedder(), settings=settings, alerts=[]
    ) as opened:
        yield opened


@pytest.fixture
def session(memory: sync.MemorySystem) -> MemoryActorsSession:
    return MemoryActorsSession("s", memory.user("ada"))


async def test_items_come_back_as_they_were_in_order(session) -> None:
    await session.add_items(ITEMS)
    await session.add_items(ITEMS)
    got = await session.get_items()
    assert got == ITEMS * 2
    assert [list(item) for item in got] == [list(item) for item in ITEMS * 2]
    assert isinstance(session, Session)


@pytest.mark.parametrize("item", ITEMS, ids=str)
async def test_each_item_comes_back_when_it_is_popped(session, item) -> None:
    await session.add_items([item])
    assert await session.pop_item() == item
    assert await session.pop_item() is None
    assert await session.get_items() == []


@pytest.mark.parametrize("size", [1, CONTENT_BYTES_MAX + 1, 1 << 20, LONG_BYTES_MAX - 1_000])
async def test_a_session_takes_items_of_any_size_that_the_log_takes(session, size: int) -> None:
    long = "x" * size
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_image", "image_url": f"data:{long}"}]},
        {"type": "function_call_output", "call_id": "c", "output": long},
        {"role": "user", "content": "what is this?"},
    ]
    await session.add_items(items)
    assert await session.get_items() == items


async def test_clearing_leaves_what_is_no_item(session, memory) -> None:
    user = memory.user("ada", session_id="s")
    await asyncio.to_thread(user.add, "likes tea")
    await session.add_items(ITEMS[:2])
    await session.clear_session()
    (left,) = await asyncio.to_thread(user.list_memories)
    assert left.content == "likes tea"


async def test_items_are_added_all_or_none(session) -> None:
    with pytest.raises(InvalidInputError, match="has to be JSON"):
        await session.add_items([ITEMS[0], {"role": "user", "content": object()}])
    with pytest.raises(InvalidInputError, match="max: 15,728,640"):
        await session.add_items([ITEMS[0], {"role": "user", "content": "x" * 16_000_000}])
    with pytest.raises(InvalidInputError, match="in parts"):
        await session.add_items([ITEMS[0]] * 1_001)
    assert await session.get_items() == []


async def test_those_who_pop_at_once_get_an_item_each(session) -> None:
    await session.add_items(ITEMS[:8])
    popped = await asyncio.gather(*(session.pop_item() for _ in range(9)))
    assert sorted(map(str, popped)) == sorted(map(str, [None, *ITEMS[:8]]))


CHANGES: list[Any] = [
    lambda session: session.add_items(ITEMS[2:3]),
    lambda session: session.pop_item(),
    lambda session: session.clear_session(),
]


@pytest.mark.parametrize(("change", "after"), [*zip(CHANGES, (3, 1, 0), strict=True)])
async def test_a_cancelled_change_is_known_to_be_made(session, change, after: int) -> None:
    await session.add_items(ITEMS[:2])
    changing = asyncio.create_task(change(session))
    await asyncio.sleep(0)
    changing.cancel()
    await asyncio.sleep(0)
    changing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await changing
    assert await session.get_items() == ITEMS[:after]


async def test_a_change_that_fails_after_it_was_cancelled_fails_quietly(memory) -> None:
    session = MemoryActorsSession("s", memory.user("ada"))
    adding = asyncio.create_task(session.add_items([ITEMS[0]] * 1_001))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding


async def test_a_session_on_an_async_memory_is_of_its_loop(open_memory) -> None:
    async with open_memory() as memory:
        session = MemoryActorsSession("s", memory.user("ada"))
        await session.add_items(ITEMS[:2])
        assert await session.get_items() == ITEMS[:2]
        with pytest.raises(WrongLoopError):
            await asyncio.to_thread(asyncio.run, session.get_items())


def said(text: str) -> list[Any]:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return [
        ResponseOutputMessage(
            id="1", type="message", role="assistant", content=[part], status="completed"
        )
    ]


def call(name: str, arguments: str) -> list[Any]:
    return [
        ResponseFunctionToolCall(
            id="2", call_id="2", type="function_call", name=name, arguments=arguments
        )
    ]


@function_tool
def weather(city: str) -> str:
    return f"snow in {city}"


def test_an_agent_goes_on_with_its_conversation_after_a_restart(tmp_path: Path) -> None:
    """The real agent with a scripted model, and no loop of our own."""
    model = ScriptedModel()
    agent = Agent(name="guide", model=model, tools=[weather])
    model.enqueue(call("weather", '{"city": "Davos"}'))
    model.enqueue(said("There is snow in Davos."))
    with sync.MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder(), alerts=[]) as memory:
        session = MemoryActorsSession("trip", memory.user("ada"))
        with loop_of_thread():
            first = Runner.run_sync(agent, "How is Davos?", session=session)
    with sync.MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder(), alerts=[]) as memory:
        session = MemoryActorsSession("trip", memory.user("ada"))
        model.enqueue(said("You asked about Davos."))
        with loop_of_thread():
            Runner.run_sync(agent, "What did I ask?", session=session)
    given = model.calls[-1].input
    assert given[: len(first.to_input_list())] == first.to_input_list()
    assert given[-1] == {"content": "What did I ask?", "role": "user"}
