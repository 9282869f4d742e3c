"""Facts that change: the newer one is found first, and who says that it holds can be undone."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from support.fakes import FakeClock

from eventlog import to_datetime
from memory_actors import InvalidInputError, Item, MemorySystem, Statement, UserMemory
from memory_actors.users.handles import superseding

pytestmark = pytest.mark.anyio

BRISTOL, GLASGOW = "User lives in Bristol.", "User lives in Glasgow now."


async def moved(user: UserMemory) -> tuple[str, str]:
    """Add a fact and a newer one that says otherwise; return their ids."""
    older = await user.add(BRISTOL, occurred_at="2023-05-01")
    newer = await user.add(GLASGOW, occurred_at="2025-05-01")
    return older.memory_id, newer.memory_id


async def found(user: UserMemory, query: str = "User lives in", **more: Any) -> list[Any]:
    """Return the ids of what is found and by what each is superseded."""
    hits = await user.retrieve(query, memory_types=["long_term"], **more)
    return [(hit.memory_id, hit.superseded_by) for hit in hits]


async def recorded(memory: MemorySystem) -> list[dict[str, Any]]:
    """Return the fields of the events that say so."""
    events = [entry async for entry in memory.events("ada")]
    return [entry.data for entry in events if entry.event == "long_term.superseded"]


# --- recorded


async def test_a_fact_that_changes_is_recorded_with_its_evidence(
    memory: MemorySystem, user: UserMemory
) -> None:
    older = await user.add(BRISTOL, occurred_at="2023-05-01")
    newer = await user.add(GLASGOW, occurred_at="2025-05-01")
    assert (older.supersedes, older.superseded_by) == ((), None)
    assert (newer.supersedes, newer.superseded_by) == ((older.memory_id,), None)
    (event,) = await recorded(memory)
    assert event["memory_id"] == older.memory_id
    assert event["superseded_by_id"] == newer.memory_id
    assert event["evidence"] == "residence: Bristol -> Glasgow"
    assert 0.1 < event["similarity"] < 1
    why = await user.why(older.memory_id)
    assert f"Said otherwise by {newer.memory_id}" in why.steps[-1].says
    assert "residence: Bristol -> Glasgow" in why.steps[-1].says
    why = await user.why(newer.memory_id)
    assert f"Says otherwise than {older.memory_id}" in why.steps[-1].says
    assert why.alive


async def test_facts_of_one_batch_are_compared_with_each_other(
    memory: MemorySystem, user: UserMemory
) -> None:
    items = [
        Item(content=f"My weight is {kilos} kg.", occurred_at=day, memory_id=f"w{kilos}")
        for kilos, day in ((71, "2025-10-05"), (74, "2025-05-05"), (69, "2026-04-05"))
    ]
    receipts = await user.add_many(items)
    assert [set(one.supersedes) for one in receipts] == [{"w74"}, set(), {"w71", "w74"}]
    assert len(await recorded(memory)) == 3
    assert await found(user, "My weight") == [("w69", None), ("w71", "w69"), ("w74", "w69")]


async def test_a_fact_said_again_after_it_was_superseded_is_the_present_one(
    memory: MemorySystem,
    user: UserMemory,
) -> None:
    first, between = await user.add(BRISTOL), await user.add(GLASGOW)
    again = await user.add(BRISTOL)
    assert (again.operation, again.supersedes) == ("add", (between.memory_id,))
    assert again.memory_id != first.memory_id
    hits = await user.retrieve("User lives in", memory_types=["long_term"])
    assert (hits[0].memory_id, hits[0].superseded_by) == (again.memory_id, None)
    assert (await user.add(BRISTOL)).memory_id == again.memory_id
    back = await user.add(GLASGOW)
    assert back.operation == "add"
    assert set(back.supersedes) == {first.memory_id, again.memory_id}
    assert await memory.check_replay() == []


async def test_a_superseded_fact_that_is_imported_again_stays_superseded(user: UserMemory) -> None:
    older, newer = await moved(user)
    again = await user.add(BRISTOL, occurred_at="2023-05-01")
    assert (again.operation, again.memory_id) == ("seen", older)
    assert await found(user) == [(newer, None), (older, newer)]


async def test_a_fact_that_is_skipped_has_the_id_of_the_one_that_stands_for_it(
    user: UserMemory,
) -> None:
    """Also where the call that it is in supersedes both."""
    items = [Item(content=text) for text in (BRISTOL, BRISTOL, GLASGOW)]
    first, skipped, newer = await user.add_many(items, on_duplicate="skip")
    assert newer.supersedes == (first.memory_id,)
    assert (skipped.operation, skipped.memory_id) == ("unchanged", first.memory_id)


async def test_an_import_of_older_facts_changes_nothing_newer(user: UserMemory) -> None:
    newer = await user.add(GLASGOW, occurred_at="2025-05-01")
    older = await user.add(BRISTOL, occurred_at="2023-05-01")
    assert (older.supersedes, older.superseded_by) == ((), newer.memory_id)
    assert await found(user, "User lives in Bristol") == [
        (newer.memory_id, None),
        (older.memory_id, newer.memory_id),
    ]


async def test_turns_of_conversations_are_no_facts(memory: MemorySystem, user: UserMemory) -> None:
    await user.add(BRISTOL, role="Ada", session_id="s", occurred_at="2023-05-01")
    await user.add(GLASGOW, role="Ada", session_id="s", occurred_at="2025-05-01")
    await user.add("User lives in Rome now.", occurred_at="2026-05-01")
    assert await recorded(memory) == []


async def test_less_trusted_facts_do_not_supersede_trusted_ones(
    user: UserMemory,
) -> None:
    """A less trusted fact does not speak against a more trusted one."""
    page = user.from_source("https://example.org", "untrusted")
    first = await page.add(BRISTOL, occurred_at="2022-05-01")
    second = await user.add("User lives in Leeds.", occurred_at="2023-05-01")
    assert second.supersedes == (first.memory_id,)
    third = await page.add(GLASGOW, occurred_at="2025-05-01")
    assert third.supersedes == (first.memory_id,)
    assert dict(await found(user))[second.memory_id] is None
    purged = await user.purge("https://example.org")
    assert set(purged.gone["long_term"]) == {first.memory_id, third.memory_id}
    assert purged.changed == {}


async def test_state_and_marks_outlive_a_restart(open_memory: Any) -> None:
    async with open_memory() as memory:
        older, newer = await moved(memory.user("ada"))
    async with open_memory() as memory:
        assert await found(memory.user("ada")) == [(newer, None), (older, newer)]


# --- found


async def test_the_newer_fact_is_found_beside_the_older(
    user: UserMemory,
) -> None:
    """The newer fact is found first, even where only the older is among the best."""
    older = await user.add("My home town is Bristol.", occurred_at="2023-05-01")
    newer = await user.add("My home town is now Glasgow on Clyde.", occurred_at="2025-05-01")
    query = "My home town is Bristol."
    (hit,) = await user.retrieve(query, memory_types=["long_term"], top_k=1)
    assert (hit.memory_id, hit.superseded_by) == (newer.memory_id, None)
    both = await user.retrieve(query, memory_types=["long_term"], top_k=2, explain=True)
    assert [one.memory_id for one in both] == [newer.memory_id, older.memory_id]
    assert both[0].score >= both[1].score
    assert [one.superseded_by for one in both] == [None, newer.memory_id]


async def test_as_of_finds_a_fact_as_it_was(memory: MemorySystem, clock: FakeClock) -> None:
    user = memory.user("ada")
    older = (await user.add(BRISTOL)).memory_id
    clock.move(60)
    then = to_datetime(clock())
    clock.move(60)
    newer = (await user.add(GLASGOW)).memory_id
    assert await found(user) == [(newer, None), (older, newer)]
    assert await found(user, as_of=then) == [(older, None)]
    async with memory.replay("ada", then) as past:
        assert await found(past) == [(older, None)]
    async with memory.replay("ada") as past:
        assert await found(past) == [(newer, None), (older, newer)]


@pytest.mark.parametrize(
    "query",
    [
        "User lives in Bristol in 2023?", "User lives in Bristol before?",
        "User used to lives in Bristol", "previous User lives in Bristol",
    ],
)  # fmt: skip
async def test_questions_about_an_earlier_time_get_its_fact(user: UserMemory, query: str) -> None:
    older, newer = await moved(user)
    assert await found(user, "User lives in Bristol?") == [(newer, None), (older, newer)]
    assert await found(user, query) == [(older, newer), (newer, None)]


async def test_a_filtered_newer_fact_supersedes_nothing(
    user: UserMemory,
) -> None:
    """The older fact stands where the newer one may not be found."""
    older = await user.add(BRISTOL, occurred_at="2023-05-01", metadata={"by": "a"})
    newer = await user.add(GLASGOW, occurred_at="2025-05-01", metadata={"by": "b"})
    marked = (older.memory_id, newer.memory_id)
    assert await found(user, filters={"by": "a"}) == [marked]
    assert await found(user, until="2024-01-01") == [marked]


# --- undone


async def test_restore_says_that_a_superseded_fact_holds(user: UserMemory) -> None:
    older, newer = await moved(user)
    (receipt,) = await user.restore([older])
    assert (receipt.memory_id, receipt.operation) == (older, "restore")
    assert dict(await found(user)) == {older: None, newer: None}
    assert "hold" in (await user.why(older)).steps[-1].says
    assert await user.restore([older]) == []
    third = await user.add("User lives in Rome now.", occurred_at="2026-05-01")
    assert third.supersedes == (newer,)  # the one that was said to hold is left alone


async def test_deleting_the_newer_fact_undoes_its_mark(
    user: UserMemory,
) -> None:
    """Deleting the newer fact undoes its mark, and restoring the fact brings it back."""
    older, newer = await moved(user)
    await user.delete(newer)
    assert await found(user) == [(older, None)]
    await user.restore([newer])
    assert await found(user) == [(newer, None), (older, newer)]


async def test_a_restored_superseded_fact_stays_superseded(user: UserMemory) -> None:
    """A superseded fact that was deleted comes back as it was."""
    older, newer = await moved(user)
    await user.delete(older)
    await user.restore([older])
    assert await found(user) == [(newer, None), (older, newer)]
    await user.restore([older])
    assert dict(await found(user)) == {older: None, newer: None}


async def test_rewording_either_fact_undoes_it_and_compares_again(user: UserMemory) -> None:
    older, newer = await moved(user)
    await user.update(newer, content="User likes Glasgow.")
    assert dict(await found(user)) == {older: None, newer: None}
    receipt = await user.update(newer, content="User lives in Glasgow.")
    assert receipt.supersedes == (older,)
    assert await found(user) == [(newer, None), (older, newer)]
    await user.update(older, content="User's parents live in Bristol.")
    assert dict(await found(user)) == {older: None, newer: None}
    await user.update(older, metadata={"a": 1})
    assert dict(await found(user)) == {older: None, newer: None}


# --- who decides


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_may_decide(open_memory: Any, is_async: bool) -> None:
    asked: list[tuple[str, list[str]]] = []

    def decide(newer: Statement, older: Sequence[Statement]) -> list[str]:
        asked.append((newer.text, [one.text for one in older]))
        return [one.memory_id for one in older if "tea" in one.text] + ["another one"]

    async def decide_later(newer: Statement, older: Sequence[Statement]) -> list[str]:
        return decide(newer, older)

    async with open_memory(supersedes=decide_later if is_async else decide) as memory:
        user = memory.user("ada")
        older = await user.add("likes tea", occurred_at="2023-05-01")
        newer = await user.add("likes coffee", occurred_at="2024-05-01")
        assert asked == [("likes coffee", ["likes tea"])]
        assert newer.supersedes == (older.memory_id,)
        (event,) = await recorded(memory)
        assert event["evidence"] == ("decide_later" if is_async else "decide") + " says so"


async def test_a_failing_function_leaves_the_memory_unchanged(open_memory: Any) -> None:
    def decide(newer: Statement, older: Sequence[Statement]) -> list[str]:
        raise RuntimeError("no idea")

    def decide_badly(newer: Statement, older: Sequence[Statement]) -> Any:
        return 5

    for function in (decide, decide_badly):
        async with open_memory(supersedes=function) as memory:
            user = memory.user("ada")
            older, newer = await moved(user)
            assert {(await user.get(one)).content for one in (older, newer)} == {BRISTOL, GLASGOW}
            assert await recorded(memory) == []


async def test_who_does_not_answer_is_not_waited_for(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(superseding, "DECIDED_WITHIN_S", 0.01)

    async def decide(newer: Statement, older: Sequence[Statement]) -> list[str]:
        await asyncio.sleep(60)
        return []

    async with open_memory(supersedes=decide) as memory:
        older, newer = await moved(memory.user("ada"))
        assert dict(await found(memory.user("ada"))) == {older: None, newer: None}


async def test_what_cannot_decide_is_refused_at_open(open_memory: Any) -> None:
    with pytest.raises(InvalidInputError, match="supersedes="):
        async with open_memory(supersedes="llm"):
            pass


async def test_a_replay_asks_nobody(open_memory: Any) -> None:
    calls: list[str] = []

    def decide(newer: Statement, older: Sequence[Statement]) -> list[str]:
        calls.append(newer.text)
        return [one.memory_id for one in older]

    async with open_memory(supersedes=decide) as memory:
        older, newer = await moved(memory.user("ada"))
        assert len(calls) == 1
    async with open_memory(supersedes=decide) as memory:
        assert await found(memory.user("ada")) == [(newer, None), (older, newer)]
        assert len(calls) == 1
