"""Repair of a closed store, in a process of its own."""

from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from eventlog import Environment, LogUnavailable, StorageFailed
from eventlog.core.rows import U64
from eventlog.lmdb.tables import TABLES
from memory_actors import MemorySystem, repair_store, verify_store
from memory_actors.base.api_keys import KeyStore
from memory_actors.upkeep.offline import copying

pytestmark = pytest.mark.anyio


async def test_what_is_whole_goes_on_living(
    open_memory: Any, tmp_path: Path, embedder: Any
) -> None:
    token, _ = KeyStore(tmp_path / "memory").create("ada")
    async with open_memory() as memory:
        for n in range(6):
            await memory.user("ada").add(f"note {n}")
            await memory.user("bob").add(f"boat {n}")
    env = Environment(tmp_path / "memory" / "log.mdb", TABLES)
    env.write(lambda txn: txn.put(U64.pack(7), b"noise", db=txn.tables["events"]))
    env.write(lambda txn: txn.put(b"totals", b"noise", db=txn.tables["meta"]))
    env.close()

    report = repair_store(tmp_path / "memory", tmp_path / "new")

    (left,) = report.left_behind
    assert (report.events, left.kept, left.lost) == (9, 3, 3)
    assert verify_store(tmp_path / "new").findings == []
    assert KeyStore(tmp_path / "new").find(token) is not None
    async with MemorySystem.open(tmp_path / "new", embedder=embedder) as memory:
        assert len(await memory.user("ada").list_memories()) == 3
        assert len(await memory.user("bob").list_memories()) == 6
        assert (await memory.usage()).counts["long_term"] == 9
        assert await memory.check_replay() == []
        await memory.user("ada").add("goes on")


async def test_a_store_that_lacks_anything_never_gets_its_name(
    open_memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        await memory.user("ada").add("note")
    seen: list[Path] = []

    async def fail(directory: Path, _keys: Any) -> None:
        seen.append(directory)
        raise StorageFailed("the disk failed")

    monkeypatch.setattr(copying, "_totals", fail)
    with pytest.raises(StorageFailed):
        await anyio.to_thread.run_sync(copying.repair_here, tmp_path / "memory", tmp_path / "new")

    assert seen == [tmp_path / "new.repairing"]
    assert {path.name for path in tmp_path.iterdir()} == {"memory"}


async def test_what_cannot_be_repaired_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable):
        repair_store(tmp_path / "none", tmp_path / "new")
    assert not list(tmp_path.iterdir())
