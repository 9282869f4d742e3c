"""Forgetting a fact: out of every kind and every file, and never in again by itself."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.canaries import found_in
from support.compacting import LOGIN, LUNCH, some

from eventlog import DiskFull, EventLog
from memory_actors import (
    Conversation,
    ForgottenError,
    HeldError,
    InvalidInputError,
    Item,
    MemorySystem,
    NotFoundError,
    Proposal,
)
from memory_actors.api import forgetting
from memory_actors.interchange import export_jsonl, import_jsonl

pytestmark = pytest.mark.anyio

FACT = "Zacharias resides in Qumbertown"
COMPOUND = f"{FACT} and plays chess."


async def say_everywhere(memory: MemorySystem, fact: str) -> dict[str, str]:
    """Say a fact in every kind; return what was added by kind."""
    user = memory.user("ada", session_id="s")
    said = {
        "long_term": (await user.add(fact, session_id="s")).memory_id,
        "again": (await user.add(f"  {fact.lower()}. ", metadata={"x": 1})).memory_id,
        "compound": (await user.add(f"{fact} and plays chess.")).memory_id,
        "other": (await user.add("Berta plays chess")).memory_id,
        "short_term": (await user.add(fact, "short_term")).memory_id,
        "context": (await user.add(fact, "context", key="People")).memory_id,
        "more": (await user.add(f"Berta knows him. {fact}. So it is.", "context")).memory_id,
    }
    await user.working.set("where", {"note": fact, "n": 1})
    await user.documents.put("people", {"about": fact, "age": 7}, key="z")
    entity = await user.entities.add_entity("Zach", "person", observations=[fact, "tall"])
    other = await user.entities.add_entity("Town", "place")
    relation = await user.entities.relate(
        entity.memory_id, "lives", other.memory_id, fact=f"{fact} and is tall"
    )
    episode = await user.episodes.start("ask him")
    await user.episodes.step(episode.memory_id, "ask", observation=fact)
    await user.episodes.step(episode.memory_id, "leave", observation="it rains")
    updated = await user.add(f"{fact}!", metadata={"v": 1})
    await user.update(updated.memory_id, content="He moved")
    deleted = await user.add(f"{fact}?", metadata={"v": 2})
    await user.delete(deleted.memory_id)
    return said | {
        "entity": entity.memory_id,
        "relationship": relation.memory_id,
        "episode": episode.memory_id,
        "updated": updated.memory_id,
    }


async def test_a_fact_goes_from_every_kind_and_is_refused_by_every_door(
    memory: MemorySystem,
) -> None:
    said = await say_everywhere(memory, FACT)
    user = memory.user("ada", session_id="s")
    would = await user.forget(said["long_term"], dry_run=True)
    assert await user.get(said["long_term"])
    assert await user.forgotten() == []

    done = await user.forget(said["long_term"], reason="he asked")

    assert (would.gone, would.changed, would.kept) == (done.gone, done.changed, done.kept)
    assert set(done.gone["long_term"]) == {said["long_term"], said["again"]}
    assert set(done.changed["long_term"]) == {said["compound"]}
    assert done.gone["short_term"] == (said["short_term"],)
    assert done.gone["context"] == (said["context"],)
    assert done.kept == {"entity": (said["relationship"],)}
    assert done.rewritten >= 10
    assert (await user.get(said["compound"])).content == "Zacharias plays chess."
    assert (await user.get(said["more"])).content == "Berta knows him. So it is."
    assert await user.working.get("where") == {"n": 1}
    (document,) = await user.documents.find("people")
    assert document.value == {"age": 7}
    zach = await user.entities.get("Zach")
    assert zach.observations == ("tall",) or list(zach.observations) == ["tall"]
    episode = await user.episodes.get(said["episode"])
    assert [step.action for step in episode.steps] == ["leave"]
    assert (await user.get(said["updated"])).content == "He moved"
    (stone,) = await user.forgotten()
    assert (stone.digest, stone.reason) == (done.tombstones[0], "he asked")

    for content in (FACT, f"{FACT.upper()}!", COMPOUND):
        with pytest.raises(ForgottenError):
            await user.add(content)
    with pytest.raises(ForgottenError):
        await user.turn(FACT)
    with pytest.raises(ForgottenError):
        await user.add(FACT, "context")
    with pytest.raises(ForgottenError):
        await user.update(said["other"], content=FACT)
    with pytest.raises(ForgottenError):
        await user.restore([said["long_term"]])
    receipts = await user.add_many([Item(content=FACT), Item(content="Berta swims")])
    assert [one.operation for one in receipts] == ["forgotten", "add"]
    await user.unforget(stone.digest)
    assert (await user.add(FACT)).operation == "add"
    with pytest.raises(NotFoundError):
        await user.unforget(stone.digest)


@pytest.mark.owner
@pytest.mark.parametrize("encrypt", [False, True])
async def test_no_file_has_a_byte_of_the_fact_and_a_replay_shows_that_something_was(
    open_memory: Any, tmp_path: Path, encrypt: bool
) -> None:
    said = "Anna likes Xcanary002zq"
    async with open_memory(encrypt=encrypt) as memory:
        added = await memory.user("ada").add(said, metadata={"canary003zq": "canary004zq"})
        await say_everywhere(memory, said)
        await memory.user("ada").update(added.memory_id, content=f"{said} canary005zq")
        await memory.user("bob").add("canoe on the lake")
        await memory.user("ada").retrieve("what")
        before = (await memory.verify()).events
    async with open_memory(encrypt=encrypt) as memory:
        user = memory.user("ada")
        await user.forget(said)
        await user.forget(added.memory_id)
        kept = await user.list_memories(["entity"], limit=9)
        for one in kept:
            await user.forget(one.memory_id)
        report = await memory.verify()
        assert report.ok, report.findings
        assert await memory.consistency() == [] if hasattr(memory, "consistency") else True
        async with memory.replay("ada", as_of=before) as past:
            memories = await past.list_memories(limit=50)
            assert added.memory_id in [one.memory_id for one in memories]
            assert not [one for one in memories if "canary" in one.content]
            assert any(one.content == "[forgotten]" for one in memories)
            await past.retrieve("something")
        assert [hit.content for hit in await memory.user("bob").retrieve("canoe")]
        await user.retrieve("chess")
    assert not found_in(tmp_path)


@pytest.mark.owner
async def test_a_summary_goes_and_its_other_originals_come_back(open_memory: Any) -> None:
    from support.compacting import DAY_S, SHORT, some

    async with open_memory(summarizer=SHORT) as memory:
        user = memory.user("ada")
        ids = [one.memory_id for one in await user.add_many(some("log in to the bank", 7))]
        report = await memory.compact("ada")
        assert report.compressed, DAY_S
        text = "log in to the bank"
        original = (await user.history(ids[0]))[0].data["content"]
        done = await user.forget(ids[0])
        assert ids[0] not in done.came_back, text
        assert set(done.came_back) == set(ids[1:])
        assert original not in [one.content for one in await user.list_memories(limit=50)]


@pytest.mark.owner
async def test_what_was_forgotten_comes_by_no_import_extraction_or_similar_words(
    open_memory: Any, tmp_path: Path
) -> None:
    """An export from before brings all else back; an extractor's proposal is refused and told."""

    class Extractor:
        name = "of the test"

        async def extract(self, _conversation: Conversation) -> list[Proposal]:
            return [Proposal(text=FACT), Proposal(text="Berta sings")]

    file = tmp_path / "old.jsonl"
    async with open_memory(extractor=Extractor()) as memory:
        user = memory.user("ada")
        kept = await say_everywhere(memory, FACT)
        await export_jsonl(user, file)
        await user.forget(FACT)
        report = await import_jsonl(user, file)
        assert sum(note.lines for note in report.notes if "was forgotten" in note.says) >= 5
        said = [one.memory_id async for one in user.export() if FACT in one.content]
        assert said == [kept["relationship"]]

        await user.short_term.add_message("hello", role="user", session_id="talk")
        found = await user.extract("talk")
        assert {(one.came, one.reason) for one in found.facts if one.content is None} == {
            ("refused", "it was forgotten")
        }
        assert "Berta sings" in [one.content for one in await user.list_memories(limit=50)]

        await user.forget((await user.add("the canoe is red")).memory_id, similar=0.5)
        with pytest.raises(ForgottenError):
            await user.add("the canoe is very red")
        receipts = await user.add_many(
            [Item(content="the red canoe is"), Item(content="winter comes")]
        )
        assert [one.operation for one in receipts] == ["forgotten", "add"]
        assert {one.similar for one in await user.forgotten()} == {None, 0.5}

        file.unlink()
        await export_jsonl(user, file)
        eve = memory.user("eve")
        await import_jsonl(eve, file)
        assert sorted(map(str, await eve.forgotten())) == sorted(map(str, await user.forgotten()))
        for content in (FACT, "the canoe is very red"):
            with pytest.raises(ForgottenError):
                await eve.add(content)


