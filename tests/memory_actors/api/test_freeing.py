"""A system that is closed is freed, with its model, its indexes and its clients' sockets."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors import MemorySystem, UserMemory
from memory_actors import sync as sync_api


def used(directory: Path, **how: Any) -> list["weakref.ref[Any]"]:
    """Open a system, use it, close it, and return weak references to it and to a handle."""

    async def main() -> list["weakref.ref[Any]"]:
        async with MemorySystem.open(directory, embedder=FakeEmbedder(), **how) as memory:
            user: UserMemory = memory.user("ada")
            await user.add("likes tea")
            await user.retrieve("tea")
            async with memory.replay("ada") as past:
                await past.retrieve("tea")
            return [weakref.ref(memory), weakref.ref(user), weakref.ref(past)]

    return asyncio.run(main())


@pytest.mark.parametrize("how", [{}, {"share": False}, {"encrypt": True}], ids=str)
def test_a_closed_system_is_freed(tmp_path: Path, how: dict[str, Any]) -> None:
    found = used(tmp_path / "memory", **how)
    gc.collect()
    assert [one() for one in found] == [None, None, None]


def test_a_closed_system_of_the_sync_api_is_freed(tmp_path: Path) -> None:
    with sync_api.MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as memory:
        memory.user("ada").add("likes tea")
        found = weakref.ref(memory._handle)
    del memory
    gc.collect()
    assert found() is None


def test_opening_and_closing_again_and_again_takes_no_more_memory(tmp_path: Path) -> None:
    """With the default model: one copy of it takes 20 MB."""
    script = """
    import asyncio, gc, sys
    from pathlib import Path
    from memory_actors import MemorySystem

    def resident_mib():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

    async def main():
        async with MemorySystem.open(sys.argv[1]) as memory:
            await memory.user("ada").add("likes tea")
            await memory.user("ada").retrieve("tea")

    for step in range(12):
        asyncio.run(main())
        gc.collect()
        if step == 3:
            before_mib = resident_mib()
    print(resident_mib() - before_mib)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "memory")],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert float(ran.stdout) < 40  # eight openings that stayed took 180
