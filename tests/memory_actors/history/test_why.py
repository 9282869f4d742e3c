"""The life of a memory, from its first event to now."""

from typing import Any

import msgspec
import pytest
from support.compacting import SHORT, summaries, with_a_past
from support.fakes import FakeClock
from support.given import pro

from memory_actors import Limits, NotFoundError, UserMemory, Why
from memory_actors.history.why import sentence
from memory_actors.kinds.effects import Effect, KindRegistry, effect
from memory_actors.upkeep.store import event_registry

pytestmark = pytest.mark.anyio


async def lives_in(user: UserMemory, town: str, since: str) -> str:
    receipt = await user.entities.relate("Ann", "lives_in", town, valid_from=since)
    return receipt.memory_id


def effects(why: Why) -> list[tuple[str, str | None]]:
    return [(step.effect, step.command) for step in why.steps]


async def test_a_memory_tells_its_life(memory: Any, clock: FakeClock) -> None:
    user = memory.user("ada", agent_id="scout", session_id="s1")
    await user.add("likes tea", memory_id="tea")
    await user.update("tea", content="likes coffee")
    clock.move(60)
    await memory.user("ada").delete("tea")
    await user.restore(["tea"])
    why = await user.why("tea")
    assert effects(why) == [
        ("added", "AddMemories"), ("changed", "UpdateMemory"), ("deleted", "DeleteMemory"),
        ("restored", "RestoreMemories"),
    ]  # fmt: skip
    assert [step.says for step in why.steps] == [
        "Added by agent scout in session s1.",
        "Changed by agent scout in session s1.",
        "Deleted.",
        "Brought back as it was by agent scout in session s1.",
    ]
    assert [step.position for step in why.steps] == [1, 2, 3, 4]
    assert (why.alive, why.memory_type, why.says) == (True, "long_term", "It is stored.")
    assert (why.steps[0].agent_id, why.steps[2].agent_id) == ("scout", None)
    with pytest.raises(NotFoundError):
        await user.why("coffee")
    msgspec.json.encode(why)


async def test_a_compressed_memory_leads_to_its_summary_and_back(open_memory: Any) -> None:
    async with open_memory(summarizer=SHORT) as memory:
        user = await with_a_past(memory)
        await memory.compact()
        _, login = await summaries(user)
        why = await user.why("fixed0")
        assert (why.alive, why.summary_id) == (False, login.memory_id)
        assert effects(why) == [("added", "AddMemories"), ("compressed", "CompressMemories")]
        assert why.steps[1].says == (
            f"Compressed, with others, into the summary {login.memory_id} by compaction."
        )
        assert why.says.endswith(f"a part of the summary {login.memory_id}.")
        its = await user.why(login.memory_id)
        assert its.originals == tuple(f"fixed{n}" for n in range(12))
        assert its.steps[0].says == "Made as a summary of 12 memories by compaction."
        await user.undo_compaction(login.memory_id)
        why = await user.why("fixed0")
        assert (why.alive, why.summary_id, why.steps[-1].effect) == (True, None, "restored")
        gone = await user.why(login.memory_id)
        assert (gone.alive, gone.steps[-1].effect) == (False, "undone")
        assert gone.says == ("It is not there: taken away, so that its originals could come back.")


async def test_who_made_room_for_whom_is_said(open_memory: Any, clock: FakeClock) -> None:
    limits = pro(Limits(long_term_memories=2, short_term_messages=1, working_keys=1))
    async with open_memory(tiers=limits) as memory:
        user = memory.user("ada")
        for text in ("one", "two", "three"):
            await user.add_with_auto_prune(text, memory_id=text)
        pruned = await user.why("one")
        assert (pruned.steps[-1].effect, pruned.steps[-1].cause) == ("pruned", "quota")
        first = await user.short_term.add_message("hello")
        second = await user.short_term.add_message("again")
        evicted = (await user.why(first.memory_id)).steps[-1]
        assert (evicted.effect, evicted.by) == ("evicted", second.memory_id)
        assert evicted.says == f"Left to make room for {second.memory_id}."
        clock.move(4_000)
        silent = await user.why(second.memory_id)
        assert (silent.alive, silent.says) == (False, "It is not there: its time was up.")
        await user.short_term.add_message("anew", session_id="other")
        expired = (await user.why(second.memory_id)).steps[-1]
        assert expired.says == "Expired: its session was silent for too long."
        key = (await user.working.set("a", 1)).memory_id
        await user.working.set("a", 2)
        assert effects(await user.why(key)) == [("added", "SetKey"), ("changed", "SetKey")]


async def test_relationships_entities_and_episodes_have_lives_too(user: UserMemory) -> None:
    ann = (await user.entities.add_entity("Ann", "person")).memory_id
    for town in ("Bonn", "Rome"):
        await user.entities.add_entity(town, "town")
    bonn = await lives_in(user, "Bonn", since="2020-01-01")
    rome = await lives_in(user, "Rome", since="2021-01-01")
    ended = (await user.why(bonn)).steps[-1]
    assert (ended.effect, ended.by) == ("changed", rome)
    assert ended.says == f"Ended by {rome}, which contradicts it."
    await user.entities.delete("Ann")
    gone = (await user.why(rome)).steps[-1]
    assert (gone.effect, gone.says) == ("deleted", f"Deleted with the entity {ann}.")
    episode = (await user.episodes.start("a goal")).memory_id
    await user.episodes.step(episode, "an action")
    await user.episodes.finish(episode)
    why = await user.why(episode)
    assert [step.says for step in why.steps] == ["Started.", "Got a step.", "Finished."]


def test_an_event_has_its_declared_effect() -> None:
    """An event has the effect that it is declared with, and an unknown one is a change."""

    @KindRegistry().about("atlas.named", Effect.ADDED, others={"closed_ids": Effect.EXPIRED})
    class Named(msgspec.Struct):
        memory_id: str
        closed_ids: tuple[str, ...] = ()

    event = Named("m1", ("m2",))
    assert effect("atlas.named", event, "m1") is Effect.ADDED
    assert effect("atlas.named", event, "m2") is Effect.EXPIRED
    assert effect("atlas.named", None, "m1") is Effect.ADDED, "by its tag, when it was dropped"
    assert effect("atlas.unknown", None, "m1") is Effect.CHANGED


def test_every_tag_has_an_effect_in_words() -> None:
    """Every tag there is has an effect that can be said."""
    for tag in event_registry().tags():
        if not tag.startswith("account."):
            assert effect(tag, object(), "m1") in Effect
    assert callable(sentence)
