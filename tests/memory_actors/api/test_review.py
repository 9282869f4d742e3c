"""Reviews: what has to wait is in no read before somebody approves it."""

from pathlib import Path
from typing import Any

import pytest
from support.canaries import parts
from support.compacting import LOGIN, SHORT, some
from support.fakes import FakeClock
from support.given import pro

from memory_actors import (
    ForgottenError,
    InvalidInputError,
    Item,
    Limits,
    NotFoundError,
    QuotaExceededError,
    UserMemory,
)
from tests.memory_actors.api.test_extracting import Scripted, facts, forget, say, supersede

pytestmark = pytest.mark.anyio

WEB = "https://web.example"
SECRET = "zirconium"  # said by all that waits, and by nothing else


async def adds(user: UserMemory) -> list[str]:
    """Add something of each kind that is reviewed, and return the ids."""
    receipts = [
        await user.add(f"Ada keeps {SECRET} at home", session_id="s"),
        await user.add(f"Ada sells {SECRET}", "entity", key="Ada"),
        await user.add(f"Never mention {SECRET}", "context", key=f"On {SECRET}"),
        *await user.add_many([Item(content=f"{SECRET} is {n}") for n in range(2)]),
    ]
    assert {one.operation for one in receipts} == {"pending"}
    return [one.memory_id for one in receipts]


async def read(memory: Any, user: UserMemory, ids: list[str]) -> str:
    """Return the results of all reads of a user but `pending`."""
    found: list[Any] = [
        await user.retrieve(SECRET, top_k=50, memory_types=["long_term", "entity", "context"]),
        await user.list_memories(limit=500),
        await user.count(),
        [one async for one in user.export()],
        await user.context(SECRET, document="MEMORY.md"),
        await user.context.documents(),
        await user.extractions(),
        [one.data for one_id in ids for one in await user.history(one_id)],
        [one for one_id in ids for one in (await user.why(one_id)).steps],
        [one.data async for one in memory.events("ada")],
        await memory.diff("ada", 0),
    ]
    async with memory.replay("ada") as past:
        found += [await past.list_memories(limit=500), await past.retrieve(SECRET)]
    return repr(found)


async def test_what_is_pending_is_in_no_read(open_memory: Any) -> None:
    async with open_memory(review="all") as memory:
        user = memory.user("ada", agent_id="bot")
        web = user.from_source(WEB, "untrusted")
        ids = await adds(web)
        assert SECRET not in await read(memory, user, ids)
        for one in ids:
            with pytest.raises(NotFoundError):
                await user.get(one)
            with pytest.raises(NotFoundError):
                await user.restore([one])
        waiting = await user.pending()
        assert [one.memory_id for one in waiting] == ids[::-1]
        assert all(SECRET in one.content for one in waiting)
        assert {(one.origins[0].source, one.agent_id) for one in waiting} == {(WEB, "bot")}
        assert len(await user.pending(["entity"], limit=1)) == 1
    async with open_memory() as memory:  # the wait is in the log, not in the settings
        user = memory.user("ada", agent_id="reviewer")
        assert SECRET not in await read(memory, user, ids)
        approved = await user.approve(ids[:3])
        assert [one.operation for one in approved] == ["approve"] * 3
        assert [one.memory_id for one in approved] == ids[:3]
        for one in ids[:3]:
            known = await user.get(one)
            assert (known.origins[0].source, known.agent_id) == (WEB, "bot")
        assert (await user.get(ids[0])).session_id == "s"
        assert {one.memory_id for one in await user.retrieve(SECRET)} == set(ids[:2])
        assert await user.context.render() == f"## On {SECRET}\n\n- Never mention {SECRET}\n"
        await user.reject(ids[3:])
        assert await user.pending() == []
        for again in (user.approve, user.reject):
            with pytest.raises(NotFoundError, match="pending"):
                await again(ids[:1])
        await user.delete(ids[0])
        assert [one.operation for one in await user.restore(ids[:1])] == ["restore"]


