"""On a full disk a store is opened and read: after a takeover, after a close, and by commands."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from support.disks import file_system
from support.fakes import FakeEmbedder

from memory_actors import Item, MemorySystem, StorageFullError
from memory_actors.sharing.address import FILE
from memory_actors.sharing.system import open_or_join

pytestmark = pytest.mark.anyio

OWNER = textwrap.dedent("""
    import asyncio, os, sys
    from memory_actors import MemorySystem
    from support.fakes import FakeEmbedder

    async def main():
        memory = await MemorySystem.open(sys.argv[1], embedder=FakeEmbedder())
        await memory.user("ada").add("likes tea")
        await memory.user("ada").retrieve("tea")
        if sys.argv[2] == "closed":
            await memory.close()
        os._exit(0)

    asyncio.run(main())
""")


@pytest.fixture(params=["killed", "closed"])
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A store on a full disk, whose owner was killed, or has closed it."""
    with file_system(tmp_path / "disk", "24m") as disk:
        directory = disk / "memory"
        subprocess.run(
            [sys.executable, "-c", OWNER, str(directory), request.param],
            timeout=60, check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert (directory / FILE).exists() == (request.param == "killed")
        with (disk / "filling").open("wb", buffering=0) as filling:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while filling.write(b"x" * size) == size:
                        pass
        yield directory


async def test_reads_go_on_after_a_takeover(full: Path) -> None:
    async with MemorySystem.open(full, embedder=FakeEmbedder()) as memory:
        user = memory.user("ada")
        assert [hit.content for hit in await user.retrieve("tea")] == ["likes tea"]
        assert [one.content for one in await user.list_memories()] == ["likes tea"]


async def test_a_program_that_does_not_keep_the_store_reads_it(full: Path) -> None:
    """As the commands do."""
    async with open_or_join(full, embedder=FakeEmbedder()) as memory:
        assert [one.content for one in await memory.user("ada").list_memories()] == ["likes tea"]


async def test_other_processes_are_clients_of_who_took_over(full: Path) -> None:
    """The next owner writes its address where the last one did."""
    async with MemorySystem.open(full, embedder=FakeEmbedder()):
        command = [sys.executable, "-m", "memory_actors.cli", "--data", str(full), "--user", "ada"]
        ran = await anyio.run_process([*command, "list"], check=False)
        assert b"likes tea" in ran.stdout, ran.stderr


async def test_writes_are_refused_by_name(full: Path) -> None:
    async with MemorySystem.open(full, embedder=FakeEmbedder()) as memory:
        long = [f"{number}" * 60_000 for number in range(100)]
        with pytest.raises(StorageFullError):
            await memory.user("ada").add_many([Item(content=one) for one in long])


async def test_without_its_derived_data_a_store_is_read(
    full: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Derived data is kept in memory; a write is refused because there is no room."""
    (full / "derived.mdb").unlink()
    with (full.parent / "more").open("wb", buffering=0) as filling, suppress(OSError):
        while filling.write(b"x" * 512):
            pass
    async with MemorySystem.open(full, embedder=FakeEmbedder()) as memory:
        user = memory.user("ada")
        assert [hit.content for hit in await user.retrieve("tea")] == ["likes tea"]
        assert [one.content for one in await user.list_memories()] == ["likes tea"]
        assert "in memory until the next open" in caplog.text
        with pytest.raises(StorageFullError):
            await user.add_many([Item(content=f"{n}" * 60_000) for n in range(100)])
        maps = Path("/proc/self/maps").read_text().splitlines()
        derived = [line for line in maps if line.endswith("/derived.mdb (deleted)")]
        assert derived, "a file without a name leaves nothing if the process is killed"
    (full.parent / "filling").unlink()
    async with MemorySystem.open(full, embedder=FakeEmbedder()) as memory:
        assert [hit.content for hit in await memory.user("ada").retrieve("tea")] == ["likes tea"]
    assert (full / "derived.mdb").stat().st_size > 4096
