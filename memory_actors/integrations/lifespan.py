"""A memory for an ASGI application: open while the application runs, in each of its workers."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from memory_actors.sharing.system import MemorySystem


def memory_lifespan(
    directory: str | Path, *, attribute: str = "memory", **parts: Any
) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    """Return the lifespan of an application that has a memory: `app.state.memory`.

    `FastAPI(lifespan=memory_lifespan("./memory"))`, `Starlette(lifespan=...)` and
    `Litestar(lifespan=[...])` take it. With several workers the first owns the store and the others
    are its clients. `parts` are the options of `MemorySystem.open`, which names what it raises.
    """

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        async with MemorySystem.open(directory, **parts) as memory:
            setattr(app.state, attribute, memory)
            yield

    return lifespan
