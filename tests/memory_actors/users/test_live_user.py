"""A live user: activation from whatever is there, and what is derived kept in step."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.given import pro

from eventlog import CorruptLog, Environment, EventLog, Snapshot
from eventlog.lmdb.tables import TABLES, U64
from memory_actors import Item, Limits, QuarantinedError
from memory_actors.kinds import long_term, user_state
from memory_actors.kinds.entity.events import EntityUpdated
from memory_actors.search.indexes import dense
from memory_actors.users import live_user

pytestmark = pytest.mark.anyio


async def in_the_log(tmp_path: Path, change: Any) -> None:
    async with EventLog.open(tmp_path / "memory", user_state.event_registry()) as log:
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
        whole = txn.get(key, db=env.tables["events"])
        txn.put(key, whole[:-1] + bytes([whole[-1] ^ 1]), db=env.tables["events"])

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


@pytest.mark.parametrize("data", [b"junk", b"", user_state.dump(user_state.UserState())[:-3]])
async def test_a_snapshot_that_does_not_load_is_passed_over(open_memory, tmp_path, data) -> None:
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")

    async def damage(log: EventLog) -> None:
        await log.save_snapshot("user:ada", Snapshot(1, data), user_state.SNAPSHOT_FINGERPRINT)

    await in_the_log(tmp_path, damage)
    async with open_memory() as memory:
        assert len(await memory.user("ada").list_memories()) == 1


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


async def test_a_large_user_gets_a_graph_that_survives_reopening(open_memory, monkeypatch) -> None:
    monkeypatch.setattr(dense, "EXACT_MAX", 300)
    monkeypatch.setattr(dense, "GRAPH_MIN", 200)
    async with open_memory(check_replay=False) as memory:
        ada = memory.user("ada")
        await ada.add_many([Item(content=f"memory number {n}") for n in range(500)])
        for _ in range(100):
            if await _has_graph(memory):
                break
            await asyncio.sleep(0.01)
        assert await _has_graph(memory), "the graph was built in the background"
        await ada.delete((await ada.retrieve("memory number 77"))[0].memory_id)
    monkeypatch.setattr(dense.HnswGraph, "extend", lambda *_: pytest.fail("built again"))
    async with open_memory(check_replay=False) as memory:
        ada = memory.user("ada")
        assert (await ada.retrieve("memory number 123"))[0].content == "memory number 123"
        assert "memory number 77" not in {
            hit.content for hit in await ada.retrieve("memory number 77", top_k=50)
        }
        assert await _has_graph(memory)


async def _has_graph(memory: Any) -> bool:
    async with memory._services.runtime.use("user:ada") as live:
        return live.indexes.get(long_term).dense.has_graph


async def test_pruned_memories_leave_the_index(open_memory, clock) -> None:
    async with open_memory(tiers=pro(Limits(long_term_memories=50))) as memory:
        ada = memory.user("ada")
        for n in range(60):
            clock.move(1)
            await ada.add_with_auto_prune(f"memory {n}")
        hits = await ada.retrieve("memory", top_k=100)
        held = {m.memory_id for m in await ada.list_memories(limit=100)}
        assert {hit.memory_id for hit in hits} == held
        assert len(held) <= 50