async def test_untrusted_words_wait_and_change_nothing_that_is_there(open_memory: Any) -> None:
    async with open_memory(review="untrusted") as memory:
        user = memory.user("ada")
        web = user.from_source(WEB, "untrusted")
        known = await user.add("Ada drinks tea")
        assert (await web.update(known.memory_id, pinned=True)).operation == "update"
        entity = await user.entities.add_entity("Ada", "person", ["drinks tea"])
        await user.entities.add_entity("Leeds", "town")
        entry = await user.context.add("Rules", "be brief")
        for change in (
            web.update(known.memory_id, content="Ada drinks gin"),
            web.update(known.memory_id, metadata={"a": 1}),
            web.update(entity.memory_id, content="drinks gin"),
            web.context.edit(entry.entry_ids[0], "be rude"),
        ):
            with pytest.raises(InvalidInputError, match="needs a review"):
                await change
        assert (await web.context.add("Rules", "be rude")).operation == "pending"
        observed = await web.entities.observe("Ada", "drinks gin")
        related = await web.entities.relate("Ada", "lives_in", "Leeds")
        assert (observed.operation, related.operation) == ("pending", "pending")
        assert (await user.entities.get("Ada")).observations == ("drinks tea",)
        assert await user.entities.relationships("Ada") == []
        (approved, _) = await user.approve([observed.memory_id, related.memory_id])
        assert approved.memory_id == entity.memory_id
        assert (await user.entities.get("Ada")).observations == ("drinks tea", "drinks gin")
        (relationship,) = await user.entities.relationships("Ada")
        assert relationship.memory_id == related.memory_id


async def test_a_duplicate_that_waits_hides_nothing_and_is_one_when_approved(
    open_memory: Any,
) -> None:
    async with open_memory(review="all") as memory:
        user = memory.user("ada")
        first, again = [await user.add("Ada drinks tea") for _ in range(2)]
        assert (await user.add("x", memory_id="own")).operation == "pending"
        assert (await user.add("x", memory_id="own")).operation == "unchanged"
        with pytest.raises(InvalidInputError, match="another memory"):
            await user.add("y", memory_id="own")
        await user.approve([first.memory_id])
        (receipt,) = await user.approve([again.memory_id])
        assert receipt.memory_id == first.memory_id
        assert (await user.get(first.memory_id)).times_seen == 2


async def test_pending_memories_count_until_they_are_rejected_or_expire(
    open_memory: Any, clock: FakeClock
) -> None:
    tiers = pro(Limits(long_term_memories=2))
    async with open_memory(review="all", review_days=1, tiers=tiers) as memory:
        user = memory.user("ada")
        ids = [(await user.add(text)).memory_id for text in ("a", "b")]
        with pytest.raises(QuotaExceededError):
            await user.add("c", auto_prune=True)
        quota = (await user.usage()).kinds["long_term"].quotas[0]
        assert (quota.used, quota.limit) == (2, 2)
        assert (await memory.usage()).counts["long_term"] == 2
        await user.approve(ids[:1])
        assert (await memory.usage()).counts["long_term"] == 2
        clock.move(86_400)
        assert await user.pending() == []
        assert (await memory.usage()).counts["long_term"] == 1
        says = (await user.why(ids[1])).says
        assert says.startswith("It is not there: no longer pending: expired")
        assert await memory.verify()


async def test_facts_that_an_extractor_found_wait_and_replace_when_approved(
    open_memory: Any,
) -> None:
    asked = Scripted(
        [supersede("Ada lives in Leeds", "Ada lives in York"), forget("Ada likes tea")]
    )
    async with open_memory(review="extracted", extractor=asked) as memory:
        user = memory.user("ada", session_id="s")
        older = await user.add("Ada lives in Leeds")
        await user.add("Ada likes tea")
        await say(user, "I moved to York")
        found = await user.extract()
        assert [(one.came, one.content) for one in found.facts] == [
            ("pending", None), ("refused", None)
        ]  # fmt: skip
        assert await facts(user) == ["Ada likes tea", "Ada lives in Leeds"]
        (waiting,) = await user.pending()
        assert waiting.content == "Ada lives in York"
        (receipt,) = await user.approve([waiting.memory_id])
        assert receipt.supersedes == (older.memory_id,)
        undone = await user.undo(found.extraction_id)
        assert undone.gone == (waiting.memory_id,)
        asked.answers = [[supersede("Ada lives in Leeds", "Ada lives in Bath")]]
        await say(user, "I moved to Bath")
        again = await user.extract()
        assert len(await user.pending()) == 1
        await user.undo(again.extraction_id)
        assert await user.pending() == []


