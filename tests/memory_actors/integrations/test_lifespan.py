"""The lifespan that opens the memory for an ASGI application: real applications of three makes."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from litestar import Litestar, get
from litestar.datastructures import State
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from support.fakes import FakeEmbedder

from memory_actors import InvalidInputError, SystemClosedError
from memory_actors.integrations.lifespan import memory_lifespan

pytestmark = pytest.mark.anyio


def fastapi(lifespan: Any) -> tuple[Any, AbstractAsyncContextManager[Any]]:
    app = FastAPI(lifespan=lifespan)

    @app.get("/count")
    async def count(request: Request) -> int:
        await request.app.state.memory.user("ada").add("likes tea")
        return await request.app.state.memory.user("ada").count()

    return app, app.router.lifespan_context(app)


def starlette(lifespan: Any) -> tuple[Any, AbstractAsyncContextManager[Any]]:
    async def count(request: Any) -> JSONResponse:
        await request.app.state.memory.user("ada").add("likes tea")
        return JSONResponse(await request.app.state.memory.user("ada").count())

    app = Starlette(routes=[Route("/count", count)], lifespan=lifespan)
    return app, app.router.lifespan_context(app)


def litestar(lifespan: Any) -> tuple[Any, AbstractAsyncContextManager[Any]]:
    @get("/count")
    async def count(state: State) -> int:
        await state.memory.user("ada").add("likes tea")
        return await state.memory.user("ada").count()

    app = Litestar([count], lifespan=[lifespan])
    return app, app.lifespan()


FRAMEWORKS = pytest.mark.parametrize("make", [fastapi, starlette, litestar])


@FRAMEWORKS
async def test_an_app_has_the_memory_while_it_runs(make: Any, tmp_path: Path) -> None:
    app, lifespan = make(memory_lifespan(tmp_path / "memory", embedder=FakeEmbedder()))
    async with lifespan:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as http:
            assert (await http.get("/count")).json() == 1
    with pytest.raises(SystemClosedError):
        await app.state.memory.users()


@FRAMEWORKS
async def test_an_app_without_its_memory_does_not_start(make: Any, tmp_path: Path) -> None:
    _, lifespan = make(memory_lifespan(tmp_path / "memory", embedder="no such"))
    with pytest.raises((InvalidInputError, ExceptionGroup)) as raised:  # Litestar's is a group
        async with lifespan:
            pass
    error: Any = raised.value
    assert isinstance(getattr(error, "exceptions", [error])[0], InvalidInputError)


async def test_another_name_and_a_lifespan_of_ones_own(
    tmp_path: Path,
) -> None:
    """The memory goes under another name and into a lifespan of one's own."""
    opened = memory_lifespan(tmp_path / "memory", attribute="recollection", embedder=FakeEmbedder())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with opened(app):
            yield

    app = FastAPI(lifespan=lifespan)
    async with app.router.lifespan_context(app):
        assert await app.state.recollection.users() == []
