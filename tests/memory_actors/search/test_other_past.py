"""Index files of another history of the same store are not believed."""

import asyncio
import shutil
from pathlib import Path

import pytest
from support.fakes import FakeEmbedder

from memory_actors import MemorySystem

pytestmark = pytest.mark.anyio


async def added(directory: Path, *contents: str) -> None:
    async with MemorySystem.open(directory, embedder=FakeEmbedder()) as memory:
        for content in contents:
            await memory.user("ada").add(content)
        await memory.user("ada").retrieve("anything")
        await memory.user("ada").working.set("last", contents[-1])  # not in the log yet


async def found(directory: Path, query: str) -> list[str]:
    async with MemorySystem.open(directory, embedder=FakeEmbedder()) as memory:
        hits = await memory.user("ada").retrieve(query, memory_types=["long_term"])
        return [hit.content for hit in hits]


@pytest.mark.parametrize("later", [(), ("sings",), ("sings", "dances", "swims")], ids=len)
async def test_an_index_of_another_past_is_built_anew(
    tmp_path: Path, later: tuple[str, ...]
) -> None:
    """One with the same number of events, and one from further on or less far, in another copy."""
    one, other = tmp_path / "one", tmp_path / "other"
    await added(one, "likes tea")
    await asyncio.to_thread(shutil.copytree, one, other)
    await added(one, "plays chess", "collects stamps")
    await added(other, "rides horses", *later)
    shutil.rmtree(other / "indexes")
    shutil.copytree(one / "indexes", other / "indexes")
    assert "rides horses" in await found(other, "rides horses")
    everything = await found(other, "plays chess collects stamps")
    assert sorted(everything) == sorted(["likes tea", "rides horses", *later])