async def test_only_the_named_memory_goes_where_that_is_asked_for(user: Any) -> None:
    one = await user.add("she skis", metadata={"n": 1})
    await user.update(one.memory_id, content="she skis well")
    other = await user.add("she skis well", metadata={"n": 2})
    done = await user.forget(one.memory_id, everywhere=False)
    assert done.gone == {"long_term": (one.memory_id,)}
    assert (await user.get(other.memory_id)).content == "she skis well"
    assert [hit.memory_id for hit in await user.retrieve("skis")] == [other.memory_id]
    added, updated, _gone = await user.history(one.memory_id)
    assert added.data["content"] == updated.data["content"] == "[forgotten]"
    assert "metadata" not in added.data
    for name in ("Zach", "Tom"):
        await user.entities.add_entity(name, observations=["is tall", f"{name} sings"])
    await user.documents.put("people", {"name": "Zach"}, key="z")
    done = await user.forget((await user.entities.get("Zach")).memory_id)
    assert (len(done.tombstones), set(done.gone)) == (1, {"entity"})
    assert list((await user.entities.get("Tom")).observations) == ["is tall", "Tom sings"]
    assert (await user.documents.get("z", "people")).value == {"name": "Zach"}
    for bad in ("", " ", "\ud800", 7, "nobody says this"):
        with pytest.raises((InvalidInputError, NotFoundError)):
            await user.forget(bad)
        with pytest.raises((InvalidInputError, NotFoundError)):
            await user.unforget(bad)
    with pytest.raises(InvalidInputError):
        await user.forget(other.memory_id, similar=2)


