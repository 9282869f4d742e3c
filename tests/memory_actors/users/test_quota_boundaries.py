"""A change may take a kind exactly to its limit by size, and not one byte further."""

import pytest

from memory_actors import Limits, MemoryType, Plan, QuotaExceededError, Tier, UserMemory

pytestmark = pytest.mark.anyio

KINDS = ["working", "short_term", "long_term", "entity", "episodic", "structured"]


def limits(size: int) -> Limits:
    return Limits(
        working_bytes=size, short_term_bytes=size, long_term_bytes=size, entity_bytes=size,
        episodic_bytes=size, structured_bytes=size,
    )  # fmt: skip


TIERS = {Tier.FREE: Plan(limits=limits(60)), Tier.LOCAL: Plan(limits=limits(100))}


async def held(user: UserMemory, kind: str) -> int:
    return (await user.usage()).kinds[kind].size_bytes


@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_takes_a_kind_exactly_to_its_limit(open_memory, kind: MemoryType) -> None:
    async with open_memory(tiers=TIERS) as memory:
        user = memory.user("u")
        one = (await user.add("a", kind)).memory_id
        await user.update(one, content="b")
        room = 100 - await held(user, kind)
        await user.update(one, content="c" * (1 + room))
        assert await held(user, kind) == 100
        with pytest.raises(QuotaExceededError):
            await user.update(one, content="d" * (2 + room))
        await user.update(one, content="e" * (1 + room))
        assert await held(user, kind) == 100


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "working"])
async def test_above_a_lowered_limit_a_change_may_not_grow(open_memory, kind: MemoryType) -> None:
    async with open_memory(tiers=TIERS) as memory:
        user = memory.user("u")
        one = (await user.add("a", kind)).memory_id
        await user.update(one, content="b")
        room = 80 - await held(user, kind)
        await user.update(one, content="c" * (1 + room))
        await user.set_tier(Tier.FREE)
        await user.update(one, metadata={"a": 1})
        await user.update(one, content="d" * (1 + room))
        await user.update(one, content="e" * room)
        assert await held(user, kind) == 79
        with pytest.raises(QuotaExceededError):
            await user.update(one, content="f" * (1 + room))
        assert await held(user, kind) == 79
