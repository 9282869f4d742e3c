"""Summaries in the place of episodes: what is decided, what a fold makes of it, what one says."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from eventlog import Dropped
from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import episodic
from memory_actors.kinds.episodic import (
    AddEpisodeSummary,
    AddStep,
    CompressEpisodes,
    FinishEpisode,
    RestoreEpisodes,
    StartEpisode,
    UndoEpisodeCompaction,
    UpdateEpisode,
)
from memory_actors.kinds.episodic.events import (
    EpisodeCompactionUndone,
    EpisodeDeleted,
    EpisodeFinished,
    EpisodeRestored,
    EpisodesCompressed,
    EpisodesPruned,
    EpisodeStarted,
    EpisodeSummaryAdded,
    EpisodeUpdated,
    StepAdded,
)
from memory_actors.kinds.episodic.texts import TOLD_CHARACTERS_MAX
from memory_actors.kinds.kind import is_summary
from memory_actors.kinds.passages import Passage, label
from memory_actors.kinds.summaries import passages_of

TEXT = "[Summary of 3 memories from 1970-01-01 to 1970-01-01]: Tea, three times."


def started(name: str, *, agent: str = "a", at: int = 0, pinned: bool = False) -> EpisodeStarted:
    return EpisodeStarted(
        memory_id=name, agent_id=agent, goal=f"goal {name}", size_bytes=10, digest=name.encode(),
        occurred_at_us=at, pinned=pinned,
    )  # fmt: skip


def stepped(name: str, number: int = 1, **said: Any) -> StepAdded:
    return StepAdded(
        memory_id=name, number=number, action=f"act {number}", size_bytes=5, digest=b"d%d" % number,
        sha256=b"h", **said,
    )  # fmt: skip


def finished(name: str, *, failed: bool = False) -> EpisodeFinished:
    return EpisodeFinished(
        memory_id=name, failed=failed, result="over", size_bytes=4, digest=b"over"
    )


def whole(name: str, *, failed: bool = False, **how: Any) -> list[Any]:
    return [started(name, **how), stepped(name), finished(name, failed=failed)]


ABC = [*whole("a", at=1), *whole("b", at=5), *whole("c", at=9)]
AS_READ = (("a", 1), ("b", 4), ("c", 7))


def fields(*ids: str, size: int = 12) -> dict[str, Any]:
    return {
        "memory_id": "sum", "content": TEXT, "size_bytes": size, "digest": b"sum",
        "passages": passages_of(TEXT), "occurred_at_us": 9, "compressed_from_ids": ids,
        "original_count": len(ids), "time_range_start_us": 1, "time_range_end_us": 9,
        "compression_method": "fake", "session_ids": ("s",), "bytes_before": 19 * len(ids),
        "bytes_after": size,
    }  # fmt: skip


def compressed(*ids: str, agent: str = "a", size: int = 12) -> EpisodesCompressed:
    return EpisodesCompressed(**fields(*ids, size=size), agent_id=agent)


def compress(*originals: tuple[str, int], agent: str = "a", size: int = 12) -> CompressEpisodes:
    summary = compressed(*(name for name, _ in originals), agent=agent, size=size)
    return CompressEpisodes(now_us=9, summary=summary, originals=originals)


def given(*events: Any, **limits: int) -> Given:
    return Given(episodic.KIND, *events, limits=Limits(**limits))


def past_of(*events: Any) -> dict[str, list[Any]]:
    """Return what the log knows of each episode."""
    about: dict[str, list[Any]] = {}
    for version, event in enumerate(events, start=1):
        for key in episodic.KIND.registry.keys(event):
            about.setdefault(key, []).append(recorded(event, version))
    return about


def undo(*events: Any) -> UndoEpisodeCompaction:
    return UndoEpisodeCompaction(
        now_us=9, memory_id="sum", memory_ids=("a", "b", "c"), past=past_of(*events)
    )


def restore(*names: str, of: list[Any]) -> RestoreEpisodes:
    return RestoreEpisodes(now_us=9, memory_ids=names, past=past_of(*of))


def test_a_summary_is_not_restored_beside_its_originals() -> None:
    """A summary does not come back beside all of its originals."""
    events = [*ABC, compressed("a", "b", "c"), EpisodeDeleted(memory_id="sum")]
    for alive in (["a", "b", "c"], ["a", "b"]):
        back = given(*events).when(restore(*alive, of=events))
        together = restore("sum", *{"a", "b", "c"}.difference(alive), of=[*events, *back])
        with pytest.raises(InvalidInputError, match="its originals live"):
            given(*events, *back).when(together)
    back = given(*events).when(restore("a", of=events))
    assert given(*events, *back).when(restore("sum", of=[*events, *back]))


# --- compress


def test_one_event_replaces_a_cluster() -> None:
    """A cluster is replaced by one event about all of it."""
    assert given(*ABC).when(compress(*AS_READ)) == [compressed("a", "b", "c")]
    assert episodic.KIND.registry.keys(compressed("a", "b", "c")) == ("sum", "a", "b", "c")


@pytest.mark.parametrize(
    "meanwhile",
    [
        [*ABC[:6], *whole("c", pinned=True)],
        [*ABC[:6], started("c"), stepped("c")],
        [*ABC, EpisodeDeleted(memory_id="b")],
        [*ABC, EpisodeUpdated(memory_id="b", content="x", size_bytes=1, digest=b"x")],
        [*ABC[:6], *whole("c", agent="b")],
        [*ABC, compressed("a", "b", "c")],
        [],
    ],
    ids=["pinned", "running", "deleted", "updated", "another's", "compressed", "never there"],
)
def test_what_changed_since_it_was_read_is_left_alone(meanwhile: list[Any]) -> None:
    assert given(*meanwhile).when(compress(*AS_READ)) == []


def test_summaries_and_restored_originals_are_not_compressed() -> None:
    """Neither a summary nor an original that came out of one is compressed."""
    state = fold(episodic.KIND, [*ABC, compressed("a", "b")])
    back = EpisodeRestored(**msgspec.structs.asdict(started("r")), created_at_us=1, keep=True)
    kept = episodic.KIND.fold(state, [recorded(back, 11), recorded(finished("r"), 12)])
    rows = {row.memory_id: episodic.KIND.compressible(row) for row in episodic.KIND.rows(kept)}
    assert rows == {"sum": False, "r": False, "c": True}


def test_a_summary_of_failures_alone_is_one() -> None:
    rows = [
        episodic.KIND.find(fold(episodic.KIND, whole("a", failed=failed)), "a") for failed in (1, 0)
    ]
    made = fields("a", "b")
    assert episodic.KIND.compressed(rows[:1] * 2, made) == EpisodesCompressed(
        **made, agent_id="a", failed=True
    )
    assert not episodic.KIND.compressed(rows, made).failed


def test_a_summary_must_fit_the_quota() -> None:
    """A summary may not take more than there is room for."""
    with pytest.raises(QuotaExceededError):
        given(*ABC, episodic_bytes=58).when(compress(*AS_READ, size=59))
    assert len(given(*ABC, episodic_bytes=58).when(compress(*AS_READ, size=58))) == 1


def test_a_summary_is_one_episode_of_the_agent() -> None:
    """The originals go, and the summary is one episode of the agent."""
    state = fold(episodic.KIND, [*ABC, *whole("d", agent="b"), compressed("a", "b", "c")])
    assert {agent: sorted(ids) for agent, ids in state.held.groups.items()} == {
        "a": ["sum"],
        "b": ["d"],
    }
    tally = episodic.KIND.tally(state)
    assert (tally.count, tally.size_bytes) == (2, 31)
    assert (tally.summaries, tally.originals) == (1, 3)
    assert (tally.summaries_bytes_before, tally.summaries_bytes_after) == (57, 12)
    assert [row.memory_id for row in episodic.KIND.summaries(state)] == ["sum"]
    gone = episodic.KIND.fold(state, [recorded(EpisodeDeleted(memory_id="sum"), 14)])
    assert episodic.KIND.tally(gone).summaries == episodic.KIND.tally(gone).originals == 0


def test_a_dump_loads_back_to_the_same_state() -> None:
    state = fold(episodic.KIND, [*ABC, *whole("d"), compressed("a", "b", "c")])
    assert episodic.KIND.load(episodic.KIND.dump(state)) == state


def test_a_summary_takes_metadata_only() -> None:
    """A summary may get metadata, but no words and no steps."""
    there = given(*ABC, compressed("a", "b", "c"))
    metadata = UpdateEpisode(now_us=9, memory_id="sum", metadata={"k": 1})
    assert there.when(metadata) == [EpisodeUpdated(memory_id="sum", metadata={"k": 1})]
    with pytest.raises(InvalidInputError, match="undo the compaction, or delete"):
        there.when(UpdateEpisode(now_us=9, memory_id="sum", content="x", digest=b"x", size_bytes=1))
    for command in (
        AddStep(
            now_us=9,
            step=StepAdded(
                memory_id="sum", number=0, action="x", size_bytes=1, digest=b"x", sha256=b"x"
            ),
        ),
        FinishEpisode(now_us=9, end=EpisodeFinished(memory_id="sum", failed=False)),
    ):
        with pytest.raises(InvalidInputError, match="is finished"):
            there.when(command)


def start_of(name: str, goal: str, digest: bytes, **asked: Any) -> StartEpisode:
    episode = EpisodeStarted(
        memory_id=name, agent_id="a", goal=goal, size_bytes=1, digest=digest, occurred_at_us=9
    )
    return StartEpisode(now_us=9, episode=episode, **asked)


def test_a_summary_leaves_a_full_agent_too() -> None:
    """A summary leaves a full agent like any episode that ended."""
    there = given(*ABC, compressed("a", "b"), episodes=2)
    start = start_of("n", "g", b"g")
    (event,) = there.when(start)
    assert event.evicted_ids == ("c",), "as old as the last of its originals, and later in the log"
    (event,) = given(compressed("a", "b"), *ABC[6:], episodes=2).when(start)
    assert event.evicted_ids == ("sum",)


# --- undo


def test_undoing_brings_back_episodes_with_their_steps_and_results() -> None:
    events = [*ABC, compressed("a", "b", "c")]
    undone, *came = given(*events).when(undo(*events))
    assert undone == EpisodeCompactionUndone(memory_id="sum")
    state = fold(episodic.KIND, [*events, undone, *came])
    before = fold(episodic.KIND, ABC)
    for name in ("a", "b", "c"):
        row, was = episodic.KIND.find(state, name), episodic.KIND.find(before, name)
        assert (row.status, row.size_bytes, row.created_at_us) == (
            was.status, was.size_bytes, was.created_at_us,
        )  # fmt: skip
        assert [step.digest for step in row.steps] == [step.digest for step in was.steps]
        assert row.keep
        assert not episodic.KIND.compressible(row)
    assert episodic.KIND.find(state, "sum") is None


def test_what_came_back_is_kept_even_after_it_went_again() -> None:
    events = [*ABC, compressed("a", "b", "c")]
    events += given(*events).when(undo(*events))
    events += [EpisodeDeleted(memory_id="a")]
    (first, *_) = given(*events).when(restore("a", of=events))
    assert first.keep


def test_an_original_that_lives_is_left_as_it_is() -> None:
    events = [*ABC, compressed("a", "b", "c")]
    events += given(*events).when(restore("b", of=events))
    came = given(*events).when(undo(*events))
    assert {event.memory_id for event in came} == {"sum", "a", "c"}


def test_undoing_beyond_the_quota_does_nothing() -> None:
    events = [*ABC, compressed("a", "b", "c"), *whole("d")]
    for limits in ({"episodes": 3}, {"episodic_bytes": 75}):
        with pytest.raises(QuotaExceededError):
            given(*events, **limits).when(undo(*events))
    assert given(*events, episodes=4, episodic_bytes=76).when(undo(*events))


def test_only_a_summary_can_be_undone() -> None:
    for events in ([], ABC, whole("sum")):
        with pytest.raises(NotFoundError):
            given(*events).when(undo(*events))


@pytest.mark.parametrize("lost", [0, 1, 2], ids=["goal", "step", "result"])
def test_partly_dropped_originals_cannot_be_restored(lost: int) -> None:
    """An episode that retention dropped in part cannot come back, and the error says so."""
    events = [*ABC, compressed("a", "b", "c")]
    command = undo(*events)
    past = list(command.past["b"])
    past[lost] = msgspec.structs.replace(past[lost], data=Dropped(since_us=0))
    command = msgspec.structs.replace(command, past={**command.past, "b": past})
    with pytest.raises(NotFoundError, match=r"'b' cannot come back: .* 1970-01-01"):
        given(*events).when(command)


def test_what_came_back_before_it_was_dropped_comes_back_again() -> None:
    events = [*ABC, compressed("a", "b", "c")]
    events += given(*events).when(restore("b", of=events))
    events += [EpisodeDeleted(memory_id="b")]
    past = past_of(*events)["b"]
    gone = [msgspec.structs.replace(one, data=Dropped(since_us=0)) for one in past[:3]]
    command = RestoreEpisodes(now_us=9, memory_ids=("b",), past={"b": [*gone, *past[3:]]})
    began, step, end = given(*events).when(command)
    assert (began.goal, began.keep, step.action, end.result) == ("goal b", True, "act 1", "over")


# --- restore, add


def test_a_deleted_summary_comes_back_as_a_summary() -> None:
    events = [
        *ABC,
        compressed("a", "b", "c"),
        EpisodeUpdated(memory_id="sum", metadata={"k": 1}),
        EpisodesPruned(memory_ids=("sum",), cause="quota"),
    ]
    (event,) = given(*events).when(restore("sum", of=events))
    assert isinstance(event, EpisodeSummaryAdded)
    assert (event.agent_id, event.compressed_from_ids) == ("a", ("a", "b", "c"))
    assert (event.metadata, event.created_at_us) == ({"k": 1}, 1_010)
    state = fold(episodic.KIND, [*events, event])
    assert list(state.held.rows) == ["sum"], "its originals stay where they are"
    assert episodic.KIND.tally(state).originals == 3


def test_a_summary_of_another_store_is_added_once() -> None:
    summary = EpisodeSummaryAdded(**fields("a", "b", "c"), agent_id="a")
    command = AddEpisodeSummary(now_us=9, summary=summary)
    assert given().when(command) == [summary]
    assert given(summary).when(command) == []
    used = msgspec.structs.replace(command, used={"sum": compressed("a", "b", "c")})
    assert given().when(used) == []
    with pytest.raises(InvalidInputError, match="another memory"):
        given(started("sum")).when(command)
    with pytest.raises(QuotaExceededError):
        given(*whole("x"), episodes=1).when(command)


def test_no_episode_is_started_under_the_id_of_a_summary() -> None:
    summary = compressed("a", "b", "c")
    start = start_of("sum", TEXT, b"sum", used={"sum": summary})
    with pytest.raises(InvalidInputError, match="another memory"):
        given(*ABC, summary).when(start)


def test_an_id_whose_texts_are_gone_is_not_used_again() -> None:
    start = start_of("a", "new", b"new", used={"a": Dropped(since_us=1)})
    assert given().when(start) == []


# --- reads


def test_a_summary_reads_as_an_episode_without_steps() -> None:
    event = compressed("a", "b", "c")
    row = episodic.KIND.find(fold(episodic.KIND, [*ABC, event]), "sum")
    events = {10: recorded(event, 10)}
    assert is_summary(row)
    assert episodic.KIND.content(row, events) == TEXT
    data = episodic.KIND.data(row, events)
    assert (data["agent_id"], data["goal"], data["status"]) == ("a", TEXT, "done")
    assert (data["steps"], data["result"], data["original_count"]) == ([], None, 3)
    assert data["compressed_from_ids"] == ("a", "b", "c")
    assert episodic.KIND.sources(row) == [10]
    (passage,) = episodic.KIND.passages(row)
    assert passage == Passage(label(10), event.passages[0].digest)
    assert episodic.KIND.passage_text(row, passage.label, events) == "Tea, three times."


def told_of(*events: Any) -> str:
    row = fold(episodic.KIND, events).held.rows["a"]
    return episodic.KIND.told(
        row, {n: recorded(event, n) for n, event in enumerate(events, start=1)}
    )


def test_a_summariser_is_told_goal_steps_errors_and_result() -> None:
    events = [
        started("a"),
        stepped("a", 1, outcome="went well"),
        stepped("a", 2, error="broke"),
        finished("a", failed=True),
    ]
    assert told_of(*events).splitlines() == [
        "Goal: goal a", "1. act 1 -> went well", "2. act 2 -> error: broke",
        "Result (failed): over",
    ]  # fmt: skip


def test_of_a_long_episode_errors_are_told_before_other_steps() -> None:
    steps = [
        stepped("a", n, observation="x" * 600, outcome="y" * 600, error="boom" if n < 3 else None)
        for n in range(1, 40)
    ]
    said = told_of(started("a"), *steps, finished("a"))
    lines = said.splitlines()
    assert len(said) <= TOLD_CHARACTERS_MAX + len(lines)
    assert all(line.endswith("… -> error: boom") for line in lines[1:3])
    numbers = [int(line.split(".")[0]) for line in lines[1:-1]]
    assert numbers == [1, 2, *range(39 - len(numbers) + 3, 40)]
    assert (lines[0], lines[-1]) == ("Goal: goal a", "Result: over")


# --- a fold without what retention dropped


def test_the_state_is_the_same_without_the_originals_own_events() -> None:
    evicting = msgspec.structs.replace(started("e"), evicted_ids=("a",))
    events = [
        *whole("a"),
        evicting,
        stepped("e"),
        finished("e"),
        EpisodeUpdated(memory_id="e", content="x", size_bytes=1, digest=b"x"),
        *whole("b"),
        compressed("e", "b"),
        *whole("d"),
    ]
    assert [episodic.KIND.is_own(event) for event in (evicting, *whole("b"), compressed("b"))] == [
        False, True, True, True, False,
    ]  # fmt: skip
    log = [recorded(event, version) for version, event in enumerate(events, start=1)]
    states = fold(episodic.KIND, events)
    for gone in ({5}, {6}, {5, 6, 7}, {8}, {9, 10}, {5, 6, 7, 8, 9, 10}):
        left = [entry for entry in log if entry.version not in gone]
        assert episodic.KIND.fold(episodic.KIND.initial, left) == states
