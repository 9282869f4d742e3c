"""An application has a memory as long as it runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from litestar import Litestar, get
from litestar.testing import AsyncTestClient
from support.fakes import FakeEmbedder

from memory_actors import SystemClosedError
from memory_actors.integrations.lifespan import memory_lifespan

pytestmark = pytest.mark.anyio


async def test_the_memory_is_open_while_the_application_runs(tmp_path: Path) -> None:
    app: Any = SimpleNamespace(state=SimpleNamespace())
    lifespan = memory_lifespan(tmp_path / "memory", attribute="known", embedder=FakeEmbedder())
    async with lifespan(app):
        await app.state.known.user("ada").add("likes tea")
    with pytest.raises(SystemClosedError):
        await app.state.known.users()


async def test_litestar_takes_it(tmp_path: Path) -> None:
    @get("/users")
    async def users() -> list[str]:
        await app.state.memory.user("ada").add("likes tea")
        return await app.state.memory.users()

    lifespan = memory_lifespan(tmp_path / "memory", embedder=FakeEmbedder())
    app = Litestar([users], lifespan=[lifespan])
    async with AsyncTestClient(app) as client:
        assert (await client.get("/users")).json() == ["ada"]
