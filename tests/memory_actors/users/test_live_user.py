"""A live user: activation from whatever is there, and what is derived kept in step."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from eventlog import CorruptLog, Environment, EventLog
from eventlog.core.rows import U64
from eventlog.lmdb.tables import TABLES
from memory_actors import Item, QuarantinedError, Reach
from memory_actors.kinds import long_term, user_state
from memory_actors.kinds.entity.events import EntityUpdated
from memory_actors.search.indexes import memory_index, parts
from memory_actors.upkeep.store import event_registry
from memory_actors.users import live_user
from memory_actors.users.handles.superseding import _near

pytestmark = pytest.mark.anyio


async def in_the_log(tmp_path: Path, change: Any) -> None:
    async with EventLog.open(tmp_path / "memory", event_registry()) as log:
        await change(log)


async def test_a_poisoned_user_stays_readable_and_harms_nobody(open_memory, tmp_path) -> None:
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")
        await memory.user("bob").add("likes coffee")

    async def poison(log: EventLog) -> None:
        await log.append("user:ada", [EntityUpdated(memory_id="never was", content="x")], 1)

    await in_the_log(tmp_path, poison)
    async with open_memory() as memory:
        ada, bob = memory.user("ada"), memory.user("bob")
        assert [m.content for m in await ada.list_memories()] == ["likes tea"]
        assert [h.content for h in await ada.retrieve("tea")] == ["likes tea"]
        assert [m.content async for m in ada.export()] == ["likes tea"]
        with pytest.raises(QuarantinedError, match="cannot be folded"):
            await ada.add("more")
        await bob.add("and cake")
        assert (await bob.usage()).kinds["long_term"].count == 2


async def test_a_user_with_a_damaged_event_is_refused(open_memory, tmp_path) -> None:
    """A user whose last event is damaged is refused, and harms nobody."""
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")
        await memory.user("bob").add("likes coffee")
        last = await memory.user("ada").add("hates coffee")
        (entry,) = await memory.user("ada").history(last.memory_id)
    env = Environment(tmp_path / "memory" / "log.mdb", TABLES)
    key = U64.pack(entry.position)

    def damage(txn: Any) -> None:
        whole = txn.get(key, db=txn.tables["events"])
        txn.put(key, whole[:-1] + bytes([whole[-1] ^ 1]), db=txn.tables["events"])

    env.write(damage)
    env.close()
    async with open_memory() as memory:
        ada, bob = memory.user("ada"), memory.user("bob")
        reads = (ada.list_memories, ada.usage, lambda: ada.retrieve("tea"))
        for call in (*reads, lambda: ada.add("more")):
            with pytest.raises(CorruptLog, match="CRC"):
                await call()
        await bob.add("and cake")
        assert (await bob.usage()).kinds["long_term"].count == 2
        await memory.erase("ada")
        assert await ada.list_memories() == []


async def test_a_user_comes_back_from_snapshot_and_tail(open_memory, monkeypatch) -> None:
    monkeypatch.setattr(live_user, "SNAPSHOT_MIN_EVENTS", 1)
    async with open_memory() as memory:
        await memory.user("ada").add("one")
    monkeypatch.setattr(live_user, "SNAPSHOT_MIN_EVENTS", 10**9)
    async with open_memory() as memory:
        await memory.user("ada").add("two")
    async with open_memory() as memory:
        ada = memory.user("ada")
        assert {m.content for m in await ada.list_memories()} == {"one", "two"}
        assert await memory.check_replay() == []


async def test_a_snapshot_packs_what_is_held_while_memories_come_and_go(memory) -> None:
    """The rows that changed since the last one join the others; what happens meanwhile is kept."""
    ada = memory.user("ada")
    ids = [(await ada.add(f"fact {n}")).memory_id for n in range(6)]
    async with memory._services.runtime.use("user:ada") as live:
        await live.snapshot()
        assert live.state.long_term.rows.changed == 0
        await ada.delete(ids[0])
        await ada.update(ids[1], content="reworded")
        taken = asyncio.create_task(live.snapshot())
        busy = [asyncio.create_task(ada.add(f"more {n}")) for n in range(3)]
        await asyncio.gather(taken, ada.delete(ids[2]), *busy)
        rows = live.state.long_term.rows
        assert rows.changed <= len(busy) + 1
        fresh = {task.result().memory_id for task in busy}
        assert set(rows) == {ids[1], *ids[3:]} | fresh
        assert (await ada.get(ids[1])).content == "reworded"
        await live.snapshot()
        assert live.state.long_term.rows.changed == 0
    assert await memory.check_replay() == []


async def test_a_snapshot_reads_no_text_that_is_being_added(open_memory, monkeypatch) -> None:
    """The texts of an add that comes with a snapshot are indexed by the add alone."""
    read = list[object]()
    texts_of = memory_index.MemoryIndex._texts

    async def counted(index: Any, labels: dict[bytes, int]) -> dict[bytes, str]:
        read.append(labels)
        return await texts_of(index, labels)

    monkeypatch.setattr(live_user, "SNAPSHOT_EVERY_EVENTS", 5)
    monkeypatch.setattr(memory_index.MemoryIndex, "_texts", counted)
    async with open_memory() as memory:
        await memory.user("ada").add_many([Item(content=f"fact {n}") for n in range(10)])
        async with memory._services.runtime.use("user:ada") as live:
            await live.indexes.indexed(user_state.KINDS)
    assert read == []


async def test_an_index_file_that_is_behind_or_ahead_is_brought_in_step(
    open_memory, tmp_path
) -> None:
    """Whatever moment it is of, what a search finds is what there is."""
    said = ["likes tea", "plays chess", "grows tomatoes"]
    files: list[dict[Path, bytes]] = []
    for text in said:
        async with open_memory() as memory:
            ada = memory.user("ada")
            if files:
                (hit, *_) = await ada.retrieve("tea")
                await ada.update(hit.memory_id, content=f"likes tea {len(files)}")
            await ada.add(text, metadata={"n": len(files)})
        words = (tmp_path / "memory" / "indexes").glob("*.words")
        files.append({path: path.read_bytes() for path in words})
    for kept in files:
        for path, data in kept.items():
            path.write_bytes(data)
        async with open_memory() as memory:
            ada = memory.user("ada")
            found = {hit.content for hit in await ada.retrieve("tea chess tomatoes", top_k=9)}
            assert found == {"likes tea 2", "plays chess", "grows tomatoes"}
            (hit,) = await ada.retrieve("anything", filters={"n": 1})
            assert hit.content == "plays chess"
            assert len(await ada.retrieve("anything", filters={"n": {"ne": 1}})) == 2
    async with open_memory() as memory, memory._services.runtime.use("user:ada") as live:
        ahead = live.indexes.get(long_term.KIND)
        ahead._version = lambda: 10**6
        await ahead.save()
    async with open_memory() as memory:
        assert len(await memory.user("ada").retrieve("tea chess tomatoes")) == 3


async def test_others_get_their_turn_while_an_index_is_compared(
    open_memory, tmp_path, monkeypatch
) -> None:
    """A user who comes back without an index file holds nobody else up."""
    async with open_memory() as memory:
        await memory.user("ada").add_many([Item(content=f"memory {n}") for n in range(40)])
    for file in (tmp_path / "memory" / "indexes").iterdir():
        file.unlink()
    turns = []

    async def others() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(len(compared))

    def indexed(*asked):
        compared.append(asked)
        return parts.indexed(*asked)

    compared: list[Any] = []
    monkeypatch.setattr(memory_index, "COMPARED_AT_ONCE", 8)
    monkeypatch.setattr(memory_index, "indexed", indexed)
    async with open_memory() as memory:
        task = asyncio.create_task(others())
        hits = await memory.user("ada").retrieve("memory 7", top_k=10)
        task.cancel()
        assert len(hits) == 10
    assert len(compared) >= 80
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 8


async def test_a_new_fact_is_not_compared_with_itself(memory) -> None:
    """It is another object each time it is read."""
    ada = memory.user("ada")
    receipt = await ada.add("Ada lives in Oslo")
    async with memory._services.runtime.use("user:ada") as live:
        await live.snapshot()
        row = long_term.KIND.find(live.state.long_term, receipt.memory_id)
        reach = Reach(count_max=5)
        assert _near(live, row, reach) == []


async def test_users_beyond_the_budget_leave_and_come_back(open_memory) -> None:
    async with open_memory(live_bytes_max=100_000) as memory:
        for n in range(60):
            await memory.user(f"u{n}").add(f"memory of {n}")
        statistics = memory.statistics().runtime
        assert statistics.live < 20
        assert statistics.passivations > 40
        assert statistics.live_bytes <= 100_000 + 20_000
        for n in range(60):
            (hit,) = await memory.user(f"u{n}").retrieve("memory")
            assert hit.content == f"memory of {n}"


async def test_concurrent_work_survives_passivation(open_memory) -> None:
    """The work of many callers at once is kept while users leave."""
    async with open_memory(live_bytes_max=0, check_replay=False) as memory:

        async def work(n: int) -> None:
            user_ = memory.user(f"u{n % 5}")
            await user_.add(f"memory {n}", memory_id=f"id{n}")
            assert (await user_.get(f"id{n}")).content == f"memory {n}"

        await asyncio.gather(*(work(n) for n in range(100)))
        assert await memory.check_replay() == []
        for n in range(5):
            assert (await memory.user(f"u{n}").usage()).kinds["long_term"].count == 20
