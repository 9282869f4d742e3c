"""A memory of AutoGen: added memories reach the model and are found."""

import pytest

pytest.importorskip("autogen_core", reason="needs autogen-core: scripts/contracts runs it")

from autogen_core.memory import Memory, MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import SystemMessage, UserMessage

from memory_actors import InvalidInputError
from memory_actors.integrations.autogen import MemoryActorsMemory

pytestmark = pytest.mark.anyio


def text(content: str) -> MemoryContent:
    return MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata={"of": "sports"})


async def test_the_model_is_told_what_is_known_about_the_last_message(user) -> None:
    keeps: Memory = MemoryActorsMemory(user)
    await keeps.add(text("Ada skis in Davos"))
    context = BufferedChatCompletionContext(buffer_size=9)
    assert (await keeps.update_context(context)).memories.results == []
    await context.add_message(UserMessage(content="Where in Davos?", source="user"))
    (told,) = (await keeps.update_context(context)).memories.results
    message = (await context.get_messages())[-1]
    assert isinstance(message, SystemMessage)
    assert "Ada skis in Davos" in message.content == told.content
    await keeps.close()
    assert await user.count() == 1


async def test_a_query_finds_contents_with_their_metadata_until_all_is_cleared(memory) -> None:
    keeps = MemoryActorsMemory(memory.user("ada"))
    await keeps.add(text("Ada skis in Davos"))
    await keeps.add(text("Ada drinks tea"))
    (found,) = (await keeps.query(text("Davos"), top_k=1)).results
    assert found.content == "Ada skis in Davos"
    assert found.metadata is not None
    assert found.metadata["of"] == "sports"
    assert found.metadata["score"] > 0
    await keeps.clear()
    assert (await keeps.query("Davos")).results == []


async def test_what_is_no_text_is_refused(memory) -> None:
    keeps = MemoryActorsMemory(memory.user("ada"))
    with pytest.raises(InvalidInputError, match="a memory is a text"):
        await keeps.add(MemoryContent(content=b"x", mime_type=MemoryMimeType.BINARY))
