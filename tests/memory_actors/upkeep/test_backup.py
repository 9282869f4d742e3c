"""Backup and restore of all memories."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.canaries import found_in
from support.compacting import SHORT, told, with_a_past
from support.fakes import FakeEmbedder

from eventlog import LogLocked, LogUnavailable
from memory_actors import copy_store
from memory_actors.base.api_keys import KeyStore

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("derived", [False, True])
async def test_a_restored_system_answers_as_it_did(
    open_memory: Any, tmp_path: Path, embedder: FakeEmbedder, derived: bool
) -> None:
    keys = KeyStore(tmp_path / "memory")
    token, _ = keys.create("ada")
    async with open_memory(summarizer=SHORT) as memory:
        await with_a_past(memory)
        await memory.compact()
        before, usage = await told(memory), await memory.usage()
        made = await memory.backup(tmp_path / "backup", derived=derived)
        await memory.user("ada").add("came later")
        with pytest.raises(LogLocked):
            copy_store(tmp_path / "backup", tmp_path / "memory")
    names = {path.name for path in (tmp_path / "backup").iterdir()}
    assert names - {"derived.mdb", "log.mdb.lock"} == {"log.mdb", "log.anchor", "archive"}
    assert ("derived.mdb" in names) == derived

    restored = copy_store(tmp_path / "backup", tmp_path / "memory")

    assert restored.position == made.position
    assert (Path(restored.replaced or "") / "log.mdb").exists()
    assert KeyStore(tmp_path / "memory").find(token) is not None
    computed = len(embedder.texts)
    async with open_memory(summarizer=SHORT) as memory:
        assert await told(memory) == before
        assert await memory.usage() == usage
        assert (await memory.verify()).findings == []
        assert await memory.check_replay() == []
        assert (set(embedder.texts[computed:]) == {"login"}) == derived
        (summary, *_) = [
            m for m in await memory.user("ada").list_memories() if m.source == "compressed"
        ]
        assert len(await memory.user("ada").expand(summary.memory_id)) > 5


async def test_a_drill_under_load(open_memory: Any, tmp_path: Path) -> None:
    async with open_memory(check_replay=False) as memory:
        stopped = asyncio.Event()
        notes = dict.fromkeys(("ada", "bob"), 0)

        async def each_has(more: int) -> None:
            """Wait until each user has so many notes more."""
            wanted = {user_id: count + more for user_id, count in notes.items()}
            while any(notes[user_id] < count for user_id, count in wanted.items()):
                await asyncio.sleep(0.005)

        async def live(user_id: str) -> list[str]:
            user, written = memory.user(user_id), []
            while not stopped.is_set():
                notes[user_id] = len(written)
                written.append((await user.add(f"note {len(written)}")).memory_id)
                await user.working.set("last", len(written))
            return written

        living = [asyncio.create_task(live(user_id)) for user_id in ("ada", "bob")]
        await each_has(2)
        await memory.backup(tmp_path / "backup")
        await each_has(2)
        stopped.set()
        written = await asyncio.gather(*living)

    copy_store(tmp_path / "backup", tmp_path / "memory")

    async with open_memory() as memory:
        assert (await memory.verify()).findings == []
        assert await memory.check_replay() == []
        for user_id, ids in zip(("ada", "bob"), written, strict=True):
            user = memory.user(user_id)
            there = {m.memory_id for m in await user.list_memories(["long_term"], limit=10_000)}
            assert 0 < len(there) < len(ids)
            assert there == set(ids[: len(there)])
            assert abs(await user.working.get("last", 0) - len(there)) <= 1


async def test_a_backup_cannot_plant_an_api_key(open_memory: Any, tmp_path: Path) -> None:
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")
        await memory.backup(tmp_path / "backup")
    token, _ = KeyStore(tmp_path / "backup").create(None)

    copy_store(tmp_path / "backup", tmp_path / "memory")

    assert KeyStore(tmp_path / "memory").find(token) is None


async def test_who_was_erased_is_in_no_later_backup(open_memory: Any, tmp_path: Path) -> None:
    async with open_memory() as memory:
        await memory.user("canary").add("canary likes tea")
        await memory.user("bob").add("rows a boat")
        await memory.erase("canary")
        await memory.backup(tmp_path / "backup", derived=True)
        with pytest.raises(LogUnavailable):
            await memory.backup(tmp_path / "backup")
    assert not found_in(tmp_path / "backup")
