"""Erasing a user: nothing of them in any file or answer, and nobody else notices."""

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog
from support.canaries import canaries_everywhere, found_in
from support.compacting import SHORT
from support.fakes import FakeTokenEmbedder

from eventlog import DiskFull, LogUnavailable, StorageFailed
from eventlog.lmdb import erasing as stream_erasing
from memory_actors import (
    BeingErasedError,
    Item,
    MemorySystem,
    NotFoundError,
    UserMemory,
    text_digest,
)
from memory_actors.base.api_keys import KeyStore
from memory_actors.search.embedding.vector_table import VectorTable
from memory_actors.search.indexes import files
from memory_actors.users import live_user

pytestmark = [pytest.mark.anyio, pytest.mark.user, pytest.mark.tokens]

USER = "canary000zq"
OF_ONE_USER = 13  # of what `everything` returns
KINDS = ["working", "short_term", "long_term", "entity", "episodic", "structured", "context"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "memory"


async def everything(memory: MemorySystem, user_id: str, query: str) -> list[Any]:
    """Return what all reads say of a user."""
    user = memory.user(user_id)
    return [
        await user.list_memories(limit=1000),
        await user.retrieve(query, memory_types=KINDS, top_k=100),
        await user.context(query),
        await user.context.render(),
        await user.context.documents(),
        await user.context.search_archive(query),
        await memory.recalls(user_id),
        await user.working.items(),
        await user.short_term.messages(),
        await user.documents.find(),
        await user.documents.collections(),
        await user.episodes.recent(),
        [found async for found in user.export()],
        (await user.usage()).kinds,
        await memory.users(),
        await memory.compaction_stats(),
        memory.statistics().alerts,
    ]


async def test_no_file_and_no_answer_has_an_erased_user(
    open_memory: Any, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventlog.lmdb.segment.zstandard", None)
    KeyStore(directory).create(USER)
    async with open_memory(summarizer=SHORT, recall_audit="plain") as memory:
        await memory.user("bob").add("canoe on the lake")
        canaries = await canaries_everywhere(memory, USER)
    async with open_memory(summarizer=SHORT) as memory:  # snapshots and indexes are written
        assert len({name for name, _ in found_in(directory)}) >= 4
        before = (await everything(memory, "bob", "canoe"))[:OF_ONE_USER]
        await memory.user(USER).retrieve(canaries.given[5])
        assert len(await memory.recalls(USER)) == 1

        receipt = await memory.erase(USER)

        assert found_in(directory) == set()
        assert receipt.events > 50
        assert (receipt.archive_files, receipt.api_keys) == (1, 1)
        assert receipt.embeddings > 20
        assert receipt.index_files >= 1
        assert "canary" not in repr(receipt)
        report = await memory.verify()
        assert (report.findings, report.erased_events) == ([], receipt.events)
        for query in canaries.given[::10]:
            answers = await everything(memory, USER, query)
            assert "canary" not in repr(answers).replace(query, "")
        assert (await everything(memory, "bob", "canoe"))[:OF_ONE_USER] == before
        assert await memory.check_replay() == []
    assert found_in(directory) == set()
    async with open_memory(summarizer=SHORT) as memory:
        assert await memory.users() == ["bob"]
        assert (await memory.verify()).findings == []


async def test_ids_that_were_erased_never_were(memory: MemorySystem, user: UserMemory) -> None:
    receipt = await user.add("likes tea", idempotency_key="once")
    await memory.erase("ada")

    for read in (user.get, user.history, user.expand, user.delete):
        with pytest.raises(NotFoundError):
            await read(receipt.memory_id)
    with pytest.raises(NotFoundError):
        await user.restore([receipt.memory_id])
    with pytest.raises(NotFoundError):
        await memory.compact("ada")


async def test_an_erased_user_may_come_back_and_is_new(open_memory: Any) -> None:
    async with open_memory() as memory:
        user = memory.user("ada")
        await user.set_tier("enterprise")
        await user.add("likes tea", memory_id="mine", idempotency_key="once")
        await memory.erase("ada")

        again = await user.add("likes coffee", memory_id="mine", idempotency_key="once")

        assert (again.operation, again.memory_id) == ("add", "mine")
        assert [hit.content for hit in await user.retrieve("likes")] == ["likes coffee"]
        assert [entry.event for entry in await user.history("mine")] == ["long_term.added"]
        assert (await user.usage()).tier != "enterprise"
        assert await memory.users() == ["ada"]
        assert await memory.check_replay() == []
    async with open_memory() as memory:
        assert [m.content for m in await memory.user("ada").list_memories()] == ["likes coffee"]
        assert (await memory.erase("ada")).events > 0
        assert await memory.users() == []


async def test_unlistable_index_files_mean_no_receipt(open_memory: Any, directory: Path) -> None:
    """There is no receipt where index files cannot be looked for."""
    async with open_memory() as memory:
        await memory.user(USER).add("canary canoe on the lake")
    indexes, aside = directory / "indexes", directory / "aside"
    async with open_memory() as memory:
        assert [path.name for path in indexes.iterdir()] != []
        indexes.rename(aside)
        indexes.symlink_to(indexes)  # which nobody can look into

        with pytest.raises(StorageFailed, match=r"indexes cannot be looked into.*repeat"):
            await memory.erase(USER)

        indexes.unlink()
        aside.rename(indexes)
        assert [m.content for m in await memory.user(USER).list_memories()] != []
        assert (await memory.erase(USER)).index_files >= 1
        assert found_in(directory) == set()


async def test_an_unremovable_index_file_is_named(open_memory: Any, directory: Path) -> None:
    """An index file that cannot be removed is named, and there is no receipt."""
    async with open_memory() as memory:
        await memory.user(USER).add("canary canoe on the lake")
    async with open_memory() as memory:
        (file, *_) = (directory / "indexes").iterdir()
        blocked = file.with_suffix(".blocked")
        blocked.mkdir()

        with pytest.raises(
            StorageFailed, match=rf"left in .*indexes and cannot be removed.*{blocked.name}"
        ):
            await memory.erase(USER)

        blocked.rmdir()
        await memory.erase(USER)
        assert found_in(directory) == set()


async def test_an_unreadable_archive_stops_an_erasure(open_memory: Any, directory: Path) -> None:
    """An archive that cannot be read keeps an erasure from being begun."""
    async with open_memory(summarizer=SHORT) as memory:
        await canaries_everywhere(memory, USER)
    archive, aside = directory / "archive", directory / "aside"
    async with open_memory(summarizer=SHORT) as memory:
        archive.rename(aside)
        archive.symlink_to(archive)

        with pytest.raises(LogUnavailable, match="cannot open"):
            await memory.erase(USER)

        archive.unlink()
        aside.rename(archive)
        assert (await memory.user(USER).usage()).kinds["long_term"].count > 0, "nothing was begun"
        await memory.erase(USER)
        assert found_in(directory) == set()
        assert await memory.check_replay() == [], "and the totals are those of the others"


async def test_what_a_user_held_leaves_the_totals(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        await memory.user("bob").add("rows a boat")
        before = await memory.usage()
        await canaries_everywhere(memory, USER)
        assert await memory.usage() != before

        await memory.erase(USER)

        assert await memory.usage() == before


async def test_meanwhile_the_user_is_refused_and_others_go_on(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_erasing, "STUBS_AT_ONCE", 1)
    async with open_memory(check_replay=False) as memory:
        user, other = memory.user("ada"), memory.user("bob")
        await user.add_many([Item(content=f"note {n}") for n in range(300)])
        erasing = asyncio.create_task(memory.erase("ada"))
        written, refused = 0, 0
        while not erasing.done():
            written += (await other.add(f"boat {written}")).operation == "add"
            await other.working.set("k", written)
            try:
                await user.list_memories()
            except BeingErasedError:
                refused += 1

        assert (await erasing).events >= 300
        assert written > 1
        assert refused > 1
        assert len(await other.list_memories(["long_term"], limit=1000)) == written
        assert await user.list_memories() == []
        assert await memory.check_replay() == []


async def test_a_write_that_was_accepted_is_erased_too(open_memory: Any) -> None:
    async with open_memory(check_replay=False) as memory:
        user = memory.user("ada")
        writing = [asyncio.create_task(user.add(f"note {n}")) for n in range(20)]
        await asyncio.sleep(0)
        await memory.erase("ada")
        await asyncio.gather(*writing, return_exceptions=True)

        state = await user.list_memories(limit=100)
        accepted_later = [
            w
            for w in writing
            if not w.exception() and w.result().memory_id in {m.memory_id for m in state}
        ]
        assert len(state) == len(accepted_later)
        assert await memory.check_replay() == []


async def test_an_index_file_that_is_being_written_does_not_come_back(
    open_memory: Any, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index file that a thread is writing when its user is erased does not come back."""
    write_whole = files._write_whole
    begun, may_go_on, written = (threading.Event() for _ in range(3))

    def held_up(path: Path, data: bytes) -> None:
        begun.set()
        may_go_on.wait(30)
        write_whole(path, data)
        written.set()

    monkeypatch.setattr(live_user, "SNAPSHOT_EVERY_EVENTS", 5)
    async with open_memory() as memory:
        monkeypatch.setattr(files, "_write_whole", held_up)
        await memory.user("ada").add_many([Item(content=f"note {n}") for n in range(10)])
        assert await asyncio.to_thread(begun.wait, 30)
        erasing = asyncio.create_task(memory.erase("ada"))
        await asyncio.wait([erasing], timeout=0.3)
        may_go_on.set()

        await erasing
        assert await asyncio.to_thread(written.wait, 30)
        assert list((directory / "indexes").glob("*")) == []


async def test_two_at_once_are_one(memory: MemorySystem) -> None:
    await memory.user("ada").add("likes tea")
    outcomes = await asyncio.gather(
        memory.erase("ada"), memory.erase("ada"), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "BeingErasedError",
        "EraseReceipt",
    ]


async def test_the_next_call_erases_what_an_error_left(
    open_memory: Any, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise DiskFull("no room")

    monkeypatch.setattr("eventlog.lmdb.segment.zstandard", None)
    async with open_memory(summarizer=SHORT) as memory:
        await canaries_everywhere(memory, USER)
        for owner, name in ((VectorTable, "erase"), (stream_erasing.Erasing, "step")):
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, fail)
                with pytest.raises(DiskFull):
                    await memory.erase(USER)
            await memory.user("bob").add("rows a boat")
        await memory.erase(USER)
        assert found_in(directory) == set()
        assert (await memory.verify()).findings == []


async def test_a_text_that_another_live_user_has_keeps_its_vector(
    memory: MemorySystem, embedder: FakeTokenEmbedder
) -> None:
    for user_id in ("ada", "bob"):
        await memory.user(user_id).add("likes tea")
    await memory.user("ada").add("likes coffee")
    asked = len(embedder.texts)

    assert (await memory.erase("ada")).embeddings == 1
    assert [h.content for h in await memory.user("bob").retrieve("tea")] == ["likes tea"]
    assert embedder.texts[asked:] == ["tea"]


async def test_who_is_not_live_embeds_a_shared_text_again(
    open_memory: Any, embedder: FakeTokenEmbedder
) -> None:
    async with open_memory() as memory:
        for user_id in ("ada", "bob"):
            await memory.user(user_id).add("likes tea")
    async with open_memory() as memory:
        await memory.erase("ada")
        assert [h.content for h in await memory.user("bob").retrieve("tea")] == ["likes tea"]
    assert embedder.texts.count("likes tea") == 2


async def test_who_watches_and_fails_keeps_nothing_back(
    memory: MemorySystem, directory: Path
) -> None:
    def fails(user_id: str) -> None:
        raise RuntimeError(f"canary {user_id}")

    told: list[str] = []
    memory.watch_erasures(fails)
    memory.watch_erasures(told.append)
    await memory.user(USER).add("canary likes tea")
    with structlog.testing.capture_logs() as logged:
        assert (await memory.erase(USER)).events == 1
    assert told == [USER]
    assert found_in(directory) == set()
    (line,) = [one for one in logged if one["event"] == "watcher of erasures failed"]
    assert line["error"].startswith("RuntimeError at ")
    assert "canary" not in str(logged)


async def test_alerts_that_wait_are_not_delivered(open_memory: Any) -> None:
    delivered: list[str] = []
    blocked = asyncio.Event()

    class Slow:
        async def send(self, alert: Any) -> None:
            await blocked.wait()
            delivered.append(alert.user_id)

    async with open_memory(alerts=[Slow()]) as memory:
        for user_id in ("bob", "ada"):
            user: UserMemory = memory.user(user_id)
            for n in range(85):
                await user.working.set(f"k{n}", "v")
        await memory.erase("ada")
        blocked.set()
    assert "bob" in delivered
    assert "ada" not in delivered


async def test_a_user_whose_actor_is_quarantined_can_be_erased(
    memory: MemorySystem, directory: Path
) -> None:
    await memory.user(USER).add("canary likes tea")
    async with memory._services.runtime.use(f"user:{USER}") as live:
        live.actor.quarantine("for a test")
    await memory.erase(USER)
    assert found_in(directory) == set()
    await memory.user(USER).add("back again")


async def test_a_user_whose_events_are_damaged_can_be_erased(
    open_memory: Any, directory: Path
) -> None:
    async with open_memory() as memory:
        await memory.user("bob").add("rows a boat")
        for n in range(5):
            await memory.user(USER).add(f"canary {n}")
        await memory.user(USER).retrieve("canary")
        env = memory._log._env

        def damage(txn: Any) -> None:
            table = txn.tables["events"]
            key = (4).to_bytes(8, "big")
            data = txn.get(key, db=table)
            txn.put(key, data[:-3] + b"???", db=table)

        env.write(damage)
        assert not (await memory.verify()).ok
        await memory.erase(USER)
        assert found_in(directory) == set()
        assert (await memory.verify()).findings == []
        table = memory._services.embeddings.disk
        assert table.get([text_digest(f"canary {n}") for n in range(5)], 32) == {}
        await memory.user("bob").add("rows on")
        before = await memory.user("bob").retrieve("a boat")
    async with open_memory() as memory:
        assert await memory.user("bob").retrieve("a boat") == before


ERASURES = """
import asyncio, random, sys
import psutil
from memory_actors import Item, MemorySystem
from support.fakes import FakeEmbedder

def resident():
    return psutil.Process().memory_info().rss

async def main(directory):
    texts = random.Random(1)
    async with MemorySystem.open(directory, embedder=FakeEmbedder()) as memory:
        for _ in range(2):
            items = [Item(content=texts.randbytes(3_000).hex()) for _ in range(1_000)]
            await memory.user("large").add_many(items)
        for number in range(16):
            await memory.user(f"user{number}").add("likes tea")
    async with MemorySystem.open(directory, embedder=FakeEmbedder()) as memory:
        await memory.user("user0").list_memories()
        before = resident()
        for number in range(16):
            await memory.erase(f"user{number}")
        print(resident() - before)

asyncio.run(main(sys.argv[1]))
"""
LEFT_BYTES_MAX = 8 << 20


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library has no malloc_trim"
)
def test_sixteen_erasures_leave_no_memory_behind(tmp_path: Path) -> None:
    """Each copies the log of 12 MB through the heap of the C library, which keeps its pages."""
    done = subprocess.run(
        [sys.executable, "-c", ERASURES, str(tmp_path)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert int(done.stdout) < LEFT_BYTES_MAX
