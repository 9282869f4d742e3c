"""Tiers, limits over all users, alerts, usage, cost, and the memory of the process."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.fakes import FakeClock
from support.given import pro

from memory_actors import (
    Alert,
    CallbackSink,
    GlobalLimits,
    GlobalQuotaExceededError,
    InvalidInputError,
    Item,
    Limits,
    MemoryLimitError,
    Plan,
    Prices,
    QuotaExceededError,
    Tier,
    UserMemory,
)
from memory_actors.base.privacy import hashed

pytestmark = pytest.mark.anyio


async def count(user: UserMemory, kind: str = "long_term") -> int:
    return (await user.usage()).kinds[kind].count


# --- tiers


async def test_the_tiers_allow_what_they_promise(user) -> None:
    found = {}
    for tier in Tier:
        await user.set_tier(tier)
        usage = await user.usage()
        limits = {q.quota: q.limit for q in usage.kinds["long_term"].quotas}
        entities = usage.kinds["entity"].quotas[0].limit
        cost = (await user.estimate_monthly_cost()).tier_price_usd
        assert usage.tier == tier
        found[tier.value] = (limits["memories"], limits["bytes"] >> 20, entities, cost)
    assert found == {
        "local": (100_000, 1_000, 50_000, 0.0),
        "free": (100, 10, 500, 0.0),
        "pro": (10_000, 100, 5_000, 20.0),
        "enterprise": (100_000, 1_000, 50_000, 200.0),
    }


async def test_by_default_a_store_has_no_price_and_room_for_100_000_facts(user) -> None:
    memories, *_ = (await user.usage()).kinds["long_term"].quotas
    cost = await user.estimate_monthly_cost()
    assert (memories.limit, cost.tier, cost.tier_price_usd) == (100_000, "local", 0.0)


async def test_a_tier_is_durable_and_can_be_overridden_in_settings(open_memory) -> None:
    tiers = {Tier.FREE: Plan(limits=Limits(long_term_memories=2), price_usd=1.5)}
    async with open_memory(tiers=tiers, default_tier=Tier.ENTERPRISE) as memory:
        assert (await memory.user("u").usage()).tier == "enterprise"
        await memory.user("u").set_tier("free")
    async with open_memory(tiers=tiers) as memory:
        user = memory.user("u")
        await user.add_many([Item(content="a"), Item(content="b")])
        with pytest.raises(QuotaExceededError) as refused:
            await user.add("c")
        assert (refused.value.tier, refused.value.limit) == ("free", 2)
        assert (await user.estimate_monthly_cost()).tier_price_usd == 1.5


async def test_a_downgrade_deletes_nothing(
    open_memory,
) -> None:
    """A downgrade deletes nothing, and refuses adds until there is room."""
    tiers = {Tier.FREE: Plan(limits=Limits(long_term_memories=2))}
    async with open_memory(tiers=tiers) as memory:
        user = memory.user("u")
        receipts = await user.add_many([Item(content=f"fact {n}") for n in range(4)])
        await user.set_tier(Tier.FREE)
        assert await count(user) == 4
        assert len(await user.retrieve("fact", top_k=10)) == 4
        (use, _) = (await user.usage()).kinds["long_term"].quotas
        assert use.percent == 200
        with pytest.raises(QuotaExceededError):
            await user.add("more")
        for receipt in receipts[:3]:
            await user.delete(receipt.memory_id)
        assert (await user.add("more")).quota_remaining == 0


# --- a user over quota costs nothing


async def test_who_waits_behind_others_and_is_refused_had_nothing_embedded(
    open_memory, embedder
) -> None:
    async with open_memory(tiers=pro(Limits(long_term_memories=1))) as memory:
        user = memory.user("u")
        adds = (user.add(f"text {n}", memory_id=f"id {n}") for n in range(3))
        first, *refused = await asyncio.gather(*adds, return_exceptions=True)
        assert first.indexed
        assert [type(one) for one in refused] == [QuotaExceededError] * 2
        assert embedder.texts == ["text 0"]


# --- prune and restore


async def test_a_prune_is_logged_without_the_user(open_memory) -> None:
    """A prune is logged with kind, number and a hash of the user."""
    with capture_logs() as logs:
        async with open_memory(tiers=pro(Limits(long_term_memories=20))) as memory:
            user = memory.user("ada")
            await user.add_many([Item(content=f"fact {n}") for n in range(20)])
            await user.add_with_auto_prune("one more")
            await user.add_with_auto_prune("this one fits")
    assert [log for log in logs if "pruned" in log["event"]] == [
        {
            "event": "memories pruned", "log_level": "warning", "kind": "long_term",
            "count": 2, "user": hashed("ada"),
        }
    ]  # fmt: skip
    assert "'ada'" not in repr(logs)


async def test_a_prune_can_be_undone_within_the_quota(open_memory, clock: FakeClock) -> None:
    async with open_memory(tiers=pro(Limits(long_term_memories=20))) as memory:
        user = memory.user("u")
        for n in range(20):
            clock.move(1)
            await user.add(f"fact number {n}", metadata={"n": n})
        receipt = await user.add_with_auto_prune("one more")
        assert len(receipt.pruned) == 2
        assert await user.retrieve("fact number 0", filters={"n": 0}) == []
        with pytest.raises(QuotaExceededError):
            await user.restore([*receipt.pruned])
        await user.delete(receipt.memory_id)
        (back, also) = await user.restore(receipt.pruned)
        assert (back.operation, back.memory_id) == ("restore", receipt.pruned[0])
        assert also.quota_remaining == 0
        (hit,) = await user.retrieve("fact number 0", filters={"n": 0})
        assert hit.memory_id == receipt.pruned[0]
        events = [entry.event for entry in await user.history(receipt.pruned[0])]
        assert events == ["long_term.added", "long_term.pruned", "long_term.restored"]
        cause = (await user.history(receipt.pruned[0]))[1]
        assert cause.data["cause"] == "quota"
        assert cause.cause["command"] == "AddMemories"


# --- limits over all users


async def test_all_users_together_keep_to_the_global_limit(open_memory) -> None:
    limits = GlobalLimits(long_term_bytes=100)
    async with open_memory(global_limits=limits) as memory:
        users = [memory.user(f"u{n}") for n in range(20)]
        outcomes = await asyncio.gather(
            *(user.add("x" * 10) for user in users), return_exceptions=True
        )
        refused = [o for o in outcomes if isinstance(o, GlobalQuotaExceededError)]
        assert len(refused) == 10
        assert "All users together hold" in str(refused[0])
        assert (await memory.usage()).size_bytes["long_term"] == 100


async def test_totals_are_exact_after_a_restart(open_memory) -> None:
    async with open_memory() as memory:
        for n in range(5):
            user = memory.user(f"u{n}")
            receipt = await user.add("x" * (10 + n))
            await user.short_term.add_message("hello")
            await user.working.set("k", "v")
        await user.delete(receipt.memory_id)
        await user.update((await user.list_memories())[0].memory_id, content="changed")
        before = await memory.usage()
        recount: dict[str, int] = {}
        for n in range(5):
            for name, kind in (await memory.user(f"u{n}").usage()).kinds.items():
                recount[name] = recount.get(name, 0) + kind.size_bytes
        assert before.size_bytes == recount
    async with open_memory() as memory:
        after = await memory.usage()
        assert (after.counts, after.size_bytes, after.stored_bytes) == (
            before.counts, before.size_bytes, before.stored_bytes,
        )  # fmt: skip
        assert memory.statistics().runtime.activations == 0, "nobody was looked at"


# --- alerts


async def test_alerts_are_recorded_and_delivered_once_for_each_crossing(open_memory) -> None:
    got: list[Alert] = []

    async def take(alert: Alert) -> None:
        got.append(alert)

    async with open_memory(
        tiers=pro(Limits(long_term_memories=20)), alerts=[CallbackSink(take)]
    ) as memory:
        user = memory.user("ada")
        ids = [(await user.add(f"fact {n}")).memory_id for n in range(20)]
        for memory_id in ids[:6]:
            await user.delete(memory_id)
        for n in range(3):
            await user.add(f"new {n}")
    seen = [(a.user_id, a.quota, a.level, a.used, a.tier) for a in got]
    assert seen == [
        ("ada", "long_term.memories", "warning", 16, "local"),
        ("ada", "long_term.memories", "critical", 19, "local"),
        ("ada", "long_term.memories", "warning", 16, "local"),
    ]


async def test_a_full_ring_raises_no_alert(open_memory) -> None:
    got: list[Alert] = []

    async def take(alert: Alert) -> None:
        got.append(alert)

    limits = Limits(short_term_messages=10, working_keys=4, working_bytes=1_000)
    async with open_memory(tiers=pro(limits), alerts=[CallbackSink(take)]) as memory:
        user = memory.user("ada", session_id="s")
        for n in range(12):
            await user.short_term.add_message(f"message {n}")
        for n in range(3):
            await user.working.set(f"long {n}", "x" * 400)  # for which others make room
        uses = {
            f"{kind}.{use.quota}": use
            for kind, one in (await user.usage()).kinds.items()
            for use in one.quotas
        }
        assert uses["short_term.messages"].percent == 100
        assert {name for name, use in uses.items() if use.evicts} == {
            "short_term.messages", "short_term.bytes", "short_term.sessions", "working.bytes",
        }  # fmt: skip
        assert got == []
        for n in range(4):
            await user.working.set(f"short {n}", "x", auto_prune=True)
        with pytest.raises(QuotaExceededError):
            await user.working.set("one too many", "x")
    assert {alert.quota for alert in got} == {"working.keys"}
    assert got[-1].level == "critical"


async def test_an_alert_is_committed_with_its_write(open_memory) -> None:
    """An alert comes in the commit of the write that caused it."""
    async with open_memory(tiers=pro(Limits(long_term_memories=5)), alerts=[]) as memory:
        user = memory.user("u")
        await user.add_many([Item(content=f"fact {n}") for n in range(4)])
        events = await memory._services.log.read_stream("user:u")
        assert [event.tag for event in events][-1] == "account.alert_changed"
        assert events[-1].recorded_at == events[0].recorded_at


async def test_a_change_of_tier_raises_the_alerts_it_calls_for(open_memory) -> None:
    tiers = {Tier.FREE: Plan(limits=Limits(long_term_memories=4))}
    async with open_memory(tiers=tiers, alerts=[]) as memory:
        user = memory.user("u")
        await user.add_many([Item(content=f"fact {n}") for n in range(4)])
        await user.set_tier(Tier.FREE)
        events = await memory._services.log.read_stream("user:u")
        assert [event.tag for event in events][-2:] == ["account.tier_set", "account.alert_changed"]


# --- cost


async def test_the_cost_is_reckoned_from_the_usage(open_memory, embedder) -> None:
    prices = Prices(vectors_per_gib=1024.0**3, short_term_per_gib=1024.0**3)
    async with open_memory(prices=prices) as memory:
        user = memory.user("u")
        await user.add("likes tea")
        await user.short_term.add_message("12345")
        estimate = await user.estimate_monthly_cost()
        costs = {item.name: item.cost_usd for item in estimate.items}
        assert costs["vectors"] == pytest.approx(4 * embedder.dimension)
        assert costs["short_term"] == pytest.approx(5)
        assert estimate.total_usd == pytest.approx(estimate.storage_usd)
        assert estimate.usage.kinds["short_term"].count == 1


# --- the memory of the process


async def test_over_the_hard_limit_only_writes_are_refused(
    open_memory,
) -> None:
    """Over the hard limit writes are refused, and reads and deletes go on."""
    async with open_memory() as memory:
        receipt = await memory.user("u").add("likes tea")
    async with open_memory(memory_hard_bytes=1) as memory:
        user = memory.user("u")
        for write in (
            lambda: user.add("more"),
            lambda: user.working.set("k", 1),
            lambda: user.short_term.add_message("m"),
            lambda: user.restore([receipt.memory_id]),
        ):
            with pytest.raises(MemoryLimitError, match="hard limit"):
                await write()
        assert len(await user.retrieve("tea")) == 1
        await user.delete(receipt.memory_id)
        memory_use = memory.statistics().memory
        assert memory_use.peak_bytes >= memory_use.current_bytes > 1


async def test_over_the_hard_limit_whatever_makes_room_goes_on(open_memory) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        entity = await user.entities.add_entity("Ada", "person", observations=["likes tea"])
        entry = await user.context.add("Facts", "likes tea")
    async with open_memory(memory_hard_bytes=1) as memory:
        user = memory.user("u")
        with pytest.raises(MemoryLimitError):
            await user.context.add("Facts", "more")
        removed = await user.entities.remove_observation(entity.memory_id, "likes tea")
        assert removed.operation == "update"
        assert (await user.context.archive(entry.entry_ids)).archived == entry.entry_ids
        await user.context.delete("MEMORY.md")
        assert await user.list_memories("context") == []


async def test_at_the_soft_limit_idle_users_leave_memory(open_memory) -> None:
    async with open_memory(memory_soft_bytes=1) as memory:
        await memory.user("u").add("likes tea")
        memory._services.runtime.relieve()
        for _ in range(100):
            if memory.statistics().runtime.live == 0:
                break
            await asyncio.sleep(0.01)
        assert memory.statistics().runtime.live == 0
        assert len(await memory.user("u").list_memories()) == 1


# --- what is logged


async def test_logs_never_hold_content_or_a_users_id(
    open_memory, embedder, capsys: Any, caplog: Any
) -> None:
    secret, name = "canary-content-91", "canary-user-17"
    async with open_memory(tiers=pro(Limits(long_term_memories=5))) as memory:
        user = memory.user(name)
        embedder.failure = RuntimeError(f"cannot embed {secret}")
        await user.add_many([Item(content=f"{secret} {n}", memory_id=f"{n}") for n in range(5)])
        with pytest.raises(QuotaExceededError):
            await user.add(secret)
        async with memory._services.runtime.use(f"user:{name}") as live:
            live.actor.quarantine(f"because of {secret}")
    said = "".join([*capsys.readouterr(), caplog.text])  # by structlog, or by `logging`
    assert "quota alert" in said
    assert "not indexed" in said
    assert secret not in said
    assert name not in said


async def test_a_pruning_handle_prunes_every_kind(
    open_memory,
) -> None:
    """A handle that prunes does so for every kind, unless a call says otherwise."""
    limits = Limits(
        working_keys=1, long_term_memories=1, entities=2, relationships=1, episodes=1, documents=1,
        context_entries=2,
    )  # fmt: skip
    async with open_memory(tiers=pro(limits)) as memory:
        careful, pruning = memory.user("u"), memory.user("u", auto_prune=True)
        for kind in ("working", "long_term", "structured", "episodic"):
            await careful.add("first", kind)
            with pytest.raises(QuotaExceededError):
                await careful.add("second", kind)
            with pytest.raises(QuotaExceededError):
                await pruning.add("second", kind, auto_prune=False)
            receipt = await pruning.add("second", kind)
            assert len(receipt.pruned + receipt.evicted) == 1, kind
            assert await count(careful, kind) == 1
        assert (await pruning.add_many([Item(content="third")]))[0].pruned
        assert (await pruning.documents.put("things", {"n": 1})).pruned
        assert (await pruning.episodes.start("another goal")).pruned
        assert (await pruning.working.set("k", 1)).evicted
        for name in ("Ada", "Bob"):
            await pruning.entities.add_entity(name)
        await pruning.entities.relate("Ada", "knows", "Bob")
        assert (await pruning.entities.relate("Bob", "knows", "Ada")).pruned
        assert (await pruning.entities.add_entity("Cleo")).pruned
        assert (await pruning.from_source("a page").add("fourth")).pruned
        with pytest.raises(InvalidInputError, match="auto_prune"):
            memory.user("u", auto_prune="yes")
