"""Open stores for a measurement, and a look behind the public API where it has to be."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from memory_actors import Limits, MemoryActorsError, MemorySystem, Plan, Settings, Tier
from memory_actors.base.streams import stream_of
from memory_actors.kinds.user_state import KINDS, UserState
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedder
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.model.installed import model_path
from memory_actors.users.handles.scope import Services
from memory_actors.users.live_user import LiveUser

UNLIMITED_BYTES = 1 << 40
REST_S = 0.01
DEADLINE_S = 600.0  # what takes too long is to be measured, not to fail


@asynccontextmanager
async def opened(
    store: Path,
    embedder: Embedder,
    limits: Limits | None = None,
    tier: Tier = Tier.LOCAL,
) -> AsyncIterator[MemorySystem]:
    """Open a store whose users stay in memory; alerts go nowhere. `limits` are those of a tier."""
    tiers = {} if limits is None else {tier: Plan(limits=limits)}
    chosen = Settings(
        live_bytes_max=UNLIMITED_BYTES,
        tiers=tiers,
        deadline_s=DEADLINE_S,
        embedder_deadline_s=DEADLINE_S,
    )
    async with MemorySystem.open(store, embedder=embedder, settings=chosen, alerts=[]) as memory:
        yield memory


def services_of(memory: MemorySystem) -> Services:
    """Return the parts of a system."""
    return memory._services  # noqa: SLF001 - what is measured alone is not public


@asynccontextmanager
async def live_user(memory: MemorySystem, user_id: str) -> AsyncIterator[LiveUser]:
    """Hold a user's actor live."""
    async with services_of(memory).runtime.use(stream_of(user_id)) as live:
        yield live


async def at_rest(memory: MemorySystem, user_id: str) -> None:
    """Wait until nothing is done in the background: no graph is built, no vector waits for disk."""
    table = services_of(memory).embeddings.disk
    async with live_user(memory, user_id) as live:
        while table.waiting or _wants_maintenance(live) or live._tasks._running:  # noqa: SLF001
            for index in _indexes(live):
                index.maintain()  # starts the maintenance, if it is not under way
            await asyncio.sleep(REST_S)


def _wants_maintenance(live: LiveUser) -> bool:
    return any(index.rows.wants_maintenance for index in _indexes(live))


def _indexes(live: LiveUser) -> list[MemoryIndex]:
    return [index for kind in KINDS if (index := live.indexes.get(kind)) is not None]


def installed_model() -> DefaultEmbedder | None:
    """Return the default model, loaded, if it is installed."""
    if model_path("int8") is None:
        return None
    embedder = DefaultEmbedder()
    embedder.embed(["The model is loaded by the first text."])
    return embedder


class _CapturedError(MemoryActorsError):
    """Ends a write before it is decided."""


async def command_of(live: LiveUser, write: Awaitable[Any]) -> Any:
    """Return the command that a write leads to, ready to be decided. Nothing is written."""
    captured: list[Any] = []

    async def capture(command: Any, state: UserState) -> Any:
        captured.append(await LiveUser.enrich(live, command, state))
        raise _CapturedError

    live.enrich = capture  # type: ignore[method-assign]
    try:
        await write
    except _CapturedError:
        pass
    finally:
        del live.enrich
    return captured[0]


async def timed_ms(call: Awaitable[Any]) -> float:
    """Return how long a call took."""
    started_s = perf_counter()
    await call
    return (perf_counter() - started_s) * 1e3
