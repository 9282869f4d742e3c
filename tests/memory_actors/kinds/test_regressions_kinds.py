"""Faults that the stateful property tests of all kinds found, each as it was shrunk."""

import asyncio
from typing import Any

import pytest
from support.given import Given, pro

from memory_actors import InvalidInputError, Limits, MemoryActorsError, QuotaExceededError
from memory_actors.kinds import short_term, working


def key_set(key: str, value: Any = 1) -> working.KeySet:
    size = working.entry_bytes(key, value)
    return working.KeySet(memory_id=f"id of {key}", key=key, value=value, size_bytes=size)


def set_key(key: str, value: Any, **more: Any) -> working.SetKey:
    return working.SetKey(now_us=1, entry=key_set(key, value), **more)


# --- limits of zero, and below what is there


@pytest.mark.parametrize("auto_prune", [False, True])
def test_a_working_memory_of_no_keys_refuses_one(auto_prune: bool) -> None:
    given = Given(working.KIND, limits=Limits(working_keys=0))
    with pytest.raises(QuotaExceededError):
        given.when(set_key("k", 1, auto_prune=auto_prune))


@pytest.mark.parametrize("limit", ["short_term_messages", "short_term_sessions"])
def test_a_short_term_memory_of_nothing_refuses_a_message(limit: str) -> None:
    given = Given(short_term.KIND, limits=Limits(**{limit: 0}))
    message = short_term.MessageAdded(
        memory_id="m", session_id="s", content="a", size_bytes=1, occurred_at_us=1
    )
    with pytest.raises(QuotaExceededError):
        given.when(short_term.AddMessage(now_us=1, message=message))


@pytest.mark.parametrize("auto_prune", [False, True])
def test_a_new_value_evicts_nobody_above_a_lowered_limit(auto_prune: bool) -> None:
    """A key above a lowered limit takes a new value, and evicts nobody."""
    given = Given(working.KIND, *map(key_set, "abcd"), limits=Limits(working_keys=2))
    (event,) = given.when(set_key("a", 2, auto_prune=auto_prune))
    assert (event.memory_id, event.value, event.evicted) == ("id of a", 2, ())
    with pytest.raises(QuotaExceededError):
        given.when(set_key("e", 1))


# --- ids that are used twice at one time


async def accepted(*calls: Any) -> list[str]:
    """Return what kinds took a memory in."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, MemoryActorsError) for one in outcomes if isinstance(one, Exception))
    return [one.memory_type for one in outcomes if not isinstance(one, BaseException)]


@pytest.mark.anyio
async def test_one_id_for_two_kinds_gives_one_memory(open_memory) -> None:
    """Clients who use one id for two kinds at once get one memory."""
    async with open_memory() as memory:
        user = memory.user("u")
        both = user.add("a", memory_id="x"), user.add("b", "short_term", memory_id="x")
        assert len(await accepted(*both)) == 1
        assert len(await user.list_memories()) == 1


@pytest.mark.anyio
async def test_a_pruned_id_in_a_batch_stays_taken(
    open_memory,
) -> None:
    """An id that is pruned in the same batch still stands for its memory."""
    async with open_memory(tiers=pro(Limits(long_term_memories=1))) as memory:
        user = memory.user("u")
        await asyncio.gather(
            user.add("what x stands for", memory_id="x", auto_prune=True),
            user.add("something newer", auto_prune=True),
            user.add("another thing", memory_id="x", auto_prune=True),
            return_exceptions=True,
        )
        events = [entry.event for entry in await user.history("x")]
        assert events == ["long_term.added", "long_term.pruned"]


@pytest.mark.anyio
async def test_a_deleted_keys_id_is_not_free(
    open_memory,
) -> None:
    """The id of a key that was just deleted is not free for another kind."""
    async with open_memory(check_replay=False) as memory:  # which flushes the log
        user = memory.user("u")
        await user.working.set("k", 1, memory_id="x")
        await user.working.delete("k")
        with pytest.raises(InvalidInputError):
            await user.add("a fact", memory_id="x")


# --- a write that was refused late


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["long_term", "entity", "episodic", "structured"])
async def test_a_memory_restored_after_a_refusal_is_found(open_memory, kind) -> None:
    """A memory that is restored after a refused write is found at once."""
    async with open_memory() as memory:
        user = memory.user("u")
        memory_id = (await user.add("red apple", kind)).memory_id
        calls = user.update(memory_id, content="blue car"), user.delete(memory_id)
        await asyncio.gather(*calls, return_exceptions=True)  # both find it; the update is too late
        (receipt,) = await user.restore([memory_id])
        assert receipt.indexed
        assert [hit.memory_id for hit in await user.retrieve("red")] == [memory_id]
