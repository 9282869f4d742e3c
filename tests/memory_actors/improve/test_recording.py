"""Runs that are recorded: complete in the log, whatever the episode keeps, and replayed."""

import asyncio
from typing import Any

import anyio
import pytest
from support.improving import FakeCritic, FakeReviser

from memory_actors import (
    Critique,
    CritiqueFinding,
    ImprovementError,
    InvalidInputError,
    NotFoundError,
    improve,
    improve_stream,
    recorded_run,
)
from memory_actors.improve import Result, Revised

pytestmark = pytest.mark.anyio

OPEN = {"stop": lambda _: False}


async def improved(user: Any, text: str = "text 0", **options: Any) -> Result:
    given = {"critic": FakeCritic(), "reviser": FakeReviser(), "record_to": user, **options}
    return await improve(text, **given)


async def test_a_run_is_an_episode_with_a_step_a_round(user: Any) -> None:
    critic = FakeCritic(0.1, 0.9)
    result = await improved(user, "A  text\nto improve", critic=critic, reviser=FakeReviser(["B"]))
    (episode,) = await user.episodes.recent()
    assert episode.memory_id == result.metadata["episode_id"]
    assert (episode.goal, episode.status) == ("Improve a text: A text to improve", "done")
    assert (episode.result, episode.metadata) == ("B", {"run": "improve"})
    actions = [step.action for step in episode.steps]
    assert actions == ["given", "round 1", "round 2", "finished"]
    assert (episode.steps[0].outcome, episode.steps[1].outcome) == ("A  text\nto improve", "B")
    assert '"score":0.1' in str(episode.steps[1].observation)


async def test_every_round_is_in_the_log(
    open_memory: Any,
) -> None:
    """Every round is in the log, though the episode keeps 50 steps."""
    count, texts = 80, [f"text {n} ".ljust(2_000, "x") for n in range(80)]
    texts[40] = " "  # refused
    finding = CritiqueFinding(kind="k", message="m", quote="q")
    critic = FakeCritic(Critique(score=0.3, text="Ä \n", findings=(finding,)))
    options = {**OPEN, "memory_limits": {"max_iterations": count, "max_history_size": 9_000}}
    async with open_memory() as memory:
        user = memory.user("u")
        result = await improved(user, critic=critic, reviser=FakeReviser(texts), **options)
        episode = await user.episodes.get(result.metadata["episode_id"])
    async with open_memory() as memory:
        recorded = await recorded_run(memory.user("u"), result.metadata["episode_id"])
    assert (len(episode.steps), episode.steps_evicted) == (50, 33)
    assert [one.number for one in recorded.rounds] == list(range(1, count + 2))
    wanted = [None if text == " " else text for text in texts]
    assert [one.text for one in recorded.rounds] == [*wanted, None]
    assert {one.critique for one in recorded.rounds} == {critic.scores[0]}
    assert "is empty" in str(recorded.rounds[40].error)
    assert (recorded.status, recorded.stopped_because) == ("done", "max_iterations")
    assert (recorded.text, recorded.result) == ("text 0", result.text)


async def test_a_recorded_run_replays_without_its_critic_and_reviser(open_memory: Any) -> None:
    critic, reviser = FakeCritic(0.1, 0.5, 0.5, 0.3), FakeReviser(["a", " ", "b"])
    async with open_memory() as memory:
        user = memory.user("u")
        result = await improved(user, critic=critic, reviser=reviser)
        recorded = await recorded_run(user, result.metadata["episode_id"])
    critic_again, reviser_again = recorded.pair()
    again = await improve(recorded.text, critic=critic_again, reviser=reviser_again)
    assert (again.text, again.score, again.history) == (result.text, result.score, result.history)
    critic_again, reviser_again = recorded.pair()
    with pytest.raises(ImprovementError) as caught:
        await improve("another", critic=critic_again, reviser=reviser_again)
    assert isinstance(caught.value.__cause__, NotFoundError)


async def test_limits_that_no_step_can_hold_are_refused(user: Any) -> None:
    with pytest.raises(InvalidInputError, match="record_to needs max_text_length"):
        await improved(user, memory_limits={"max_text_length": 1 << 20})
    assert await user.episodes.recent() == []


@pytest.mark.parametrize("events", [1, 3, 6])
async def test_a_stream_that_is_closed_early_leaves_a_failed_episode(
    user: Any, events: int
) -> None:
    stream = improve_stream("text 0", critic=FakeCritic(), reviser=FakeReviser(), record_to=user)
    seen = [await anext(stream) for _ in range(events)]
    await stream.aclose()
    (episode,) = await user.episodes.recent()
    recorded = await recorded_run(user, episode.memory_id)
    assert (episode.status, episode.result) == ("failed", "closed early")
    assert recorded.stopped_because == "closed_early"
    assert len(recorded.rounds) == sum(isinstance(event, Revised) for event in seen)


async def test_a_cancelled_run_leaves_a_failed_episode(user: Any) -> None:
    begun = asyncio.Event()

    async def hang(_text: str) -> Critique:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    task = asyncio.create_task(improved(user, critic=hang))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (episode,) = await user.episodes.recent()
    assert (episode.status, episode.result) == ("failed", "closed early")


async def test_a_failed_run_keeps_its_last_critique_and_its_error(user: Any) -> None:
    reviser = FakeReviser(["text 1", RuntimeError("SECRET")])
    with pytest.raises(ImprovementError) as caught:
        await improved(user, critic=FakeCritic(0.4, 0.6), reviser=reviser)
    (episode,) = await user.episodes.recent()
    recorded = await recorded_run(user, episode.memory_id)
    assert (episode.status, recorded.stopped_because) == ("failed", "error")
    assert episode.result == f"error: {caught.value}"
    assert caught.value.result.metadata["episode_id"] == episode.memory_id
    assert [(one.critique.score, one.text) for one in recorded.rounds] == [
        (0.4, "text 1"), (0.6, None),
    ]  # fmt: skip
    assert "RuntimeError" in str(recorded.rounds[1].error)


async def test_what_is_no_run_is_not_read_as_one(user: Any) -> None:
    other = await user.episodes.start("Bake bread")
    with pytest.raises(InvalidInputError, match="no run of improve"):
        await recorded_run(user, other.memory_id)
    with pytest.raises(NotFoundError):
        await recorded_run(user, "nothing")
