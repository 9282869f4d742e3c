"""`user.episodes`, as a caller sees it."""

import hashlib
import json

import pytest

from memory_actors import InvalidInputError, NotFoundError

pytestmark = pytest.mark.anyio


async def test_an_episode_is_told_step_by_step(memory) -> None:
    user = memory.user("u", agent_id="planner", session_id="s")
    started = await user.episodes.start("book a flight", metadata={"a": 1})
    await user.episodes.step(started.memory_id, "search", observation="3 found")
    await user.episodes.step(started.memory_id, "pay", error="card refused")
    await user.episodes.finish(started.memory_id, "no ticket", success=False)
    episode = await user.episodes.get(started.memory_id)
    assert (episode.agent_id, episode.session_id, episode.status) == ("planner", "s", "failed")
    assert [(s.number, s.action, s.error) for s in episode.steps] == [
        (1, "search", None),
        (2, "pay", "card refused"),
    ]
    assert (await user.get(started.memory_id)).content.splitlines() == [
        "Goal: book a flight",
        "1. search -> 3 found",
        "2. pay -> error: card refused",
        "Result (failed): no ticket",
    ]


@pytest.mark.parametrize("words", ["fly to Porto", "ask the airline", "a refund came"])
async def test_an_episode_is_found_by_goal_step_and_result(user, words: str) -> None:
    other = await user.episodes.start("bake bread")
    await user.episodes.finish(other.memory_id, "burnt")
    started = await user.episodes.start("fly to Porto")
    await user.episodes.step(started.memory_id, "ask the airline")
    await user.episodes.finish(started.memory_id, "a refund came")
    (hit,) = await user.retrieve(words, memory_types=["episodic"], top_k=1)
    assert hit.memory_id == started.memory_id


async def test_of_many_steps_first_last_and_errors_stay(user) -> None:
    started = await user.episodes.start("try")
    for n in range(1, 121):
        error = "boom" if n in (7, 60) else None
        await user.episodes.step(started.memory_id, f"action {n}", error=error)
    episode = await user.episodes.get(started.memory_id)
    numbers = [step.number for step in episode.steps]
    assert numbers == [1, 7, 60, *range(74, 121)]
    assert episode.steps_evicted == 70
    mark = episode.evicted[-1]
    said = {"action": f"action {mark.number}", "observation": None, "outcome": None,
            "error": None}  # fmt: skip
    said_json = json.dumps(said, separators=(",", ":")).encode()
    assert (mark.snippet, mark.sha256) == (
        said["action"], hashlib.sha256(said_json).hexdigest(),
    )  # fmt: skip
    hits = await user.retrieve(f"action {mark.number}", memory_types=["episodic"], top_k=1)
    assert f"action {mark.number}\n" not in hits[0].content, "an evicted step is not found"


async def test_what_is_over_or_never_was_takes_no_steps(user) -> None:
    started = await user.episodes.start("goal")
    await user.episodes.finish(started.memory_id)
    with pytest.raises(InvalidInputError, match="finished"):
        await user.episodes.step(started.memory_id, "more")
    with pytest.raises(InvalidInputError, match="finished"):
        await user.episodes.finish(started.memory_id)
    for call in (
        user.episodes.step("nobody", "x"), user.episodes.finish("nobody"),
        user.episodes.get("nobody"),
    ):  # fmt: skip
        with pytest.raises(NotFoundError):
            await call
    with pytest.raises(InvalidInputError):
        await user.episodes.step(started.memory_id, "x", error=5)  # type: ignore[arg-type]
