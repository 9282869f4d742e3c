"""Episodic memory: what its commands decide, and what an episode says."""

from typing import Any

import msgspec
from support.given import Given, fold, recorded

from memory_actors import Limits
from memory_actors.kinds import episodic
from memory_actors.kinds.episodic import (
    FinishEpisode,
    PutEpisode,
    RestoreEpisodes,
    StartEpisode,
)
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeRestored,
    EpisodeStarted,
    StepAdded,
    StepMarker,
    StepTexts,
)
from memory_actors.kinds.episodic.state import MARKERS_MAX


def started(
    name: str, *, agent: str = "a", at: int = 0, size: int = 10, pinned: bool = False,
    evicted: tuple[str, ...] = (),
) -> EpisodeStarted:  # fmt: skip
    return EpisodeStarted(
        memory_id=name, agent_id=agent, goal=f"goal {name}", size_bytes=size,
        digest=name.encode(), occurred_at_us=at, pinned=pinned, evicted_ids=evicted,
    )  # fmt: skip


def stepped(
    name: str, number: int, *, error: str | None = None, out: tuple[int, ...] = ()
) -> StepAdded:
    return StepAdded(
        memory_id=name, number=number, action=f"act {number}", size_bytes=10,
        digest=b"d%d" % number, sha256=b"h%d" % number, error=error,
        evicted=tuple(StepMarker(gone, b"h%d" % gone, f"act {gone}") for gone in out),
    )  # fmt: skip


def finished(name: str, *, failed: bool = False) -> EpisodeFinished:
    return EpisodeFinished(
        memory_id=name, failed=failed, result=f"result {name}", size_bytes=10, digest=b"r"
    )


def start(name: str, *, agent: str = "a", size: int = 10, **how: Any) -> StartEpisode:
    asked = {one: how.pop(one) for one in ("auto_prune", "own_ids", "used") if one in how}
    episode = EpisodeStarted(
        memory_id=name, agent_id=agent, goal=f"goal {name}", size_bytes=size,
        digest=name.encode(), occurred_at_us=0, **how,
    )  # fmt: skip
    return StartEpisode(now_us=1, episode=episode, **asked)


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


def test_what_a_step_counts_for_is_found_by_and_leaves() -> None:
    assert StepTexts("look").line == "look"
    all_four = StepTexts("look", "a door", "closed", "stuck")
    assert all_four.line == "look -> a door -> closed -> error: stuck"
    assert StepTexts("é", None, "b", "c").size_bytes == 4
    # printf '{"action":"look","observation":"closed","outcome":null,"error":null}' | sha256sum
    assert StepTexts("look", "closed").sha256.hex() == (
        "f07a55a921d5575b78fad3c6c872fcfcf8427017e2d8a8e5f6471a8b77aa8ede"
    )


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
