"""Stores by name over a fake model, and files to import."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors import MemorySystem, Settings

Store = Callable[..., AbstractAsyncContextManager[MemorySystem]]


@pytest.fixture
def store(tmp_path: Path, embedder: FakeEmbedder) -> Store:
    """Open the store of a name, again and again."""

    @asynccontextmanager
    async def open_(name: str = "memory", **settings: Any) -> AsyncIterator[MemorySystem]:
        async with MemorySystem.open(
            tmp_path / name, embedder=embedder, settings=Settings(**settings)
        ) as memory:
            yield memory

    return open_


@pytest.fixture
async def memory(store: Store) -> AsyncIterator[MemorySystem]:
    """The store, open until the test has ended."""
    async with store() as memory:
        yield memory


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """Write a file of lines."""

    def write(*lines: str | bytes, name: str = "chat.jsonl") -> Path:
        path = tmp_path / name
        data = [line if isinstance(line, bytes) else line.encode() for line in lines]
        path.write_bytes(b"".join(line + b"\n" for line in data))
        return path

    return write
