"""A memory block of LlamaIndex: what leaves its queue is recalled by a new agent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs llama-index-core: scripts/contracts runs it")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

from memory_actors.integrations.llama_index import MemoryActorsBlock

pytestmark = [
    pytest.mark.anyio,
    # LlamaIndex lists the members of an agent, and so touches what pydantic has deprecated.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]


def asks(text: str) -> list[ChatMessage]:
    return [ChatMessage(role="user", content=text)]


async def test_messages_are_kept_with_role_and_session_and_given_back(user) -> None:
    block = MemoryActorsBlock(user=user)
    said = [
        ChatMessage(role="user", content="I ski in Davos"),
        ChatMessage(role="assistant", content=""),
        ChatMessage(role="tool", content="a result"),
        ChatMessage(role="system", content="Be kind"),
    ]
    await block.aput(said, session_id="s")
    (kept,) = await user.list_memories()
    assert (kept.content, kept.role, kept.session_id) == ("I ski in Davos", "user", "s")
    given = await block.aget([*asks("Davos?"), ChatMessage(role="tool", content="x")])
    assert "I ski in Davos" in given
    assert "</memory>" in given
    assert await block.aget([]) == await block.aget() == await block.aget(asks(" ")) == ""


async def test_truncating_leaves_out_the_last_memories(user) -> None:
    for n in range(8):
        await user.add(f"Ada skis in Davos on slope {n}")
    block = MemoryActorsBlock(user=user)
    whole = await block.aget(asks("Where does Ada ski?"))
    less = await block.atruncate(whole, 50)
    assert less is not None
    assert 0 < len(whole) - len(less) < 400
    assert less.splitlines()[:6] == whole.splitlines()[:6]
    assert less.endswith("\n</memory>")
    assert await block.atruncate(whole, 10_000) is None
    assert await block.atruncate(whole, 0) == whole
    assert await block.atruncate("no quotation", 1) is None


@asynccontextmanager
async def queue() -> AsyncIterator[Any]:
    """Hold the database of LlamaIndex's own queue, which it does not close itself."""
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine("sqlite+aiosqlite:///:memory:")
    yield engine
    await engine.dispose()


async def test_an_agent_recalls_across_sessions(open_memory) -> None:
    """An agent recalls in a new session what was said in another."""
    given: list[str] = []

    def scripted(messages: Any, **_: Any) -> ChatMessage:
        given.append("\n".join(str(message.content) for message in messages))
        return ChatMessage(role="assistant", content=f"Answer {len(given)}. " + "Well. " * 200)

    async with queue() as engine, open_memory() as memory:
        user = memory.user("ada")
        for session_id, texts in (
            ("monday", ["I ski in Davos", "And now?"]),
            ("friday", ["Where in Davos?"]),
        ):
            remembers = Memory.from_defaults(
                session_id=session_id,
                async_engine=engine,
                token_limit=1_000,
                token_flush_size=100,
                chat_history_token_ratio=0.3,
                memory_blocks=[MemoryActorsBlock(user=user)],
                tokenizer_fn=str.split,
            )
            for text in texts:
                llm = MockFunctionCallingLLM(response_generator=scripted, is_chat_model=True)
                agent = FunctionAgent(llm=llm, tools=[])
                await agent.run(text, memory=remembers)
        kept = await user.list_memories()
        assert "I ski in Davos" in [one.content for one in kept]
        assert {one.session_id for one in kept} == {"monday"}
    assert "I ski in Davos" in given[-1]
    assert "<memory_actors>" in given[-1]
