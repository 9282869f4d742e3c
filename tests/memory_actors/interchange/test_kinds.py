"""Entities, relationships, episodes and documents in files of JSON lines."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.fakes import FakeEmbedder
from support.given import pro

from memory_actors import (
    InvalidInputError,
    Limits,
    MemoryType,
    QuotaExceededError,
)
from memory_actors.interchange import export_jsonl, export_lines, import_jsonl
from memory_actors.interchange.records import FIELDS

pytestmark = pytest.mark.anyio

Line = dict[str, Any]
ADA: Line = {"id": "ada", "memory_type": "entity", "data": {"name": "Ada", "type": "person"}}
ACME: Line = {"id": "acme", "memory_type": "entity", "data": {"name": "Acme", "type": "firm"}}
WORKS = {
    "relation": "works_at",
    "source_id": "ada",
    "target_id": "acme",
    "valid_from": "2020-01-01",
}
JOB: Line = {"id": "job", "memory_type": "entity", "data": WORKS}


def lines(*given: Line) -> list[str]:
    return [json.dumps(line) for line in given]


async def exported(user) -> list[Line]:
    return [msgspec.json.decode(line) async for line in export_lines(user)]


async def fill(user) -> None:
    """Give a user some of all kinds that say more than a text."""
    await user.entities.add_entity(
        "Ada", "person", ["likes tea", "has a dog"], memory_id="ada", pinned=True,
        metadata={"a": [1]}, occurred_at="2019-05-05",
    )  # fmt: skip
    for name in ("Acme", "Initech"):
        await user.entities.add_entity(name, "firm", memory_id=name.lower())
    await user.entities.relate(
        "Ada", "works_at", "Acme", valid_from="2020-01-01", fact="Ada joined Acme",
        metadata={"seen": 1}, pinned=True, memory_id="first-job",
    )  # fmt: skip
    await user.entities.relate("Ada", "works_at", "Initech", valid_from="2022-02-02")
    await user.entities.relate("Acme", "owns", "Initech", valid_from="2018-01-01")
    await user.entities.observe("Ada", "moved to Porto")
    episode = await user.episodes.start(
        "book a flight", agent_id="travel", session_id="s1", metadata={"m": 1}, memory_id="trip"
    )
    await user.episodes.step(episode.memory_id, "search", observation="3 found", outcome="ok")
    await user.episodes.step(episode.memory_id, "pay", error="card refused")
    await user.episodes.finish(episode.memory_id, "no flight", success=False)
    await user.episodes.start("write a letter")
    await user.documents.put(
        "trips", {"to": "Porto", "days": [1, 2.5, None]}, key="t1", pinned=True
    )
    await user.documents.put("notes", {"text": "x"}, metadata={"b": True}, occurred_at="2001-01-01")
    await user.add("a fact")
    await user.short_term.add_message("hello", session_id="s1")
    await user.working.set("goal", {"a": 1})


# --- there and back


async def test_an_export_imports_to_the_same_memories_of_all_kinds(store, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    async with store("one") as one, store("two") as two:
        here, there = one.user("u"), two.user("u")
        await fill(here)
        assert await export_jsonl(here, path) == 13
        assert (await import_jsonl(there, path)).added == 13
        assert await exported(there) == await exported(here)
        for memory_id in ("ada", "acme"):
            same = {"created_at": (await here.entities.get(memory_id)).created_at}
            copied = msgspec.structs.replace(await there.entities.get(memory_id), **same)
            assert copied == await here.entities.get(memory_id)
        assert _plain(await there.episodes.get("trip")) == _plain(await here.episodes.get("trip"))
        assert await there.documents.collections() == {"notes": 1, "trips": 1}
        assert (await there.documents.get("t1", "trips")).pinned
        past = await there.entities.relationships("Ada", as_of="2021-01-01")
        now = await there.entities.relationships("Ada")
        assert ([r.target for r in past], [r.target for r in now]) == (["Acme"], ["Initech"])


def _plain(value: Any) -> dict[str, Any]:
    return {k: v for k, v in msgspec.structs.asdict(value).items() if k != "created_at"}


async def test_what_was_deleted_or_changed_since_stays_so(user, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    await fill(user)
    await export_jsonl(user, path)
    await user.entities.delete("Ada")
    await user.delete("trip")
    await user.documents.delete("t1", "trips")
    before = await exported(user)
    report = await import_jsonl(user, path)
    assert (report.added, await exported(user)) == (0, before)


# --- lines that people write


async def test_a_text_may_name_an_entity_goal_or_document(user, file) -> None:
    path = file(
        *lines(
            {"memory_type": "entity", "content": "Porto"},
            {"memory_type": "entity", "key": "Ada", "content": "likes tea"},
            {"memory_type": "entity", "key": "Ada", "content": "has a dog"},
            {"memory_type": "episodic", "content": "book a flight"},
            {"memory_type": "structured", "key": "k", "content": '{"n": 1}'},
            {"memory_type": "structured", "key": "v", "value": {"n": 2}},
            {"memory_type": "entity",
             "data": {"source": "Ada", "relation": "lives_in", "target": "Porto"}},
        )
    )  # fmt: skip
    assert (await import_jsonl(user, path)).added == 7
    assert (await user.entities.get("Ada")).observations == ("likes tea", "has a dog")
    assert [n.entity.name for n in await user.entities.neighbours("Ada")] == ["Porto"]
    assert [e.goal for e in await user.episodes.recent()] == ["book a flight"]
    assert [d.value["n"] for d in await user.documents.find()] == [1, 2]
    again = await import_jsonl(user, path)
    assert (again.added, again.unchanged) == (0, 7)


# --- into a memory that has some already


async def test_an_equal_entity_is_joined_with_its_relationships(user, file) -> None:
    """An entity of the same name and type is joined, and its relationships follow."""
    told = {**ADA, "data": {**ADA["data"], "observations": ["likes tea"]}, "metadata": {"b": 2}}
    mine = (
        await user.entities.add_entity("ADA", "Person", ["is tall"], metadata={"a": 1})
    ).memory_id
    assert (await import_jsonl(user, file(*lines(told, ACME, JOB)))).added == 3
    ada = await user.entities.get(mine)
    assert (ada.observations, ada.metadata) == (("is tall", "likes tea"), {"a": 1, "b": 2})
    (job,) = await user.entities.relationships(mine)
    assert (job.source_id, job.target_id, job.memory_id) == (mine, "acme", "job")
    assert (await import_jsonl(user, file(*lines(told, ACME, JOB)))).added == 0


async def test_an_import_ends_no_relationship_that_is_there(user, file) -> None:
    await user.entities.add_entity("Ada", "person", memory_id="ada")
    await user.entities.add_entity("Initech", "firm")
    await user.entities.relate("Ada", "works_at", "Initech", valid_from="2015-01-01")
    await import_jsonl(user, file(*lines(ADA, ACME, JOB)))
    jobs = await user.entities.relationships("Ada", relation="works_at")
    assert {job.target for job in jobs} == {"Acme", "Initech"}


# --- what cannot be


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (JOB, "no entity 'acme'"),
        ({"memory_type": "entity", "data": {"name": " "}}, "name is empty"),
        (
            {"memory_type": "entity", "data": {"name": "X", "observations": [""]}},
            "content is empty",
        ),
        (
            {"memory_type": "episodic", "data": {"goal": "g", "steps": [{"action": " "}]}},
            "action is empty",
        ),
        ({"memory_type": "structured", "key": "k", "content": " "}, "empty"),
    ],
)
async def test_a_refused_line_costs_that_line_alone(user, file, line: Line, said: str) -> None:
    """A line that cannot be added is left out and named; the others are added."""
    report = await import_jsonl(user, file(*lines(ADA, line, {"content": "behind"})))
    assert (report.added, report.left_out) == (2, 1)
    (note,) = [one.says for one in report.notes if one.says.startswith("left out: ")]
    assert said in note
    assert "chat.jsonl, line 2)" in note
    assert (await user.entities.get("ada")).name == "Ada"
    assert [one.content for one in await user.list_memories(["long_term"])] == ["behind"]


@pytest.mark.parametrize(
    ("limits", "second"),
    [
        (Limits(entities=1), ACME),
        (Limits(documents=0), {"memory_type": "structured", "content": "x"}),
        (Limits(episodes=0), {"memory_type": "episodic", "content": "x"}),
    ],
)
async def test_what_does_not_fit_is_refused_by_line(
    store, file, limits: Limits, second: Line
) -> None:
    async with store(tiers=pro(limits)) as memory:
        with pytest.raises(QuotaExceededError, match=r"chat\.jsonl, line 2: .*max: "):
            await import_jsonl(memory.user("u"), file(*lines(ADA, second)))


# --- cut off


EPISODE: Line = {
    "id": "e",
    "memory_type": "episodic",
    "data": {
        "goal": "g",
        "status": "done",
        "result": "r",
        "steps": [{"number": n, "action": f"step {n}"} for n in range(1, 4)],
    },
}


async def test_an_episode_comes_whole_or_not_at_all(user, file, embedder: FakeEmbedder) -> None:
    assert (await import_jsonl(user, file(*lines(EPISODE)))).added == 1
    (entry, *others) = await user.history("e")
    assert [entry.event, *(other.event for other in others)] == [
        "episodic.restored", *["episodic.step_added"] * 3, "episodic.finished",
    ]  # fmt: skip
    assert len({other.recorded_at for other in (entry, *others)}) == 1
    assert (await user.retrieve("step 2", memory_types=["episodic"]))[0].memory_id == "e"


@pytest.mark.parametrize("kept", [3, 2])
async def test_an_episode_keeps_its_numbers_and_what_left_its_marks(
    store, tmp_path: Path, kept: int
) -> None:
    path, few = tmp_path / "out.jsonl", pro(Limits(episode_steps=3))
    async with store("one", tiers=few) as one:
        here = one.user("u")
        await here.episodes.start("g", memory_id="e")
        for n in range(1, 7):
            await here.episodes.step("e", f"step {n}", error="oops" if n == 2 else None)
        await export_jsonl(here, path)
        before = await here.episodes.get("e")
    async with store("two", tiers=pro(Limits(episode_steps=kept))) as two:
        there = two.user("u")
        for _ in range(2):
            await import_jsonl(there, path)
        after = await there.episodes.get("e")
        await there.episodes.step("e", "next")
        assert (await there.episodes.get("e")).steps[-1].number == 7
    assert [step.number for step in before.steps] == [1, 2, 6]
    assert before.steps_evicted == 3
    if kept == 3:
        assert _plain(after) == _plain(before)
    else:
        assert [step.number for step in after.steps] == [1, 6]
        assert after.steps_evicted == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"steps_evicted": 1},
        {"steps": [{"number": 2, "action": "x"}]},
        {"steps": [{"number": 2, "action": "x"}, {"number": 1, "action": "y"}]},
        {"steps_evicted": 1, "steps": [{"number": 2, "action": "x"}],
         "evicted": [{"number": 2, "sha256": "00", "snippet": "x"}]},
        {"steps_evicted": 1, "steps": [{"number": 2, "action": "x"}],
         "evicted": [{"number": 1, "sha256": "no", "snippet": "x"}]},
        {"status": "running", "steps": []},
    ],
)  # fmt: skip
async def test_an_episode_that_does_not_add_up_is_refused(memory, file, changes: Line) -> None:
    data = {**EPISODE["data"], **changes}
    with pytest.raises(InvalidInputError, match="line 1"):
        await import_jsonl(memory.user("u"), file(*lines({**EPISODE, "data": data})))


# --- bounds


def test_all_kinds_are_carried() -> None:
    assert set(FIELDS) == set(MemoryType)
