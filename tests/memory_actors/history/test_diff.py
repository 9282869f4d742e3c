"""The changes between two moments: of which memory, by whom and why."""

from typing import Any

import msgspec
import pytest
from support.compacting import SHORT, with_a_past
from support.fakes import FakeClock
from support.given import pro

from memory_actors import (
    Change,
    Diff,
    InvalidInputError,
    Limits,
    MemorySystem,
    NotFoundError,
    PayloadDropped,
)

pytestmark = pytest.mark.anyio


async def position_of(memory: MemorySystem) -> int:
    await memory._log.flush()
    return memory.statistics().log.last_position


def changes(diff: Diff) -> dict[str, Change]:
    return {change.memory_id: change for change in diff.changes}


def content(memory: Any) -> str | None:
    return None if memory is None else memory.content


async def test_each_change_has_before_after_and_who_did_it(memory: MemorySystem) -> None:
    user = memory.user("ada", agent_id="scout")
    for name in ("kept", "changed", "deleted", "back"):
        await user.add(f"it is {name}", memory_id=name)
    a = await position_of(memory)
    await user.update("changed", content="it is new", metadata={"b": 1})
    await user.delete("deleted")
    await user.delete("back")
    await user.restore(["back"])
    await user.add("it is added", memory_id="added")
    await user.add("it came and went", memory_id="brief")
    await user.delete("brief")
    await user.set_tier("free")
    diff = await memory.diff("ada", a)
    found = changes(diff)
    assert [(c.memory_id, c.change) for c in diff.changes] == [
        ("changed", "changed"), ("deleted", "deleted"), ("back", "restored"),
        ("added", "added"), ("brief", "deleted"),
    ]  # fmt: skip
    assert {k: (content(c.before), content(c.after)) for k, c in found.items()} == {
        "changed": ("it is changed", "it is new"), "deleted": ("it is deleted", None),
        "back": ("it is back", "it is back"), "added": (None, "it is added"),
        "brief": (None, None),
    }  # fmt: skip
    assert found["changed"].after.metadata == {"b": 1}
    (step,) = found["changed"].steps
    assert (step.agent_id, step.command, step.position) == ("scout", "UpdateMemory", a + 1)
    assert (diff.tier_before, diff.tier_after) == (None, "free")
    assert (await memory.diff("ada", a, a)).changes == ()
    back = await memory.diff("ada", 0, a)
    assert {change.change for change in back.changes} == {"added"}
    msgspec.json.encode(diff)


async def test_what_made_room_and_what_expired_is_told_apart(
    open_memory: Any, clock: FakeClock
) -> None:
    limits = pro(Limits(long_term_memories=2, short_term_messages=1))
    async with open_memory(tiers=limits) as memory:
        user = memory.user("ada")
        for text in ("one", "two"):
            await user.add(text, memory_id=text)
        await user.short_term.add_message("hello", memory_id="first")
        a = await position_of(memory)
        await user.short_term.add_message("again", memory_id="second")
        await user.add_with_auto_prune("three", memory_id="three")
        b = await position_of(memory)
        found = changes(await memory.diff("ada", a, b))
        assert {key: change.change for key, change in found.items()} == {
            "one": "pruned", "three": "added", "first": "evicted", "second": "added",
        }  # fmt: skip
        clock.move(4_000)
        (silent,) = (await memory.diff("ada", b)).changes
        assert (silent.memory_id, silent.change, silent.steps) == ("second", "expired", ())
        assert content(silent.before) == "again"


async def test_moments_must_be_in_order_and_of_somebody(memory: MemorySystem) -> None:
    for text in ("one", "two"):
        await memory.user("ada").add(text)
    with pytest.raises(InvalidInputError, match="earlier"):
        await memory.diff("ada", 2, 1)
    with pytest.raises(NotFoundError):
        await memory.diff("nobody", 0)


async def test_an_erased_user_has_changes_since_they_came_back(
    memory: MemorySystem,
    user: Any,
) -> None:
    await user.add("forget me", memory_id="erased")
    erased = await position_of(memory)
    await memory.erase("ada")
    with pytest.raises(NotFoundError, match="never had"):
        await memory.diff("ada", 0)
    await user.add("new here", memory_id="new")
    a = await position_of(memory)
    await user.update("new", content="known here")
    (changed,) = (await memory.diff("ada", a)).changes
    assert (changed.memory_id, changed.change) == ("new", "changed")
    for dropped in ("raise", "mark"):
        diff = await memory.diff("ada", 0, dropped=dropped)
        assert ({*changes(diff)}, diff.lost) == ({"new"}, 0)
        with pytest.raises(NotFoundError, match="erased"):
            await memory.diff("ada", erased, dropped=dropped)


async def test_what_retention_dropped_is_said(open_memory: Any, clock: FakeClock) -> None:
    async with open_memory(summarizer=SHORT, archive_retention_days=0) as memory:
        await with_a_past(memory)
        a = await position_of(memory)
        await memory.compact()
        clock.move(1)
        await memory.compact()
        with pytest.raises(PayloadDropped):
            await memory.diff("ada", 1, a)
        diff = await memory.diff("ada", a, dropped="mark")
        assert (diff.lost, changes(diff)["fixed0"].before) == (19, None)
        assert changes(diff)["fixed0"].change == "compressed"
