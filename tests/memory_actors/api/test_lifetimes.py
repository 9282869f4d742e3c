"""Memories with a time to live, and memories of one agent, over every kind."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from support.fakes import FakeClock

from memory_actors import InvalidInputError, Item, MemorySystem, MemoryType, UserMemory

pytestmark = pytest.mark.anyio
ALL = list(MemoryType)


@pytest.fixture
async def memory(open_memory, clock: FakeClock) -> AsyncIterator[MemorySystem]:
    async with open_memory(check_replay=True, ttl_s={MemoryType.STRUCTURED: 50}) as memory:
        yield memory


async def of_every_kind(user: UserMemory, ttl_s: float | None) -> list[str]:
    return [(await user.add(f"about {kind}", kind, ttl_s=ttl_s)).memory_id for kind in sorted(ALL)]


async def kinds_of(user: UserMemory) -> list[str]:
    return sorted(one.memory_type for one in await user.list_memories(ALL))


async def test_a_memory_of_any_kind_expires_after_its_time_to_live(memory, clock) -> None:
    user = memory.user("ada", session_id="s")
    ids = await of_every_kind(user, 60)
    ends = datetime.fromtimestamp(clock() / 1e6, UTC) + timedelta(seconds=60)
    assert {one.expires_at for one in await user.list_memories(ALL)} == {ends}
    clock.move(59)
    assert await kinds_of(user) == sorted(ALL)
    clock.move(1)
    assert await user.retrieve("about", memory_types=ALL) == []
    assert await kinds_of(user) == []
    for memory_id in ids:
        steps = (await user.why(memory_id)).steps
        assert steps[-1].says == "Deleted by its time to live, which was over."
        assert steps[-1].cause == "ttl"


async def test_a_kind_has_the_default_of_the_settings_and_an_add_may_say_otherwise(
    memory, clock
) -> None:
    user = memory.user("ada")
    await user.add('{"a": 1}', "structured")
    await user.add('{"a": 2}', "structured", ttl_s=inf)
    await user.documents.put("c", {"a": 3}, key="k", ttl_s=70)
    await user.add("stays")
    clock.move(50)
    assert len(await user.list_memories(["structured"])) == 2
    clock.move(20)
    left = await user.list_memories()
    assert [one.content for one in left] == ["stays", '{"a":2}']


async def test_the_past_reads_as_it_did_before_and_after_the_end(memory, clock) -> None:
    user = memory.user("ada")
    await user.add("likes tea", ttl_s=60)
    began = datetime.fromtimestamp(clock() / 1e6, UTC)
    clock.move(500)
    for seconds, count in ((59, 1), (60, 0)):  # before anybody has looked, too
        async with memory.replay("ada", as_of=began + timedelta(seconds=seconds)) as past:
            assert len(await past.list_memories()) == count
            assert len(await past.retrieve("tea")) == count
    assert await user.count() == 0
    async with memory.replay("ada", as_of=began + timedelta(seconds=59)) as past:
        assert [one.content for one in await past.list_memories()] == ["likes tea"]


async def test_what_is_said_again_lives_as_long_as_the_longer_of_the_two(memory, clock) -> None:
    user = memory.user("ada")
    for first, again in ((10, 99), (99, 10), (10, None), (None, 10)):
        await user.add(f"{first} then {again}", ttl_s=first)
        assert (await user.add(f"{first} then {again}", ttl_s=again)).operation == "seen"
    clock.move(11)
    assert await user.count() == 4
    clock.move(90)
    left = {one.content for one in await user.list_memories()}
    assert left == {"10 then None", "None then 10"}


async def test_a_value_that_is_put_again_has_the_lifetime_of_its_last_put(memory, clock) -> None:
    user = memory.user("ada")
    for key, first, again in (("longer", 10, 99), ("shorter", 99, 10), ("for ever", 10, None)):
        await user.working.set(key, 1, ttl_s=first)
        await user.working.set(key, 1, ttl_s=again)
    clock.move(11)
    assert set(await user.working.items()) == {"longer", "for ever"}


async def test_room_of_what_has_expired_is_free_for_the_next_add(open_memory, clock) -> None:
    from memory_actors import Limits, Plan, Tier

    tiers = {Tier.PRO: Plan(limits=Limits(long_term_memories=2))}
    async with open_memory(tiers=tiers, default_tier=Tier.PRO) as memory:
        user = memory.user("ada")
        await user.add_many([Item(content="one"), Item(content="two")], ttl_s=5)
        clock.move(5)
        assert (await user.add("three")).quota_remaining == 1


async def test_a_summary_is_made_of_nothing_that_expires(open_memory, clock) -> None:
    async with open_memory(compaction_min_samples=2) as memory:
        user = memory.user("ada")
        await user.add_many([Item(content=f"tea {n}") for n in range(6)], ttl_s=1e8)
        clock.move(200 * 86_400)
        await memory.compact("ada")
        assert await user.count() == 6


async def test_what_comes_back_expires_when_it_was_to_expire(memory, clock) -> None:
    user = memory.user("ada", session_id="s")
    ids = dict(zip(sorted(ALL), await of_every_kind(user, 60), strict=True))
    ends = datetime.fromtimestamp(clock() / 1e6, UTC) + timedelta(seconds=60)
    back = [ids[k] for k in ids if k not in ("working", "short_term")]
    for _ in range(2):
        clock.move(10)
        for memory_id in back:
            await user.delete(memory_id)
        await user.restore(back)
        got = [(await user.get(memory_id)).expires_at for memory_id in back]
        assert got == [ends] * len(back)
    clock.move(40)
    assert await user.count(memory_types=ALL) == 0
    assert (await memory.verify()).ok


async def test_what_comes_back_after_its_time_lives_as_long_again(memory, clock) -> None:
    user = memory.user("ada")
    fact = (await user.add("likes tea", ttl_s=60)).memory_id
    for seconds in (100, 1):  # later than its end, and exactly then
        clock.move(seconds)
        assert await user.count() == 0
        await user.restore([fact])
        clock.move(59)
        assert await user.count() == 1
    clock.move(1)
    assert await user.count() == 0


async def test_what_was_to_stay_when_it_went_stays_when_it_comes_back(memory, clock) -> None:
    user = memory.user("ada")
    put = await user.documents.put("c", {"a": 1}, key="k", ttl_s=60)
    await user.documents.put("c", {"a": 2}, key="k", ttl_s=inf)
    await user.delete(put.memory_id)
    await user.restore([put.memory_id])
    assert (await user.get(put.memory_id)).expires_at is None
    clock.move(100)
    assert await user.count(memory_types=["structured"]) == 1


async def test_a_time_to_live_of_any_length_ends_within_a_hundred_years(open_memory) -> None:
    async with open_memory(ttl_s={MemoryType.ENTITY: 1e300}) as memory:
        user = memory.user("ada")
        await user.add("a", ttl_s=1e300)
        await user.add("b", "entity")
        last = datetime.now(UTC) + timedelta(days=365 * 101)
        assert all(one.expires_at < last for one in await user.list_memories())


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan"), "soon"])
async def test_a_time_to_live_is_a_number_above_zero(memory, ttl_s) -> None:
    with pytest.raises(InvalidInputError, match="ttl_s"):
        await memory.user("ada").add("x", ttl_s=ttl_s)


# --- agents


async def test_what_one_agent_wrote_is_asked_for_alone_and_said_in_each_hit(memory) -> None:
    travel, cook, nobody = (memory.user("ada", agent_id=name) for name in ("travel", "cook", None))
    for name, user in (("travel", travel), ("cook", cook), ("nobody", nobody)):
        await user.add(f"likes tea, says {name}")
    for reader in (travel, nobody):
        (hit,) = await reader.retrieve("tea", agent_id="cook")
        assert (hit.content, hit.agent_id) == ("likes tea, says cook", "cook")
        assert [m.agent_id for m in await reader.list_memories(agent_id="travel")] == ["travel"]
        assert await reader.count(agent_id="travel") == 1
        assert {hit.agent_id for hit in await reader.retrieve("tea")} == {"travel", "cook", None}
    assert await nobody.retrieve("tea", agent_id="nobody") == []


async def test_memories_of_every_kind_know_their_agent_and_keep_it_when_they_come_back(
    memory,
) -> None:
    user, other = memory.user("ada", agent_id="travel", session_id="s"), memory.user("ada")
    ids = dict(zip(sorted(ALL), await of_every_kind(user, None), strict=True))
    assert {one.agent_id for one in await other.list_memories(ALL)} == {"travel"}
    back = [ids[k] for k in ids if k not in ("working", "short_term")]
    for memory_id in back:
        await other.delete(memory_id)
    await other.restore(back)
    assert {one.agent_id for one in await other.list_memories(ALL)} == {"travel"}
    await other.update(back[0], metadata={"a": 1})
    assert (await other.get(back[0])).agent_id == "travel"
