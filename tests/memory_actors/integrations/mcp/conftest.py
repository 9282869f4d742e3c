"""The server in this process, behind a client of the package `mcp`, over a store of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors import MemorySystem, UserMemory

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from mcp import Client

from memory_actors.integrations.mcp.serving import Context, agent_of, new_server

Serve = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemorySystem]:
    async with MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as opened:
        yield opened


@pytest.fixture
def serve(memory: MemorySystem) -> Serve:
    @asynccontextmanager
    async def serving(*tool_sets: str, user: Any = None, **client: Any) -> AsyncIterator[Client]:
        async def whose(context: Context) -> UserMemory:
            return user or memory.user("ada", agent_id=agent_of(context))

        server = new_server(whose, tool_sets or ("memory",))
        async with Client(server, **client) as connected:
            yield connected

    return serving
