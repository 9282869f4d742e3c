"""A past self answers every read as the user did then."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.answers import answers
from support.compacting import SHORT, with_a_past
from support.fakes import SECOND_US, START_US, FakeClock, FakeEmbedder

from eventlog import PayloadErased, to_datetime
from memory_actors import (
    InvalidInputError,
    MemorySystem,
    NotFoundError,
    PayloadDropped,
    ReadOnlyError,
    SystemClosedError,
    UserMemory,
)
from memory_actors.base.streams import stream_of
from memory_actors.history.past_user import state_then
from memory_actors.search.indexes import files
from memory_actors.users import live_user

pytestmark = pytest.mark.anyio


async def position_of(memory: MemorySystem) -> int:
    await memory._log.flush()
    return memory.statistics().log.last_position


async def some_of_everything(memory: MemorySystem) -> list[str]:
    user = memory.user("ada", agent_id="scout", session_id="s1")
    receipts = [
        await user.add("red apple pie", metadata={"a": 1}, session_id="s0", role="ann"),
        await user.add("blue car", metadata={"a": 2}, session_id="s0"),
        await user.add("a green tree", session_id="s0"),
        await user.short_term.add_message("where is my red apple", role="user"),
        await user.short_term.add_message("in the car"),
        await user.entities.add_entity("Ann", "person", ["likes red cars"]),
        await user.entities.add_entity("Bonn", "town"),
        await user.entities.relate("Ann", "lives_in", "Bonn"),
        await user.episodes.start("find an apple"),
        await user.documents.put("default", {"fruit": "apple"}, key="d1"),
        await user.working.set("colour", "red"),
    ]
    await user.episodes.step(receipts[8].memory_id, "look in the tree")
    return [receipt.memory_id for receipt in receipts]


async def change_everything(memory: MemorySystem, ids: list[str]) -> None:
    user = memory.user("ada", agent_id="scout", session_id="s1")
    await user.update(ids[0], content="yellow banana", metadata={"b": 1})
    await user.delete(ids[1])
    await user.update(ids[3], content="where is my banana")
    await user.short_term.add_message("nowhere")
    await user.entities.observe("Ann", "moved away")
    await user.entities.add_entity("Rome", "town")
    await user.entities.relate("Ann", "lives_in", "Rome")
    await user.episodes.finish(ids[8], "there is none")
    await user.documents.put("default", {"fruit": "banana"}, key="d1")
    await user.working.set("colour", "yellow")


async def test_every_read_answers_as_it_did(open_memory: Any, clock: FakeClock) -> None:
    async with open_memory() as memory:
        ids = await some_of_everything(memory)
        user, position = memory.user("ada", session_id="s1"), await position_of(memory)
        then = await answers(user, ids)
        clock.move(10)
        await change_everything(memory, ids)
        assert await answers(user, ids) != then
        async with memory.replay("ada", position, session_id="s1") as past:
            assert await answers(past, ids) == then
            assert past.moment.position == position
    async with open_memory() as memory, memory.replay("ada", position, session_id="s1") as past:
        assert await answers(past, ids) == then, "after a restart, too"


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_session_reads_the_same_after_reopening(open_memory: Any, place: int) -> None:
    """A session reads the same when it was reworded, reopened and went on."""
    texts = ["red apple", "blue car", "green tree"]
    async with open_memory() as memory:
        for number, text in enumerate(texts):
            await memory.user("ada").add(text, memory_id=f"own{number}", session_id="s")
        await memory.user("ada").update(f"own{place}", content="red car and more")
    async with open_memory() as memory:
        user = memory.user("ada")
        await user.add("blue apple", session_id="s")
        await user.delete("own1")
        await user.add("a green car", session_id="s")
        position, then = await position_of(memory), await answers(user, [])
        await user.add("something else")
        async with memory.replay("ada", position) as past:
            assert await answers(past, []) == then


async def reworded(memory: MemorySystem) -> tuple[UserMemory, list[str]]:
    """Return a user who has changed what stands before something else in a session."""
    user = memory.user("ada", session_id="s")
    ids = [(await user.add(f"{colour} apple")).memory_id for colour in ("red", "blue", "green")]
    episode = (await user.episodes.start("find a red apple")).memory_id
    await user.episodes.step(episode, "look in the tree")
    await user.update(ids[0], content="red car")
    await user.update(episode, content="find a blue car")
    return user, [*ids, episode]


async def test_a_session_reads_the_same_after_reindexing(open_memory: Any, tmp_path: Path) -> None:
    """A session reads the same when its index was made anew."""
    async with open_memory() as memory:
        user, ids = await reworded(memory)
        position, then = await position_of(memory), await answers(user, ids)
    assert files.remove_indexes(files.index_path(tmp_path / "memory", stream_of("ada")))
    async with open_memory() as memory:
        user = memory.user("ada", session_id="s")
        assert await answers(user, ids) == then
        async with memory.replay("ada", position, session_id="s") as past:
            assert await answers(past, ids) == then


async def test_a_session_reads_the_same_after_rewording(
    memory: MemorySystem,
) -> None:
    """A session reads the same when it was reworded while it went on."""
    user = memory.user("ada", session_id="s")
    await user.add("red apple", memory_id="first")
    await asyncio.gather(
        user.add("blue car"),
        user.update("first", content="green tree and a red apple in it"),
        user.add("long ago"),
    )
    position, then = await position_of(memory), await answers(user, ["first"])
    async with memory.replay("ada", position, session_id="s") as past:
        assert await answers(past, ["first"]) == then


async def test_a_time_means_what_was_recorded_by_then(
    memory: MemorySystem, user: UserMemory, clock: FakeClock
) -> None:
    for text in ("one", "two", "three"):
        await user.add(text)
        clock.move(60)
    for seconds, said in ((-1, []), (0, ["one"]), (59, ["one"]), (60, ["two", "one"])):
        as_of = to_datetime(START_US + seconds * SECOND_US)
        async with memory.replay("ada", as_of) as past:
            assert [m.content for m in await past.list_memories()] == said
    async with memory.replay("ada", "2023-11-14T22:13:20+00:00") as past:
        assert past.moment.version == 1
    async with memory.replay("ada") as past:
        assert len(await past.list_memories()) == 3
        assert (await past.usage()).at == to_datetime(clock())


async def test_any_position_will_do_and_none_beyond_the_end(memory: MemorySystem) -> None:
    for number in range(6):
        await memory.user("ada" if number % 2 else "bob").add(f"text {number}")
    for position, count in enumerate((0, 0, 1, 1, 2, 2, 3)):
        async with memory.replay("ada", position) as past:
            assert len(await past.list_memories()) == count, position
    for wrong in (7, -1, True, "yesterday", 1.5):
        with pytest.raises(InvalidInputError):
            async with memory.replay("ada", wrong):
                pass
    with pytest.raises(NotFoundError):
        async with memory.replay("nobody"):
            pass


async def test_the_past_takes_no_writes(memory: MemorySystem, embedder: FakeEmbedder) -> None:
    ids = await some_of_everything(memory)
    before, texts = await position_of(memory), len(embedder.texts)
    async with memory.replay("ada", before, session_id="s1") as past:
        writes = (
            lambda: past.add("x"), lambda: past.add_many([]), lambda: past.delete(ids[0]),
            lambda: past.update(ids[0], content="y"), lambda: past.restore([ids[0]]),
            lambda: past.set_tier("free"), lambda: past.working.set("k", 1),
            lambda: past.add("n", "entity"), lambda: past.short_term.add_message("m"),
            lambda: past.documents.put("c", {}), lambda: past.episodes.start("g"),
            lambda: past.delete("?"), lambda: past.update("?", content="y"),
            lambda: past.restore(["?"]), lambda: past.undo_compaction("?"),
            lambda: past.documents.delete("?"), lambda: past.entities.delete("?"),
            lambda: past.entities.relate("?", "knows", "!"), lambda: past.entities.end("?"),
            lambda: past.entities.observe("?", "o"),
            lambda: past.entities.remove_observation("?", "o"),
        )  # fmt: skip
        for write in writes[:1] + writes[2:]:
            with pytest.raises(ReadOnlyError):
                await write()
    with pytest.raises(SystemClosedError):
        await past.list_memories()
    assert await position_of(memory) == before
    assert len(embedder.texts) == texts, "nothing was even embedded for them"


async def test_a_replay_leaves_the_live_user_alone(
    open_memory: Any, embedder: FakeEmbedder
) -> None:
    async with open_memory() as memory:
        await some_of_everything(memory)
        position = await position_of(memory)
    async with open_memory() as memory:
        embedder.failure = AssertionError("vectors are at hand")
        async with memory.replay("ada", position) as past:
            assert len(await past.list_memories(limit=100)) > 5
            assert memory.statistics().runtime.activations == 0
        embedder.failure = None


async def test_the_fold_begins_at_the_nearest_snapshot(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_user, "SNAPSHOT_MIN_EVENTS", 1)
    positions = []
    for number in range(3):
        async with open_memory() as memory:
            await memory.user("ada").add(f"text {number}")
            await memory.user("ada").add(f"and text {number}")
            positions.append(await position_of(memory))
    async with open_memory() as memory:
        read, fold_stream = list[int](), memory._log.fold_stream

        async def noted(stream: str, fold: Any, *rest: Any, **more: Any) -> Any:
            def folded(events: Any, state: Any) -> Any:
                read.extend(event.version for event in events)
                return fold(events, state)

            return await fold_stream(stream, folded, *rest, **more)

        monkeypatch.setattr(memory._log, "fold_stream", noted)
        for position, versions in ((6, []), (5, [5]), (4, []), (3, [1, 2, 3])):
            async with memory.replay("ada", position) as past:
                assert read == versions, position
                assert len(await past.list_memories()) == position
            read.clear()


async def test_originals_of_a_summary_are_there_before_it(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user, position = await with_a_past(memory), 0
        position = await position_of(memory)
        ids = [m.memory_id for m in await user.list_memories(limit=100)]
        then = await answers(user, ids)
        await memory.compact()
        later, summaries = await position_of(memory), await user.list_memories(limit=100)
        compacted = await answers(user, [*ids, *(m.memory_id for m in summaries)])
        await user.delete(summaries[0].memory_id)
        async with memory.replay("ada", position) as past:
            assert await answers(past, ids) == then
        async with memory.replay("ada", later) as past:
            found = await answers(past, [*ids, *(m.memory_id for m in summaries)])
            assert found == compacted


async def test_who_came_back_has_a_past_from_then_on(
    memory: MemorySystem, clock: FakeClock
) -> None:
    await some_of_everything(memory)
    await memory.user("bob").add("of somebody else")
    before = await position_of(memory)
    await memory.erase("ada")
    clock.move(60)
    user = memory.user("ada")
    first = await user.add("a red apple again")
    position, then = await position_of(memory), await answers(user, [first.memory_id])
    await user.add("and more")
    async with memory.replay("ada", position) as past:
        assert await answers(past, [first.memory_id]) == then
        assert past.lost == 0
    async with memory.replay("ada", dropped="mark") as past:
        assert [m.content for m in await past.list_memories()] == [
            "and more", "a red apple again",
        ]  # fmt: skip
        assert past.lost == 0
    for erased in (1, before, to_datetime(START_US)):
        with pytest.raises(NotFoundError, match="erased"):
            async with memory.replay("ada", erased, dropped="mark"):
                pass
    async with memory.replay("ada", 0) as past:
        assert await past.list_memories() == [], "before all of it there was nothing"


async def test_an_erasure_during_a_read_is_said(memory: MemorySystem) -> None:
    """A user who is erased while they are read is said to be erased."""
    await memory.user("ada").add("likes tea")
    services = memory._services
    before = await services.log.head("user:ada")
    await memory.erase("ada")
    with pytest.raises(PayloadErased):
        await state_then(services, "user:ada", before, None, "raise")


async def test_what_retention_dropped_is_said(open_memory: Any, clock: FakeClock) -> None:
    async with open_memory(summarizer=SHORT, archive_retention_days=0) as memory:
        user = await with_a_past(memory)
        position = await position_of(memory)
        count = len(await user.list_memories(limit=100))
        await memory.compact()
        later = await position_of(memory)
        clock.move(1)
        await memory.compact()
        async with memory.replay("ada", later) as past:
            assert len(await past.list_memories()) == len(await user.list_memories())
        with pytest.raises(PayloadDropped):
            async with memory.replay("ada", position) as past:
                await past.list_memories(limit=100)
        async with memory.replay("ada", position, dropped="mark") as past:
            left = await past.list_memories(limit=100)
            assert len(left) + past.lost == count
            assert await past.retrieve("login bug") is not None


async def test_an_erased_users_past_begins_at_their_return(memory, user) -> None:
    """A user who was erased and came back has a past since then."""
    await user.add("before")
    await memory.erase("ada")
    with pytest.raises(NotFoundError):
        async with memory.replay("ada"):
            pass

    await user.add("since", memory_id="m-since")
    came_back = await position_of(memory)
    await user.update("m-since", content="later")

    for as_of, said in ((came_back, "since"), (None, "later")):
        for dropped in ("raise", "mark"):
            async with memory.replay("ada", as_of, dropped=dropped) as past:
                assert [one.content for one in await past.list_memories()] == [said]
                assert [hit.content for hit in await past.retrieve("anything")] == [said]
                assert past.lost == 0
    changed = await memory.diff("ada", came_back, None)
    assert [change.memory_id for change in changed.changes] == ["m-since"]
