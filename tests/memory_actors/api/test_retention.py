"""Retention rules and legal holds, over every kind."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.canaries import found_in
from support.compacting import LOGIN, SHORT, some
from support.fakes import FakeClock

from memory_actors import (
    AccessDeniedError,
    HeldError,
    MemorySystem,
    MemoryType,
    NotFoundError,
    RetentionRule,
    UserMemory,
)

pytestmark = pytest.mark.anyio
ALL = list(MemoryType)
DAY_S = 86_400
RULES = (
    RetentionRule(days=30, source="tool:*"),
    RetentionRule(days=365, memory_type=MemoryType.LONG_TERM),
    RetentionRule(days=10, user_id="trial-*"),
)


@pytest.fixture
async def memory(open_memory) -> AsyncIterator[MemorySystem]:
    async with open_memory(retention=RULES) as memory:
        yield memory


async def contents(user: UserMemory) -> set[str]:
    return {one.content for one in await user.list_memories(ALL)}


async def lost(memory: MemorySystem, user_id: str, position: int) -> int:
    """Return how many texts of a moment the log no longer has."""
    async with memory.replay(user_id, as_of=position, dropped="mark") as past:
        return past.lost


async def test_a_rule_deletes_what_its_source_said_in_any_kind_and_nothing_else(
    memory, clock: FakeClock
) -> None:
    user = memory.user("ada", session_id="s")
    tool = user.from_source("tool:browser", "untrusted")
    lasting = [one for one in ALL if one is not MemoryType.SHORT_TERM]  # whose sessions end
    gone = {(await tool.add(f"by tool {kind}", kind)).memory_id for kind in lasting}
    for kind in lasting:
        await user.from_source("ada").add(f"by ada {kind}", kind)
        await user.add(f"by nobody {kind}", kind)
    both = await tool.entities.add_entity("Bank", "firm", ["pays in gold"])
    await user.from_source("ada").entities.observe("Bank", "has moved")
    clock.move(29 * DAY_S)
    assert (await user.apply_retention()).gone == {}
    clock.move(1 * DAY_S)
    assert (await user.apply_retention()).gone == {}, "30 days old is not older"
    clock.move(1)
    before = await contents(user)
    preview = await user.apply_retention(dry_run=True)
    assert {one for ids in preview.gone.values() for one in ids} == gone
    assert await contents(user) == before
    done = await user.apply_retention()
    assert done.gone == preview.gone
    assert all("by tool" in one for one in before - await contents(user))
    assert (await user.get(both.memory_id)).memory_id == both.memory_id
    why = await user.why(min(gone))
    assert why.steps[-1].says == "Deleted by retention."
    assert why.steps[-1].cause == "retention: tool:*, 30 days"
    assert (await user.apply_retention()).gone == {}


async def test_what_was_said_again_or_changed_is_as_old_as_that(memory, clock: FakeClock) -> None:
    user = memory.user("trial-1")
    for text in ("left alone", "changed"):
        await user.add(text, memory_id=text)
    await user.add("said again")
    await user.working.set("key", 1)
    clock.move(9 * DAY_S)
    assert (await user.add("said again")).operation == "seen"
    await user.update("changed", content="has changed")
    await user.working.set("key", 2)
    clock.move(2 * DAY_S)
    await user.apply_retention()
    assert await contents(user) == {"said again", "has changed", "2"}
    await user.restore(["left alone"])
    assert (await user.apply_retention()).gone == {}, "somebody wanted it back"


async def test_compaction_applies_the_rules_and_a_summary_is_as_old_as_its_originals(
    open_memory, clock: FakeClock
) -> None:
    async with open_memory(retention=RULES, summarizer=SHORT) as memory:
        user = memory.user("ada")
        await user.add_many(some(LOGIN, 12))  # said to be older than they are recorded
        clock.move(2 * DAY_S)
        assert (await memory.compact("ada")).compressed == 1
        clock.move(362 * DAY_S)
        await memory.compact("ada")
        assert await user.count() == 1
        await user.add("is young")
        clock.move(2 * DAY_S)
        await memory.compact("ada", dry_run=True)
        assert await user.count() == 2
        await memory.compact("ada")
        assert await contents(user) == {"is young"}


async def test_a_hold_stops_rules_and_expiry_until_the_last_one_is_released(
    memory, clock: FakeClock
) -> None:
    user = memory.user("trial-2")
    await user.add("old")
    await user.add("brief", ttl_s=5)
    began = datetime.fromtimestamp(clock() / 1e6, UTC)
    first = await memory.user("trial-2", agent_id="counsel").hold("case 12/2026")
    second = await user.hold("tax audit")
    assert (first.placed_by, first.placed_at, first.reason) == ("counsel", began, "case 12/2026")
    clock.move(20 * DAY_S)
    assert await contents(user) == {"old", "brief"}
    assert (await user.apply_retention(dry_run=True)).held
    assert (await user.apply_retention()).gone == {}
    await user.release(first.hold_id)
    assert (await user.apply_retention()).held
    assert await user.holds() == [second]
    async with memory.replay("trial-2") as past:
        assert {one.content for one in await past.list_memories()} == {"old", "brief"}
    released = await memory.user("trial-2", agent_id="dpo").release(second.hold_id)
    assert released.released_by == "dpo"
    assert released.released_at is not None
    assert [one.released_by for one in await user.holds(released=True)] == [None, "dpo"]
    assert await user.holds() == []
    assert await contents(user) == {"old"}, "what is due goes"
    assert not (await user.apply_retention()).held
    assert await contents(user) == set()
    with pytest.raises(NotFoundError, match="no hold"):
        await user.release(second.hold_id)


async def test_an_erasure_under_a_hold_is_refused_and_can_be_said_all_the_same(memory) -> None:
    user = memory.user("ada")
    await user.add("likes tea")
    hold = await user.hold("case")
    with pytest.raises(HeldError, match=f"case.*{hold.hold_id}.*despite_hold"):
        await memory.erase("ada")
    with pytest.raises(HeldError):
        await user.forget("likes tea")
    assert await contents(user) == {"likes tea"}
    assert (await memory.erase("ada", despite_hold=True)).holds == 1
    assert await user.holds(released=True) == []
    await user.add("is back")
    assert (await memory.erase("ada")).holds == 0


@pytest.mark.owner
async def test_archive_and_recalls_of_who_is_held_stay(open_memory, clock: FakeClock) -> None:
    settings = {
        "archive_retention_days": 1,
        "recall_audit": "plain",
        "recall_audit_days": 1,
        "summarizer": SHORT,
    }
    async with open_memory(**settings) as memory:
        for name in ("held", "free"):
            user = memory.user(name)
            await user.add_many(some(LOGIN, 12))
            await user.retrieve("login")
        hold = await memory.user("held").hold("case")
        clock.move(100 * DAY_S)
        position = (await memory.heads()).position
        await memory.compact()
        clock.move(2 * DAY_S)
        await memory.compact()
        assert len(await memory.recalls("held")) == 1
        assert await memory.recalls("free") == []
        assert await lost(memory, "held", position) == 0
        assert await lost(memory, "free", position)
        await memory.user("held").release(hold.hold_id)
        await memory.compact()
        assert await memory.recalls("held") == []
        assert await lost(memory, "held", position)


@pytest.mark.owner
async def test_what_rules_have_deleted_leaves_the_log_where_that_is_asked_for(
    open_memory, clock: FakeClock, tmp_path: Path
) -> None:
    async with open_memory(retention=RULES) as memory:
        user = memory.user("trial-3", session_id="s")
        for kind in ALL:
            await user.add(f"canary001zq {kind}", kind, metadata={"k": "canary002zq"})
        position = (await memory.heads()).position
        clock.move(11 * DAY_S)
        kept = await user.add("is young")
        gone = (await user.apply_retention()).gone
        assert found_in(tmp_path)
        assert (await user.apply_retention(from_log=True)).rewritten >= len(gone)
        assert await memory.check_replay() == []
        assert (await memory.verify()).ok
        assert await contents(user) == {"is young"}
        async with memory.replay("trial-3", as_of=position) as past:
            then = await past.list_memories(["long_term", "structured"])
            assert len(then) == 2
            assert "canary" not in str(then)
    assert not found_in(tmp_path)
    async with open_memory() as memory:
        assert (await memory.user("trial-3").get(kept.memory_id)).content == "is young"


@pytest.mark.owner
async def test_who_may_not_manage_a_scope_holds_nobody_and_a_stranger_sees_no_hold(
    open_memory,
) -> None:
    async with open_memory(retention=RULES) as memory:
        own = memory.user("project:x")
        await own.grant("ada", "write")
        held = await own.hold("case")
        writer, stranger = (memory.user("project:x", by=name) for name in ("ada", "eve"))
        for refused in (writer.hold("no"), writer.release(held.hold_id), stranger.holds()):
            with pytest.raises(AccessDeniedError):
                await refused
        with pytest.raises(AccessDeniedError):
            await stranger.apply_retention()
        assert await writer.holds() == [held]
        await own.grant("eve", "manage")
        assert (await stranger.hold("case")).placed_by == "person:eve"
