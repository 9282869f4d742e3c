"""A memory system over a fake model, a fake clock and a real log."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeClock, FakeEmbedder, FakeIds
from support.llm_server import server

from memory_actors import MemorySystem, Settings

__all__ = ["server"]  # a language model's server on loopback

GIVEN = ("alerts", "encrypt", "metrics", "summarizer", "supersedes")
Open = Callable[..., AbstractAsyncContextManager[MemorySystem]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def open_memory(tmp_path: Path, clock: FakeClock, embedder: FakeEmbedder) -> Open:
    """Open the same store again and again; every write is checked against a replay."""
    new_id = FakeIds()

    @asynccontextmanager
    async def open_(**settings: Any) -> AsyncIterator[MemorySystem]:
        given = {name: settings.pop(name) for name in GIVEN if name in settings}
        chosen = Settings(**{"check_replay": True, "latency_targets_ms": {}, **settings})
        async with MemorySystem.open(
            tmp_path / "memory",
            embedder=embedder,
            clock=clock,
            new_id=new_id,
            settings=chosen,
            **given,
        ) as memory:
            yield memory

    return open_
