"""Episodic memory: what its commands decide, and what an episode says."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import MIB, Limits
from memory_actors.kinds import episodic
from memory_actors.kinds.episodic import (
    AddStep,
    DeleteEpisode,
    FinishEpisode,
    PutEpisode,
    RestoreEpisodes,
    StartEpisode,
    UpdateEpisode,
)
from memory_actors.kinds.episodic.events import (
    EpisodeDeleted,
    EpisodeFinished,
    EpisodeRestored,
    EpisodesPruned,
    EpisodeStarted,
    EpisodeUpdated,
    StepAdded,
    StepMarker,
    StepTexts,
)
from memory_actors.kinds.episodic.state import MARKERS_MAX
from memory_actors.kinds.kind import Tally
from memory_actors.kinds.passages import index_of, version_of


def started(
    name: str, *, agent: str = "a", at: int = 0, size: int = 10, pinned: bool = False,
    evicted: tuple[str, ...] = (),
) -> EpisodeStarted:  # fmt: skip
    return EpisodeStarted(
        memory_id=name, agent_id=agent, goal=f"goal {name}", size_bytes=size,
        digest=name.encode(), occurred_at_us=at, pinned=pinned, evicted_ids=evicted,
    )  # fmt: skip


def stepped(
    name: str, number: int, *, size: int = 10, error: str | None = None, out: tuple[int, ...] = ()
) -> StepAdded:
    return StepAdded(
        memory_id=name, number=number, action=f"act {number}", size_bytes=size,
        digest=b"d%d" % number, sha256=b"h%d" % number, error=error,
        evicted=tuple(StepMarker(gone, b"h%d" % gone, f"act {gone}") for gone in out),
    )  # fmt: skip


def finished(name: str, *, failed: bool = False, size: int = 10) -> EpisodeFinished:
    return EpisodeFinished(
        memory_id=name, failed=failed, result=f"result {name}", size_bytes=size, digest=b"r"
    )


def whole(name: str, *, failed: bool = False, **how: Any) -> list[Any]:
    return [started(name, **how), finished(name, failed=failed)]


def start(name: str, *, agent: str = "a", size: int = 10, **how: Any) -> StartEpisode:
    asked = {one: how.pop(one) for one in ("auto_prune", "own_ids", "used") if one in how}
    episode = EpisodeStarted(
        memory_id=name, agent_id=agent, goal=f"goal {name}", size_bytes=size,
        digest=name.encode(), occurred_at_us=0, **how,
    )  # fmt: skip
    return StartEpisode(now_us=1, episode=episode, **asked)


def step(name: str, number: int, *, size: int = 10, error: str | None = None) -> AddStep:
    taken = StepAdded(
        memory_id=name, number=0, action=f"act {number}", size_bytes=size,
        digest=b"d%d" % number, sha256=b"h%d" % number, error=error,
    )  # fmt: skip
    return AddStep(now_us=1, step=taken)


def finish(name: str, *, failed: bool = False, size: int = 10) -> FinishEpisode:
    end = EpisodeFinished(
        memory_id=name, failed=failed, result=f"result {name}", size_bytes=size, digest=b"r"
    )
    return FinishEpisode(now_us=1, end=end)


def given(*events: Any, **limits: Any) -> Given:
    return Given(episodic.KIND, *events, limits=Limits(**limits))


def restore(events: list[Any], *names: str) -> RestoreEpisodes:
    """Return the command with the past that the log would find under each id."""
    log = [recorded(event, version) for version, event in enumerate(events, start=1)]
    past = {
        name: [entry for entry in log if name in episodic.KIND.registry.keys(entry.data)]
        for name in names
    }
    return RestoreEpisodes(now_us=1, memory_ids=names, past=past)


def kept(state: Any, name: str) -> list[int]:
    return [step.number for step in episodic.KIND.find(state, name).steps]


# --- start


def test_an_episode_that_starts_is_one_event() -> None:
    assert given().when(start("e")) == [started("e")]


def test_an_episode_carries_its_session_metadata_and_pin() -> None:
    (event,) = given().when(start("e", session_id="s", metadata={"k": 1}, pinned=True))
    row = episodic.KIND.find(fold(episodic.KIND, [event]), "e")
    assert (row.session_id, row.metadata, row.pinned) == ("s", {"k": 1}, True)
    assert (row.agent_id, row.status, row.created_at_us) == ("a", "running", 1_001)


def test_starting_an_episode_again_is_satisfied() -> None:
    """Starting the same episode again is satisfied, even when it is gone."""
    assert given(started("e")).when(start("e")) == []
    again = start("e", own_ids=("e",), used={"e": started("e")})
    assert given(started("e"), EpisodeDeleted(memory_id="e")).when(again) == []


@pytest.mark.parametrize("other", [{"agent_id": "b"}, {"digest": b"f"}])
def test_an_id_that_stands_for_another_episode_is_refused(other: dict[str, Any]) -> None:
    was = msgspec.structs.replace(started("e"), **other)
    with pytest.raises(InvalidInputError, match="stands for another"):
        given(was).when(start("e"))
    with pytest.raises(InvalidInputError, match="stands for another"):
        given().when(start("e", own_ids=("e",), used={"e": was}))


def test_an_id_of_another_kind_is_refused() -> None:
    """An id that stands for another kind of memory is refused."""
    with pytest.raises(InvalidInputError, match="stands for another"):
        given().when(start("e", own_ids=("e",), used={"e": stepped("e", 1)}))


# --- the limit of an agent's episodes


def test_at_the_limit_the_oldest_finished_episode_leaves_by_itself() -> None:
    past = [*whole("late", at=9), *whole("early", at=1), started("runs", at=0)]
    assert given(*past, episodes=3).when(start("x")) == [started("x", evicted=("early",))]


def test_an_episode_that_left_finds_the_event_that_names_it() -> None:
    assert episodic.KIND.registry.keys(started("x", evicted=("early",))) == ("x", "early")


def test_oldest_is_by_time_then_by_arrival() -> None:
    """Oldest is by the time it was true, then by arrival."""
    past = [*whole("first", at=1), *whole("second", at=1)]
    assert given(*past, episodes=2).when(start("x")) == [started("x", evicted=("first",))]


def test_failed_episodes_leave_after_those_that_succeeded() -> None:
    past = [*whole("failed", failed=True, at=0), *whole("done", at=9)]
    assert given(*past, episodes=2).when(start("x")) == [started("x", evicted=("done",))]
    past = [*whole("failed", failed=True, at=5), started("runs", at=0)]
    assert given(*past, episodes=2).when(start("x")) == [started("x", evicted=("failed",))]


def test_the_limit_is_each_agents_own() -> None:
    past = [*whole("e", agent="a"), *whole("f", agent="b")]
    assert given(*past, episodes=2).when(start("x")) == [started("x")]
    assert given(*past, episodes=1).when(start("x", agent="b")) == [
        started("x", agent="b", evicted=("f",))
    ]


def test_when_all_are_running_a_start_is_refused_with_advice() -> None:
    with pytest.raises(QuotaExceededError) as refused:
        given(started("e"), started("f"), episodes=2).when(start("x"))
    assert str(refused.value) == (
        "User has 2 episodic episodes of agent 'a' (max: 2). "
        "Delete old memories, or raise episodes in Settings.tiers."
    )
    assert (refused.value.kind, refused.value.used, refused.value.limit) == ("episodic", 2, 2)


def test_with_leave_the_oldest_running_episode_is_pruned() -> None:
    past = [started("late", at=9), started("early", at=1), started("pin", pinned=True)]
    assert given(*past, episodes=3).when(start("x", auto_prune=True)) == [
        EpisodesPruned(memory_ids=("early",), cause="quota"), started("x")
    ]  # fmt: skip


def test_the_oldest_finished_leaves_first() -> None:
    """With leave to prune too, the oldest finished episode leaves first, and by itself."""
    past = [started("runs", at=0), *whole("done", at=9)]
    events = given(*past, episodes=2).when(start("x", auto_prune=True))
    assert events == [started("x", evicted=("done",))]


@pytest.mark.parametrize("auto_prune", [False, True])
def test_pinned_episodes_never_leave(auto_prune: bool) -> None:
    past = [*whole("e", pinned=True), *whole("f", pinned=True)]
    with pytest.raises(QuotaExceededError):
        given(*past, episodes=2).when(start("x", auto_prune=auto_prune))
    past += whole("g", at=9)
    assert given(*past, episodes=3).when(start("x")) == [started("x", evicted=("g",))]


def test_above_a_lowered_limit_nothing_leaves_without_leave() -> None:
    past = [*whole("e", at=1), *whole("f", at=2), started("g", at=3)]
    with pytest.raises(QuotaExceededError):
        given(*past, episodes=2).when(start("x"))
    assert given(*past, episodes=2).when(start("x", auto_prune=True)) == [
        EpisodesPruned(memory_ids=("e", "f"), cause="quota"), started("x")
    ]  # fmt: skip


def test_a_limit_of_no_episodes_refuses() -> None:
    with pytest.raises(QuotaExceededError):
        given(episodes=0).when(start("x", auto_prune=True))


# --- the limit of bytes


def test_a_goal_too_large_names_both_sizes() -> None:
    """A goal that does not fit is refused with both sizes."""
    past = started("e", size=int(99.98 * MIB))
    with pytest.raises(QuotaExceededError, match=r"\(99\.98 MB of 100 MB\)"):
        given(past).when(start("x", size=MIB))


def test_with_leave_the_oldest_finished_tenth_is_pruned_for_it() -> None:
    past = [event for i in range(20) for event in whole(f"e{i:02}", agent=f"a{i}", at=i)]
    events = given(*past, started("runs"), episodic_bytes=410).when(start("x", auto_prune=True))
    assert events == [EpisodesPruned(memory_ids=("e00", "e01"), cause="quota"), started("x")]


def test_what_is_running_or_pinned_is_not_pruned_for_it() -> None:
    past = [started("runs"), *whole("pin", pinned=True), *whole("done", at=9)]
    events = given(*past, episodic_bytes=50).when(start("x", auto_prune=True))
    assert events == [EpisodesPruned(memory_ids=("done",), cause="quota"), started("x")]
    with pytest.raises(QuotaExceededError):
        given(*past, episodic_bytes=50).when(start("x", size=41, auto_prune=True))


def test_what_leaves_the_agent_makes_room_for_it() -> None:
    past = [*whole("e"), started("f", agent="b")]
    assert given(*past, episodes=1, episodic_bytes=30).when(start("x", size=20)) == [
        started("x", size=20, evicted=("e",))
    ]


def test_what_leaves_by_count_is_not_pruned_again_by_size() -> None:
    past = [*whole("e", at=1), *whole("f", at=2, agent="b"), *whole("g", at=3, agent="b")]
    events = given(*past, episodes=1, episodic_bytes=60).when(start("x", size=30, auto_prune=True))
    assert events == [
        EpisodesPruned(memory_ids=("f",), cause="quota"),
        started("x", size=30, evicted=("e",)),
    ]


# --- steps


def test_a_step_gets_the_next_number() -> None:
    assert given(started("e")).when(step("e", 1)) == [stepped("e", 1)]
    past = [started("e"), stepped("e", 1)]
    assert given(*past).when(step("e", 2, error="no")) == [stepped("e", 2, error="no")]


def test_a_further_step_replaces_the_oldest_but_first() -> None:
    """A step beyond the limit takes the place of the oldest step but the first."""
    past = [started("e"), *(stepped("e", number) for number in (1, 2, 3))]
    (event,) = given(*past, episode_steps=3).when(step("e", 4))
    assert event == stepped("e", 4, out=(2,))
    state = fold(episodic.KIND, [*past, event])
    assert kept(state, "e") == [1, 3, 4]
    (row,) = episodic.KIND.rows(state)
    assert row.evicted == (StepMarker(2, b"h2", "act 2"),)
    assert (row.steps_evicted, row.size_bytes, row.stored_bytes) == (1, 40, 40)


def test_the_fifty_first_step_evicts_the_second() -> None:
    past = [started("e"), *(stepped("e", number) for number in range(1, 51))]
    assert given(*past).when(step("e", 51)) == [stepped("e", 51, out=(2,))]


def test_steps_with_an_error_are_kept_while_others_can_go() -> None:
    past = [started("e"), stepped("e", 1), stepped("e", 2, error="no"), stepped("e", 3)]
    assert given(*past, episode_steps=3).when(step("e", 4)) == [stepped("e", 4, out=(3,))]


def test_an_empty_error_is_none() -> None:
    past = [started("e"), stepped("e", 1), stepped("e", 2, error=""), stepped("e", 3)]
    assert given(*past, episode_steps=3).when(step("e", 4)) == [stepped("e", 4, out=(2,))]


def test_the_oldest_error_goes_when_all_are_errors() -> None:
    """The oldest error goes when all the rest are errors too."""
    past = [
        started("e"), stepped("e", 1, error="no"), stepped("e", 2, error="no"),
        stepped("e", 3, error="no"),
    ]  # fmt: skip
    assert given(*past, episode_steps=3).when(step("e", 4)) == [stepped("e", 4, out=(2,))]


def test_a_number_is_never_used_again() -> None:
    past = [started("e"), stepped("e", 1), stepped("e", 2), stepped("e", 3, out=(2,))]
    assert given(*past, episode_steps=2).when(step("e", 4)) == [stepped("e", 4, out=(3,))]


def test_a_limit_of_one_step_keeps_the_last() -> None:
    past = [started("e"), stepped("e", 1, error="no")]
    assert given(*past, episode_steps=1).when(step("e", 2)) == [stepped("e", 2, out=(1,))]


def test_a_limit_of_no_steps_refuses() -> None:
    with pytest.raises(QuotaExceededError, match="steps"):
        given(started("e"), episode_steps=0).when(step("e", 1))


def test_a_lowered_limit_removes_as_many_steps() -> None:
    """After the limit was lowered, as many steps leave as have to."""
    past = [started("e"), *(stepped("e", number) for number in (1, 2, 3, 4))]
    assert given(*past, episode_steps=3).when(step("e", 5)) == [stepped("e", 5, out=(2, 3))]


def test_a_row_keeps_the_last_markers_and_counts_all() -> None:
    events = [started("e"), stepped("e", 1)]
    events += [stepped("e", n, out=(n - 1,)) for n in range(2, MARKERS_MAX + 12)]
    (row,) = episodic.KIND.rows(fold(episodic.KIND, events))
    assert (len(row.evicted), row.steps_evicted) == (MARKERS_MAX, MARKERS_MAX + 10)
    assert row.evicted[-1].number == MARKERS_MAX + 10


def test_a_snippet_is_the_first_80_characters_of_the_action() -> None:
    long = msgspec.structs.replace(stepped("e", 1), action="é" * 200)
    (row,) = episodic.KIND.rows(fold(episodic.KIND, [started("e"), long]))
    assert row.steps[0].snippet == "é" * 80


def test_a_step_must_fit_or_replace_as_much() -> None:
    """A step that does not fit is refused, unless the step that leaves is as large."""
    past = [started("e"), *(stepped("e", number) for number in (1, 2))]
    with pytest.raises(QuotaExceededError):
        given(*past, episodic_bytes=39).when(step("e", 3))
    with pytest.raises(QuotaExceededError):
        given(*past, episode_steps=2, episodic_bytes=29).when(step("e", 3, size=11))
    assert len(given(*past, episode_steps=2, episodic_bytes=29).when(step("e", 3))) == 1


# --- finish


@pytest.mark.parametrize("failed", [False, True])
def test_an_episode_finishes_once(failed: bool) -> None:
    (event,) = given(started("e")).when(finish("e", failed=failed))
    assert event == finished("e", failed=failed)
    after = given(started("e"), event)
    status = "failed" if failed else "done"
    assert episodic.KIND.find(after.state, "e").status == status
    for command in (finish("e"), step("e", 1)):
        with pytest.raises(InvalidInputError, match=rf"is finished \({status}\)"):
            after.when(command)


def test_an_episode_may_finish_without_words() -> None:
    (event,) = given(started("e")).when(
        FinishEpisode(now_us=1, end=EpisodeFinished(memory_id="e", failed=False))
    )
    row = episodic.KIND.find(fold(episodic.KIND, [started("e"), event]), "e")
    assert (row.status, row.result, row.size_bytes, row.stored_bytes) == ("done", None, 10, 10)


def test_a_result_that_does_not_fit_is_refused() -> None:
    with pytest.raises(QuotaExceededError):
        given(started("e"), episodic_bytes=19).when(finish("e"))


# --- update, delete


def test_an_update_replaces_the_goal_of_a_finished_episode_too() -> None:
    command = UpdateEpisode(now_us=1, memory_id="e", content="g", size_bytes=1, digest=b"g")
    (event,) = given(*whole("e")).when(command)
    assert event == EpisodeUpdated(memory_id="e", content="g", size_bytes=1, digest=b"g")
    state = fold(episodic.KIND, [*whole("e"), event])
    row = episodic.KIND.find(state, "e")
    assert (row.version, row.size_bytes, row.goal.digest, row.status) == (3, 11, b"g", "done")


def test_an_update_keeps_what_it_does_not_name() -> None:
    command = UpdateEpisode(now_us=1, memory_id="e", metadata={"k": 1})
    assert given(started("e")).when(command) == [EpisodeUpdated(memory_id="e", metadata={"k": 1})]
    state = fold(episodic.KIND, [started("e"), EpisodeUpdated(memory_id="e", metadata={"k": 1})])
    assert (episodic.KIND.find(state, "e").metadata, state.held.size_bytes) == ({"k": 1}, 10)


def test_an_update_that_changes_nothing_is_satisfied() -> None:
    command = UpdateEpisode(
        now_us=1, memory_id="e", content="goal e", size_bytes=10, digest=b"e", metadata={}
    )
    assert given(started("e")).when(command) == []


def test_an_update_above_the_quota_may_only_shrink() -> None:
    """An update may not grow beyond the quota, but may shrink above it."""
    full = given(started("e", size=60), started("f", size=60), episodic_bytes=100)
    goal = UpdateEpisode(now_us=1, memory_id="e", content="z", digest=b"z", size_bytes=61)
    with pytest.raises(QuotaExceededError):
        full.when(goal)
    assert len(full.when(msgspec.structs.replace(goal, size_bytes=60))) == 1


def test_a_delete_is_one_event_and_leaves_nothing() -> None:
    past = [started("e"), stepped("e", 1)]
    assert given(*past).when(DeleteEpisode(now_us=1, memory_id="e")) == [
        EpisodeDeleted(memory_id="e")
    ]
    assert fold(episodic.KIND, [*past, EpisodeDeleted(memory_id="e")]) == episodic.KIND.initial


@pytest.mark.parametrize(
    "command",
    [
        step("e", 1), finish("e"), DeleteEpisode(now_us=1, memory_id="e"),
        UpdateEpisode(now_us=1, memory_id="e", content="x"), restore([], "e"),
    ],
    ids=lambda command: type(command).__name__,
)  # fmt: skip
def test_an_episode_that_is_not_there_cannot_be_changed(command: Any) -> None:
    with pytest.raises(NotFoundError, match="'e'"):
        given().when(command)


# --- restore


def brought_back(events: list[Any], *names: str, **limits: Any) -> Any:
    """Return the state after the episodes came back."""
    return fold(episodic.KIND, events + given(*events, **limits).when(restore(events, *names)))


PAST = [
    started("e", at=5, pinned=True), stepped("e", 1), stepped("e", 2), stepped("e", 3, error="no"),
    stepped("e", 4, out=(2,)),
    EpisodeUpdated(memory_id="e", content="new goal", size_bytes=7, digest=b"n", metadata={"k": 1}),
]  # fmt: skip


@pytest.mark.parametrize("end", [[], [finished("e", failed=True)]])
@pytest.mark.parametrize(
    "gone",
    [
        EpisodeDeleted(memory_id="e"),
        EpisodesPruned(memory_ids=("e",), cause="quota"),
        started("x", evicted=("e",)),
    ],
)
def test_an_episode_comes_back_as_it_was(gone: Any, end: list[Any]) -> None:
    events = [*PAST, *end, gone]
    before = episodic.KIND.find(fold(episodic.KIND, events[:-1]), "e")
    back = given(*events).when(restore(events, "e"))
    log = {v: recorded(event, v) for v, event in enumerate([*events, *back], start=1)}
    after = episodic.KIND.find(episodic.KIND.fold(episodic.KIND.initial, log.values()), "e")
    for name in ("size_bytes", "created_at_us", "occurred_at_us", "metadata", "pinned", "status"):
        assert getattr(after, name) == getattr(before, name), name
    assert episodic.KIND.content(after, log) == episodic.KIND.content(before, log)
    assert episodic.KIND.data(after, log) == episodic.KIND.data(before, log)
    assert after.next_number == 5
    assert min(episodic.KIND.sources(after)) > len(events), "its texts stand in new events"


def test_it_comes_back_in_one_event_for_each_text() -> None:
    events = [*PAST, finished("e"), EpisodeDeleted(memory_id="e")]
    assert given(*events).when(restore(events, "e", "e")) == [
        EpisodeRestored(
            memory_id="e", agent_id="a", goal="new goal", size_bytes=7, digest=b"n",
            occurred_at_us=5, metadata={"k": 1}, pinned=True, created_at_us=1_001,
            evicted=(StepMarker(2, b"h2", "act 2"),), steps_evicted=1,
        ),
        stepped("e", 1), stepped("e", 3, error="no"), stepped("e", 4), finished("e"),
    ]  # fmt: skip


def test_it_comes_back_a_second_time() -> None:
    events = [*PAST, EpisodeDeleted(memory_id="e")]
    events += given(*events).when(restore(events, "e"))
    events += [stepped("e", 5), finished("e"), EpisodeDeleted(memory_id="e")]
    state = brought_back(events, "e")
    assert kept(state, "e") == [1, 3, 4, 5]
    assert episodic.KIND.find(state, "e").created_at_us == 1_001


def test_an_episode_that_is_there_needs_no_restoring() -> None:
    assert given(*PAST).when(restore(PAST, "e")) == []


def test_episodes_come_back_within_the_quota_all_or_none() -> None:
    events = [*whole("e"), *whole("f"), EpisodesPruned(memory_ids=("e", "f"), cause="quota")]
    command = restore(events, "e", "f")
    for limits in ({"episodes": 1}, {"episodic_bytes": 39}):
        with pytest.raises(QuotaExceededError):
            given(*events, **limits).when(command)
    assert len(brought_back(events, "e", "f", episodes=2, episodic_bytes=40).held) == 2


def test_a_restored_episode_keeps_a_lowered_limit() -> None:
    """A restored episode keeps to a limit of steps that was lowered."""
    past = [started("e"), *(stepped("e", n) for n in (1, 2, 3, 4)), EpisodeDeleted(memory_id="e")]
    state = brought_back(past, "e", episode_steps=2)
    assert kept(state, "e") == [1, 4]
    assert [gone.number for gone in episodic.KIND.find(state, "e").evicted] == [2, 3]
    with pytest.raises(QuotaExceededError, match="steps"):
        brought_back(past, "e", episode_steps=0)


# --- reads


def test_sums_follow_every_event() -> None:
    events = [
        *whole("e"), *whole("f"), started("g", evicted=("e",)), stepped("g", 1),
        EpisodesPruned(memory_ids=("f",), cause="quota"),
    ]  # fmt: skip
    tally = episodic.KIND.tally(fold(episodic.KIND, events))
    assert tally == Tally(count=1, size_bytes=20, stored_bytes=20, evicted=1, pruned=1)


def test_quotas_are_of_one_agent_or_of_the_fullest() -> None:
    events = [started("e"), started("f", agent="b"), started("g", agent="b")]
    state, limits = fold(episodic.KIND, events), Limits(episodes=4, episodic_bytes=100)

    def used(agent_id: str | None) -> list[tuple[str, str, int, int]]:
        found = episodic.KIND.quotas(state, limits, agent_id)
        return [(use.quota, use.unit, use.used, use.limit) for use in found]

    assert used("a") == [("episodes", "count", 1, 4), ("bytes", "bytes", 30, 100)]
    assert used(None)[0] == ("episodes", "count", 2, 4)
    assert used("nobody")[0] == ("episodes", "count", 0, 4)


def test_the_fullest_agent_is_known_after_it_lost_episodes() -> None:
    events: list[Any] = [started("e"), started("f", agent="b"), started("g", agent="b")]
    events += [EpisodeDeleted(memory_id="f")]
    assert fold(episodic.KIND, events).fullest == 1
    events += [EpisodeDeleted(memory_id="e"), EpisodeDeleted(memory_id="g")]
    assert fold(episodic.KIND, events).fullest == 0


def test_the_episodes_of_an_agent() -> None:
    state = fold(episodic.KIND, [started("e"), started("f", agent="b")])
    assert [row.memory_id for row in state.held.of_group("b")] == ["f"]
    assert list(state.held.of_group("nobody")) == []


def test_a_dump_loads_back_to_the_same_state() -> None:
    events = [*PAST, *whole("f", agent="b"), started("g", evicted=("f",)), finished("e")]
    state = fold(episodic.KIND, events)
    assert episodic.KIND.load(episodic.KIND.dump(state)) == state
    encoded = msgspec.msgpack.encode(episodic.KIND.dump(state))
    assert episodic.KIND.load(msgspec.msgpack.decode(encoded, type=episodic.KIND.Dump)) == state


# --- texts

TOLD = [
    started("e"),
    StepAdded(
        memory_id="e", number=1, action="look", observation="a door", outcome="closed",
        size_bytes=1, digest=b"1", sha256=b"h1",
    ),
    stepped("e", 14, error="it broke"),
    msgspec.structs.replace(finished("e"), digest=b"r"),
]  # fmt: skip
LOG = {version: recorded(event, version) for version, event in enumerate(TOLD, start=1)}


def told(*events: Any) -> Any:
    return episodic.KIND.find(fold(episodic.KIND, events), "e")


def test_an_episode_reads_as_text() -> None:
    assert episodic.KIND.content(told(*TOLD), LOG) == (
        "Goal: goal e\n"
        "1. look -> a door -> closed\n"
        "… 12 steps evicted\n"
        "14. act 14 -> error: it broke\n"
        "Result: result e"
    )


def test_one_missing_step_is_one_step() -> None:
    events = [started("e"), stepped("e", 2)]
    log = {version: recorded(event, version) for version, event in enumerate(events, start=1)}
    assert episodic.KIND.content(told(*events), log) == "Goal: goal e\n… 1 step evicted\n2. act 2"


def test_a_failed_episode_says_so() -> None:
    events = [started("e"), finished("e", failed=True)]
    log = {version: recorded(event, version) for version, event in enumerate(events, start=1)}
    assert episodic.KIND.content(told(*events), log).endswith("Result (failed): result e")
    silent = EpisodeFinished(memory_id="e", failed=True)
    assert episodic.KIND.content(told(started("e"), silent), log).endswith("Result: failed")


def test_an_episode_reads_as_json() -> None:
    row = msgspec.structs.replace(
        told(*TOLD), evicted=(StepMarker(2, b"\xab", "act 2"),), steps_evicted=12
    )
    assert episodic.KIND.data(row, LOG) == {
        "agent_id": "a",
        "goal": "goal e",
        "status": "done",
        "result": "result e",
        "steps": [
            {
                "number": 1, "action": "look", "observation": "a door", "outcome": "closed",
                "error": None,
            },
            {
                "number": 14, "action": "act 14", "observation": None, "outcome": None,
                "error": "it broke",
            },
        ],
        "evicted": [{"number": 2, "sha256": "ab", "snippet": "act 2"}],
        "steps_evicted": 12,
    }  # fmt: skip


def test_each_text_is_found_on_its_own() -> None:
    row = told(*TOLD)
    passages = episodic.KIND.passages(row)
    assert [episodic.KIND.passage_text(row, passage.label, LOG) for passage in passages] == [
        "goal e", "look -> a door -> closed", "act 14 -> error: it broke", "result e"
    ]  # fmt: skip
    assert [passage.digest for passage in passages] == [b"e", b"1", b"d14", b"r"]
    assert [version_of(passage.label) for passage in passages] == list(episodic.KIND.sources(row))
    assert {index_of(passage.label) for passage in passages} == {0}


def test_the_goal_is_found_by_its_new_words() -> None:
    row = told(*TOLD, EpisodeUpdated(memory_id="e", content="new", size_bytes=3, digest=b"n"))
    log = LOG | {5: recorded(EpisodeUpdated(memory_id="e", content="new", digest=b"n"), 5)}
    passages = episodic.KIND.passages(row)
    assert episodic.KIND.passage_text(row, passages[0].label, log) == "new"
    assert 1 not in episodic.KIND.sources(row)
    assert sorted(passages, key=lambda passage: passage.place) == list(passages)


def test_what_a_step_counts_for_is_found_by_and_leaves() -> None:
    assert StepTexts("look").line == "look"
    all_four = StepTexts("look", "a door", "closed", "stuck")
    assert all_four.line == "look -> a door -> closed -> error: stuck"
    assert StepTexts("é", None, "b", "c").size_bytes == 4
    # printf '{"action":"look","observation":"closed","outcome":null,"error":null}' | sha256sum
    assert StepTexts("look", "closed").sha256.hex() == (
        "f07a55a921d5575b78fad3c6c872fcfcf8427017e2d8a8e5f6471a8b77aa8ede"
    )


@pytest.mark.parametrize(
    ("end", "status"),
    [(None, "running"), (finished("e"), "done"), (finished("e", failed=True), "failed")],
)
def test_an_episode_from_elsewhere_is_as_it_was_there(
    end: EpisodeFinished | None, status: str
) -> None:
    """It has the steps that it had, and its end if it had ended."""
    episode = EpisodeRestored(
        memory_id="e", agent_id="a", goal="goal e", size_bytes=10, digest=b"e", occurred_at_us=5,
        created_at_us=5,
    )  # fmt: skip
    steps = (stepped("e", 1), stepped("e", 2))
    events = Given(episodic.KIND).when(PutEpisode(now_us=9, episode=episode, steps=steps, end=end))
    row = fold(episodic.KIND, events).held.rows["e"]
    assert (row.status, [step.number for step in row.steps]) == (status, [1, 2])
    assert (row.occurred_at_us, row.goal.size_bytes) == (5, 10)
