"""LangMem's tools in a real agent of LangGraph: scripts/contracts runs this, with the packages."""

from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.pages import blocks, check_printed, printed_by

pytest.importorskip("langmem", reason="needs langmem: run `scripts/contracts langmem`")

from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langmem import create_manage_memory_tool, create_search_memory_tool

from memory_actors.integrations.langgraph import MemoryActorsStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("default"),  # theirs are no errors of ours
]

NAMESPACE = ("memories", "{user_id}")


class Scripted(FakeMessagesListChatModel):
    """A model that says what it is told to."""

    def bind_tools(self, tools: Any, **_how: Any) -> Any:
        self.tools = [tool.name for tool in tools]
        return self

    tools: list[str] = []


def calls(tool: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": "1"}])


def agent(store: MemoryActorsStore, *says: AIMessage) -> Any:
    tools = [create_manage_memory_tool(NAMESPACE), create_search_memory_tool(NAMESPACE)]
    model = Scripted(responses=[*says, AIMessage("Done.")])
    return create_agent(model, tools=tools, store=store)


def told(answer: Any) -> list[str]:
    """Return what the tools told the model."""
    return [str(one.content) for one in answer["messages"] if isinstance(one, ToolMessage)]


def user(name: str) -> Any:
    return {"configurable": {"user_id": name}}


SAID = {"messages": [("user", "I ski in Davos")]}


def test_an_agent_writes_down_changes_and_deletes(tmp_path: Path) -> None:
    with MemoryActorsStore.open(tmp_path, user=1, embedder=FakeEmbedder()) as store:
        agent(store, calls("manage_memory", content="Ada skis")).invoke(SAID, user("ada"))
        (item,) = store.search(("memories", "ada"))
        assert item.value == {"content": "Ada skis"}
        change = {"action": "update", "id": item.key, "content": "Ada skis in Davos"}
        agent(store, calls("manage_memory", **change)).invoke(SAID, user("ada"))
        (item,) = store.search(("memories", "ada"))
        assert item.value == {"content": "Ada skis in Davos"}
        gone = {"action": "delete", "id": item.key}
        agent(store, calls("manage_memory", **gone)).invoke(SAID, user("ada"))
        assert store.search(()) == []


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    program = "\n".join(blocks("docs/integrations/langmem.md"))
    check_printed(program, printed_by(tmp_path, "-c", program))