@pytest.mark.owner
async def test_what_a_failure_has_left_is_forgotten_by_asking_again(
    open_memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        user = memory.user("ada")
        one = await user.add("canary001zq is red")
        with monkeypatch.context() as patch:
            patch.setattr(EventLog, "redact", _full)
            with pytest.raises(DiskFull):
                await user.forget(one.memory_id)
        with pytest.raises(ForgottenError):
            await user.add("canary001zq is red")
        with pytest.raises(NotFoundError):
            await user.get(one.memory_id)
        assert found_in(tmp_path)
        done = await user.forget(one.memory_id)
        assert (done.gone, done.rewritten) == ({}, 1)
        assert len(await user.forgotten()) == 1
    assert not found_in(tmp_path)


async def test_facts_that_are_forgotten_at_once_all_leave_the_log(
    open_memory: Any, tmp_path: Path
) -> None:
    """Each waits for the one before it, by whichever door it came; none has to be repeated."""
    words = [f"canary{n:03}zq is red" for n in range(4)]
    async with open_memory() as memory:
        added = [await memory.user("ada").add(each) for each in words]
        await memory.user("ada").add("the sea is blue")
        asked = [
            (added[0].memory_id, False),
            (words[1], False),
            ("the sea is blue", True),  # stays: a dry run of what is forgotten meanwhile may fail
            (words[3], False),
        ]
        forgets = [memory.user("ada").forget(what, dry_run=dry) for what, dry in asked]
        late = asyncio.create_task(memory.user("ada").forget(words[2]))
        done = await asyncio.gather(*forgets, late)
        assert [one.rewritten > 0 for one in done] == [True, True, False, True, True]
        assert await memory.check_replay() == []
    assert not found_in(tmp_path)


@pytest.mark.owner
async def test_a_summary_of_the_named_memory_goes_with_it(memory: MemorySystem, user: Any) -> None:
    await user.add_many(some(LOGIN, 7))
    await memory.compact("ada")
    done = await user.forget("fixed2", everywhere=False)
    left = {one.memory_id for one in await user.list_memories()}
    assert left == set(done.came_back) == {f"fixed{n}" for n in range(7)} - {"fixed2"}


@pytest.mark.owner
async def test_a_named_memory_that_looks_forgotten_already_goes_with_its_summary(
    memory: MemorySystem,
    user: Any,
) -> None:
    first, *others = said = some(f"[forgotten] {LOGIN}", 7)
    await user.add_many(said)
    await memory.compact("ada")
    done = await user.forget(first.memory_id, everywhere=False)
    left = {one.memory_id for one in await user.list_memories()}
    assert left == set(done.came_back) == {one.memory_id for one in others}


@pytest.mark.owner
async def test_a_hold_that_is_placed_while_memories_go_keeps_their_words_in_the_log(
    open_memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten = forgetting._rewritten

    async def held(*args: Any) -> int:
        await user.hold("case")
        return await rewritten(*args)

    async with open_memory() as memory:
        user = memory.user("ada")
        await user.add("canary000zq is red")
        monkeypatch.setattr(forgetting, "_rewritten", held)
        with pytest.raises(HeldError, match="case"):
            await user.forget("canary000zq is red")
    assert found_in(tmp_path)


@pytest.mark.owner
async def test_the_next_compaction_archives_what_a_failed_rewriting_left_out(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        user = memory.user("ada")
        await user.add_many([*some(LOGIN, 7), *some(LUNCH, 7)])
        await memory.compact("ada")
        assert (await memory.verify()).archived_events == 14
        with monkeypatch.context() as patch:
            patch.setattr(EventLog, "_shrink", _full)
            with pytest.raises(DiskFull):
                await user.forget("fixed2")
        await user.forget("fixed2")
        await memory.compact("ada")
        assert (await memory.verify()).archived_events == 7  # of lunch: logins came back


async def _full(*_: object, **__: object) -> int:
    raise DiskFull("no room")
