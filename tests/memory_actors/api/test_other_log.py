"""A memory system over another log than the one on LMDB: what it can do, and what it refuses."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeClock, FakeEmbedder, FakeIds
from support.in_memory_log import InMemoryLog

from eventlog import BackupStore, MissingCapability, VerifyingStore, require
from memory_actors import Settings
from memory_actors.api.parts import StoreParts
from memory_actors.api.system import MemorySystem
from memory_actors.api.wiring import wired
from memory_actors.upkeep.store import event_registry

pytestmark = pytest.mark.anyio


class NoArchive(InMemoryLog):
    archive = None


@asynccontextmanager
async def system_over(
    kind: Callable[..., InMemoryLog], directory: Path, **settings: Any
) -> AsyncIterator[MemorySystem]:
    @asynccontextmanager
    async def open_log(_directory, _keys, clock, _settings) -> AsyncIterator[InMemoryLog]:
        log = kind(event_registry(), clock=clock)
        yield log
        log.close()

    parts = StoreParts(
        settings=Settings(check_replay=True, latency_targets_ms={}, **settings),
        embedder=FakeEmbedder(),
        supersedes=False,
        clock=FakeClock(),
        new_id=FakeIds(),
    )
    directory.mkdir()
    async with AsyncExitStack() as held:
        made = await wired(directory, parts, held, ExitStack(), open_log)
        yield MemorySystem(made, AsyncExitStack())


async def test_a_memory_works_over_a_log_in_memory(tmp_path: Path) -> None:
    """A memory works over a log that keeps nothing on disk."""
    async with system_over(InMemoryLog, tmp_path / "memory") as memory:
        user = memory.user("ada")
        added = await user.add("Ada enjoys skiing", "long_term")
        await user.working.set("mood", "good")

        hits = await user.retrieve("skiing")
        past = await user.history(added.memory_id)

        assert [hit.memory_id for hit in hits if hit.memory_type == "long_term"] == [
            added.memory_id
        ]
        assert len(past) == 1
        assert await memory.users() == ["ada"]
        assert await memory.check_replay() == []
        assert memory.statistics().log.events_appended == 2
        assert (await memory.compact()).users == 1
        assert (await memory.erase("ada")).events == 2
        assert await user.retrieve("skiing") == []
    assert not (tmp_path / "memory" / "log.mdb").exists()


@pytest.mark.parametrize(
    ("capability", "work"),
    [
        ("BackupStore", lambda memory, path: memory.backup(path)),
        ("VerifyingStore", lambda memory, _path: memory.verify()),
        ("VerifyingStore", lambda memory, _path: memory.heads()),
    ],
    ids=["backup", "verify", "heads"],
)
async def test_a_missing_capability_is_refused_by_name(
    tmp_path: Path, capability: str, work: Callable[[MemorySystem, Path], Any]
) -> None:
    """A call for which the log lacks a capability is refused by the capability's name."""
    async with system_over(InMemoryLog, tmp_path / "memory") as memory:
        with pytest.raises(MissingCapability, match=f"no {capability}: use a store") as refused:
            await work(memory, tmp_path / "elsewhere")

    assert (refused.value.store, refused.value.capability) == ("InMemoryLog", capability)


async def test_a_setting_the_log_cannot_keep_is_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(MissingCapability, match="ArchivingStore"):
        async with system_over(NoArchive, tmp_path / "memory", archive_retention_days=1):
            pass


def test_a_store_has_the_capabilities_whose_methods_it_has() -> None:
    log = InMemoryLog(event_registry())

    with pytest.raises(MissingCapability):
        require(log, BackupStore)
    log.heads = log.verify = log.flush
    assert require(log, VerifyingStore) is log