async def test_approved_memories_are_compacted_and_pending_ones_are_not(open_memory: Any) -> None:
    async with open_memory(review="all", summarizer=SHORT) as memory:
        user = memory.user("ada")
        await user.add_many(some(LOGIN, 13))
        (last, *others) = [one.memory_id for one in await user.pending()]
        await user.approve(others)
        await memory.compact()
        (summary,) = await user.list_memories()
        assert {one.memory_id for one in await user.expand(summary.memory_id)} == set(others)
        assert (await user.why(others[0])).memory_type == "long_term"
        assert [one.memory_id for one in await user.pending()] == [last]
        assert len(await user.undo_compaction(summary.memory_id)) == len(others)


async def test_what_was_rejected_or_forgotten_does_not_come_back(open_memory: Any) -> None:
    async with open_memory() as memory:
        deleted = (await memory.user("ada").add("Ada drinks gin")).memory_id
        await memory.user("ada").delete(deleted)
    async with open_memory(review="all") as memory:
        user = memory.user("ada")
        ids = [(await user.add(text)).memory_id for text in ("Ada drinks gin", "Ada smokes")]
        assert (await user.why(ids[0])).says == "It is not there: added as pending."
        await user.reject(ids[:1])
        with pytest.raises(ForgottenError):
            await user.add("ada drinks gin.")
        assert [one.reason for one in await user.forgotten()] == ["rejected"]
        with pytest.raises(ForgottenError):
            await user.entities.add_entity("Ada", observations=["Ada drinks gin"])
        await user.forget("Ada smokes")
        assert await user.pending() == []
        with pytest.raises(ForgottenError):
            await user.restore([deleted])
        await user.unforget("Ada drinks gin")
        assert (await user.add("Ada drinks gin")).operation == "pending"


async def test_a_purge_takes_out_what_is_pending(open_memory: Any) -> None:
    async with open_memory(review="untrusted") as memory:
        user = memory.user("ada")
        waits = await user.from_source(WEB, "untrusted").add("Ada drinks gin")
        for dry_run in (True, False):
            assert len(await user.pending()) == 1
            purged = await user.purge(WEB, dry_run=dry_run)
            assert purged.gone == {"long_term": (waits.memory_id,)}
        assert await user.pending() == []


@pytest.mark.parametrize("verdict", ["pending", "approve", "reject"])
async def test_forgetting_by_id_takes_the_words_of_a_reviewed_memory_out_of_all_files(
    open_memory: Any, tmp_path: Path, verdict: str
) -> None:
    async with open_memory(review="all") as memory:
        user, section = memory.user("ada"), "Rules" if verdict == "approve" else f"On {SECRET}"
        for said in (
            await user.add(f"Ada keeps {SECRET}", metadata={"label": SECRET}),
            await user.add(f"Ada sells {SECRET}", "entity", key="Ada"),
            await user.add(f"Never mention {SECRET}", "context", key=section),
        ):
            if verdict != "pending":
                await getattr(user, verdict)([said.memory_id])
            assert (await user.forget(said.memory_id)).rewritten
        assert (await memory.verify()).ok
        assert (await user.pending(), await user.retrieve(SECRET)) == ([], [])
        async with memory.replay("ada", 1) as past:  # "Ada keeps" was pending then
            assert [one.content for one in await past.pending()] == ["[forgotten]"]
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(SECRET.encode() in part for file in files for part in parts(file))
