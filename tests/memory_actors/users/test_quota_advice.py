"""The advice of an error helps: a refusal for lack of room names what is new and a cure."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.given import pro

from memory_actors import (
    ContextLimitError,
    GlobalLimits,
    GlobalQuotaExceededError,
    Limits,
    MemoryType,
    Plan,
    QuotaExceededError,
    Settings,
    Tier,
    UserMemory,
)
from memory_actors.base.quota import SET_BY_TIER, TIERS, refuse_bytes, refuse_count, size

pytestmark = pytest.mark.anyio

SMALL = Limits(
    working_keys=2, working_bytes=100, short_term_bytes=100, long_term_memories=3,
    long_term_bytes=100, entity_bytes=100, episodic_bytes=100, structured_bytes=100,
    context_document_bytes=100,
)  # fmt: skip
ALL_SMALL = {tier: Plan(limits=SMALL) for tier in Tier}


async def refusal(call: Awaitable[Any], error: type[Exception] = QuotaExceededError) -> str:
    with pytest.raises(error) as refused:
        await call
    return str(refused.value)


@pytest.mark.parametrize("kind", [kind for kind in MemoryType if kind != MemoryType.CONTEXT])
async def test_what_can_never_fit_says_so_with_its_size(open_memory, kind: MemoryType) -> None:
    async with open_memory(tiers=ALL_SMALL) as memory:
        said = await refusal(memory.user("u").add("x" * 300, kind))
    assert " and can never fit the size quota of 100 B. Make it smaller, or raise " in said
    assert f"{kind}_bytes in Settings.tiers." in said
    assert "This takes 3" in said
    assert "Delete" not in said
    assert "upgrade" not in said


CHANGES: dict[str, Callable[[UserMemory], Awaitable[Any]]] = {
    "long_term": lambda user: user.update("m", content="y" * 101),
    "entity": lambda user: user.update("m", content="y" * 101),
    "structured": lambda user: user.update("m", content="y" * 101),
    "short_term": lambda user: user.update("m", content="y" * 101),
    "episodic": lambda user: user.episodes.step("m", "y" * 101),
}


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_change_that_can_never_fit_says_so(open_memory, kind: str) -> None:
    async with open_memory(tiers=pro(SMALL)) as memory:
        user = memory.user("u")
        await user.add("x" * 40, kind, memory_id="m")
        said = await refusal(CHANGES[kind](user))
    assert "can never fit the size quota of 100 B" in said


async def test_what_meets_the_limit_exactly_can_fit(open_memory) -> None:
    async with open_memory(tiers=pro(SMALL)) as memory:
        user = memory.user("u")
        await user.add("x")
        said = await refusal(user.add("y" * 100))
    assert "would exceed the size quota (1 B of 100 B): it takes 100 B. Delete old" in said


@pytest.mark.parametrize(
    ("size_bytes", "said"),
    [(1_023, "1023 B"), (1_024, "1 KB"), (10_752, "10.5 KB"), (1 << 20, "1 MB")],
)
def test_a_size_is_told_in_the_largest_unit_that_it_fills(size_bytes: int, said: str) -> None:
    assert size(size_bytes) == said


@pytest.mark.parametrize("kind", ["long_term", "entity", "structured", "episodic"])
async def test_a_byte_limit_says_how_large_the_new_item_is(open_memory, kind: str) -> None:
    async with open_memory(tiers=pro(SMALL)) as memory:
        user = memory.user("u")
        await user.add("x" * 40, kind)
        said = await refusal(user.add("y" * 61, kind))
        used = (await user.usage()).kinds[kind].size_bytes
    assert f"would exceed the size quota ({used} B of 100 B): it takes {used + 21} B." in said
    assert "Delete old memories" in said


async def test_full_working_memory_does_not_advise_an_upgrade(open_memory) -> None:
    async with open_memory(tiers=ALL_SMALL) as memory:
        working = memory.user("u").working
        await working.set("a", 1)
        await working.set("b", 1)
        said = await refusal(working.set("c", 1))
        assert said == (
            "User has 2 working keys (max: 2). Delete a key, let the least recently used one go "
            "(auto_prune=True), or raise working_keys in Settings.tiers."
        )
        assert (await working.set("c", 1, auto_prune=True)).evicted


async def test_a_kind_switched_off_does_not_advise_deleting(open_memory) -> None:
    none = Limits(working_keys=0, short_term_sessions=0, long_term_memories=0, episode_steps=0)
    async with open_memory(tiers=pro(none)) as memory:
        user = memory.user("u")
        episode = (await user.episodes.start("learn")).memory_id
        calls = {
            "working_keys": user.working.set("a", 1, auto_prune=True),
            "short_term_sessions": user.short_term.add_message("a", role="user"),
            "episode_steps": user.episodes.step(episode, "a"),
        }
        for name, call in calls.items():
            said = await refusal(call)
            assert "(max: 0). Use another kind of memory" in said
            assert name in said or "upgrade quota" in said


@pytest.mark.parametrize("tier", Tier)
def test_an_upgrade_is_advised_exactly_where_a_tier_has_more(tier: Tier) -> None:
    limits = Settings().limits_by_tier()[tier]
    for name in set(Limits.__struct_fields__).difference(SET_BY_TIER):
        limit = getattr(limits, name)
        higher = any(getattr(plan.limits, name) > limit for plan in TIERS.values())
        for refuse in (
            lambda name=name, limit=limit: refuse_count("k", "n", limit, limits, name),
            lambda name=name, limit=limit: refuse_bytes("k", limit, limits, name, new=1),
        ):
            with pytest.raises(QuotaExceededError) as refused:
                refuse()
            said = str(refused.value)
            assert ("upgrade quota" in said) == higher
            assert (f"raise {name} in Settings.tiers" in said) != higher


async def test_a_limit_over_all_users_says_what_would_be_added(open_memory) -> None:
    limits = GlobalLimits(long_term_bytes=100)
    async with open_memory(global_limits=limits) as memory:
        user = memory.user("u")
        await user.add("x" * 60)
        error = GlobalQuotaExceededError
        assert "60 B of 100 B (long_term.size_bytes), and this adds 70 B: delete" in (
            await refusal(user.add("y" * 70), error)
        )
        assert "adds 101 B: that can never fit" in await refusal(user.add("y" * 101), error)


async def test_an_overlong_entry_does_not_advise_archiving(open_memory) -> None:
    """An entry too long for any document does not advise to archive."""
    async with open_memory(context_soft_tokens=10, context_hard_tokens=20) as memory:
        context = memory.user("u").context
        await context.add("", "a few words")
        said = await refusal(context.add("", "word " * 40), ContextLimitError)
        assert "exceeds hard limit (20 tokens). What is new takes" in said
        said = await refusal(context.add("", "word " * 10), ContextLimitError)
        assert said.endswith("exceeds hard limit (20 tokens). Archive before continuing")
    async with open_memory(tiers=pro(SMALL)) as memory:
        said = await refusal(memory.user("u").context.add("", "x" * 200))
        assert "What is new takes" in said
        assert "shorten it" in said
