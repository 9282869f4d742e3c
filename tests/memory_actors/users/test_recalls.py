"""The record of which memories were returned to whom: optional, hashed, bounded, no memory."""

import asyncio
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.fakes import FakeClock

from eventlog import DiskFull
from memory_actors import MemorySystem, PrometheusMetrics
from memory_actors.users import recalls

pytestmark = pytest.mark.anyio

DAY_S = 86_400


async def searched(memory: MemorySystem) -> None:
    ada = memory.user("ada", agent_id="scout", session_id="s1")
    await ada.add("likes tea", memory_id="tea")
    await ada.add("has a blue car", memory_id="car")
    await ada.retrieve("tea", top_k=1)
    await memory.user("ada").retrieve("blue car", top_k=2)
    await memory.user("bob").retrieve("tea")


async def test_nothing_is_kept_unless_asked_for(memory: MemorySystem) -> None:
    await searched(memory)
    assert await memory.recalls("ada") == []
    assert memory.statistics().log.last_position == 2


async def test_plain_recalls_say_who_got_what_for_which_query(open_memory: Any) -> None:
    async with open_memory(recall_audit="plain") as memory:
        await searched(memory)
        second, first = await memory.recalls("ada")
        assert (first.query, first.memory_ids, first.hashed) == ("tea", ("tea",), False)
        assert (first.agent_id, first.session_id) == ("scout", "s1")
        assert (second.query, second.memory_ids, second.agent_id) == (
            "blue car", ("car", "tea"), None,
        )  # fmt: skip
        assert await memory.recalls("ada", memory_id="car") == [second]
        assert await memory.recalls("ada", query="tea") == [first]
        assert await memory.recalls("ada", limit=1) == [second]
        (nothing,) = await memory.recalls("bob")
        assert nothing.memory_ids == ()
        assert await memory.recalls("nobody") == []


async def test_hashed_recalls_can_be_asked_for_and_not_read(
    open_memory: Any, tmp_path: Any
) -> None:
    async with open_memory(recall_audit="hashed") as memory:
        await searched(memory)
    async with open_memory() as memory:
        second, first = await memory.recalls("ada")
        assert first.hashed
        assert "tea" not in (first.query, *first.memory_ids)
        assert len({first.query, *second.memory_ids}) == 3 - (first.query in second.memory_ids)
        assert await memory.recalls("ada", query="tea") == [first]
        assert await memory.recalls("ada", memory_id="car") == [second]
        assert await memory.recalls("ada", query="coffee") == []
    key = tmp_path / "memory" / recalls.KEY_FILE
    assert key.stat().st_mode & 0o777 == 0o600
    assert b"blue car" not in (await _raw(tmp_path)).replace(b"has a blue car", b"")
    key.unlink()
    async with open_memory() as memory:
        assert await memory.recalls("ada", query="tea") == []


async def _raw(tmp_path: Any) -> bytes:
    data: bytes = (tmp_path / "memory" / "log.mdb").read_bytes()
    return data


async def test_recalls_make_no_user_and_count_for_nothing(open_memory: Any) -> None:
    async with open_memory(recall_audit="plain") as memory:
        await searched(memory)
        assert await memory.users() == ["ada"]
        assert (await memory.usage()).users == 1
        assert await memory.check_replay() == []
        assert (await memory.verify()).ok
        async with memory.replay("ada") as past:
            await past.retrieve("tea")
        assert len(await memory.recalls("ada")) == 2, "looking back is no recall"


async def test_what_is_too_old_is_not_shown_and_then_dropped(
    open_memory: Any, clock: FakeClock
) -> None:
    async with open_memory(recall_audit="plain", recall_audit_days=2) as memory:
        await searched(memory)
        clock.move(1.5 * DAY_S)
        await memory.user("ada").retrieve("newer")
        assert len(await memory.recalls("ada")) == 3
        clock.move(DAY_S)
        (newer,) = await memory.recalls("ada")
        assert newer.query == "newer"
        assert await memory.recalls("ada", until=newer.at) == []
        assert await memory.recalls("ada", since=newer.at) == [newer]
        await memory.compact()
        clock.move(-2 * DAY_S)
        assert await memory.recalls("ada") == [newer], "the clock brings nothing back"
        assert (await memory._log.archive_statistics()).dropped_events == 3
        assert (await memory.verify()).ok


async def test_a_read_goes_on_when_its_record_cannot_be_kept(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    async with open_memory(recall_audit="plain", metrics=metrics) as memory:
        await searched(memory)
        assert memory.statistics().recalls_failed == 0
        log = memory._services.log

        async def full(*_given: Any, **_more: Any) -> None:
            raise DiskFull("no room")

        with monkeypatch.context() as patch:
            patch.setattr(log, "append", full)
            assert len(await memory.user("ada").retrieve("tea")) == 2
        assert memory.statistics().recalls_failed == 1
        assert registry.get_sample_value("memory_actors_recalls_failed_total") == 1
        await memory.user("ada").retrieve("coffee")
        assert (await memory.recalls("ada"))[0].query == "coffee"


async def test_a_record_that_hangs_holds_up_nobody_else(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(recall_audit="plain") as memory:
        log, (began, goes_on) = memory._services.log, (asyncio.Event(), asyncio.Event())
        append = log.append

        async def slow(stream: str, *given: Any, **more: Any) -> Any:
            if stream.endswith("ada"):
                began.set()
                await goes_on.wait()
            return await append(stream, *given, **more)

        monkeypatch.setattr(log, "append", slow)
        read = asyncio.create_task(memory.user("ada").retrieve("tea"))
        await began.wait()
        with anyio.fail_after(5):
            await memory.user("bob").retrieve("tea")
        goes_on.set()
        await read
        assert len(await memory.recalls("ada")) == len(await memory.recalls("bob")) == 1
