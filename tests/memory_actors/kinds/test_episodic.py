"""Episodic memory: what its commands decide, and what an episode says."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from memory_actors.base.errors import InvalidInputError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import episodic
from memory_actors.kinds.episodic import (
    AddStep,
    FinishEpisode,
    PutEpisode,
    RestoreEpisodes,
    StartEpisode,
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


# --- steps


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


def test_a_restored_episode_keeps_a_lowered_limit() -> None:
    """A restored episode keeps to a limit of steps that was lowered."""
    past = [started("e"), *(stepped("e", n) for n in (1, 2, 3, 4)), EpisodeDeleted(memory_id="e")]
    state = brought_back(past, "e", episode_steps=2)
    assert kept(state, "e") == [1, 4]
    assert [gone.number for gone in episodic.KIND.find(state, "e").evicted] == [2, 3]
    with pytest.raises(QuotaExceededError, match="steps"):
        brought_back(past, "e", episode_steps=0)


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
    row = fold(episodic.KIND, events).rows["e"]
    assert (row.status, [step.number for step in row.steps]) == (status, [1, 2])
    assert (row.occurred_at_us, row.goal.size_bytes) == (5, 10)


def test_an_episode_from_elsewhere_takes_the_place_of_the_oldest_at_the_limit() -> None:
    episode = EpisodeRestored(
        memory_id="e", agent_id="a", goal="goal e", size_bytes=10, digest=b"e", occurred_at_us=5,
        created_at_us=5,
    )  # fmt: skip
    there = [started("old", at=1), finished("old"), started("new", at=2), finished("new")]
    events = Given(episodic.KIND, *there, limits=Limits(episodes=2)).when(
        PutEpisode(now_us=9, episode=episode, steps=(), end=None)
    )
    assert {*fold(episodic.KIND, [*there, *events]).rows} == {"new", "e"}
