"""The events of all users or of one: those that are there, then live."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from support.fakes import FakeClock

from eventlog import CorruptLog, EventLog, to_datetime
from eventlog.core.rows import U64
from memory_actors import InvalidInputError, LogEntry

pytestmark = pytest.mark.anyio


async def test_events_come_in_order_and_only_those_asked_for(
    open_memory: Any, clock: FakeClock
) -> None:
    async with open_memory(recall_audit="plain") as memory:
        for name in ("ada", "bob", "ada"):
            await memory.user(name, agent_id="scout").add(f"of {name}")
            await memory.user(name).retrieve("a recall is no event of a user")
            clock.move(60)
        every = [entry async for entry in memory.events()]
        assert [entry.user_id for entry in every] == ["ada", "bob", "ada"]
        assert every[0].cause == {"command": "AddMemories", "agent_id": "scout"}
        assert [e async for e in memory.events("ada")] == [every[0], every[2]]
        assert [e async for e in memory.events(after=every[0].position)] == every[1:]
        since, until = every[1].recorded_at, to_datetime(clock() - 60_000_000)
        assert [e async for e in memory.events(since=since, until=until)] == [every[1]]
        with pytest.raises(InvalidInputError):
            await anext(memory.events(after=-1))


async def test_a_follower_sees_the_past_and_then_each_new_event(memory: Any) -> None:
    await memory.user("ada").add("first")
    async with aclosing(memory.events("ada", follow=True)) as events:
        assert (await anext(events)).data["content"] == "first"
        coming = asyncio.ensure_future(anext(events))
        await memory.user("bob").add("not this one")
        await memory.user("ada").working.set("k", "v")
        entry: LogEntry = await asyncio.wait_for(coming, 10)
        assert (entry.event, entry.data["key"]) == ("working.set", "k")


@pytest.mark.parametrize("follow", [False, True])
async def test_what_is_not_asked_for_need_not_be_readable(memory: Any, follow: bool) -> None:
    """Another user's event, or one of this user before the position that was named."""
    for name in ("ada", "bob", "ada", "ada"):
        await memory.user(name).add(f"of {name}")
    damage(memory._log, 2)
    async with aclosing(memory.events("ada", follow=follow)) as events:
        assert [(await anext(events)).position for _ in range(3)] == [1, 3, 4]

    damage(memory._log, 1)
    async with aclosing(memory.events("ada", after=3, follow=follow)) as events:
        assert (await anext(events)).position == 4
    async with aclosing(memory.events("ada", follow=follow)) as events:
        with pytest.raises(CorruptLog):
            await anext(events)


def damage(log: EventLog, position: int) -> None:
    """Put noise in the place of an event."""
    key = U64.pack(position)
    log._env.write(lambda txn: txn.put(key, b"noise", db=txn.tables["events"]))
