"""episode start, step, finish, get, list."""

import pytest

from memory_actors.cli.showing import short_id


@pytest.fixture
def trip(program) -> str:
    """The id of an episode with two steps."""
    started = program.json("episode", "start", "book a flight", "--agent", "travel")
    memory_id = started["memory_id"]
    program.ok(
        "episode", "step", memory_id, "search", "--observation", "3 found", "--outcome", "ok"
    )
    said = program.ok("episode", "step", memory_id, "pay", "--error", "card refused")
    assert said == f"Step 2 of {memory_id}\n"
    return memory_id


def test_an_episode_is_started_continued_and_finished(program, trip: str) -> None:
    running = program.json("episode", "get", trip)
    assert (running["goal"], running["agent_id"]) == ("book a flight", "travel")
    assert (running["status"], running["result"]) == ("running", None)
    assert [(s["number"], s["action"], s["error"]) for s in running["steps"]] == [
        (1, "search", None), (2, "pay", "card refused"),
    ]  # fmt: skip
    assert program.ok("episode", "finish", trip, "booked") == f"Done: {trip}\n"
    done = program.json("episode", "get", trip)
    assert (done["status"], done["result"]) == ("done", "booked")
    for line in (["step", trip, "again"], ["finish", trip]):
        error = program.refused("episode", *line)
        assert error["type"] == "InvalidInputError"
        assert "finished" in error["message"]


def test_people_see_the_steps_as_a_table_and_the_end(program, trip: str) -> None:
    assert "Running" in program.ok("episode", "get", trip)
    assert program.json("episode", "finish", trip, "no card", "--failed")["operation"] == "update"
    for command in (["episode", "get", trip], ["get", trip]):
        said = program.ok(*command)
        for part in ("Goal: book a flight", "3 found", "card refused", "Failed: no card", "travel"):
            assert part in said
    history = " ".join(program.ok("history", trip).split())
    for part in ("book a flight", "search", "error: card refused", "FinishEpisode", "no card"):
        assert part in history


def test_episodes_are_listed_by_agent_newest_first(program, trip: str) -> None:
    program.ok("episode", "start", "older", "--agent", "travel", "--at", "2020-01-01", "--pin")
    program.ok("episode", "start", "mine", "--session", "s1")
    assert [e["goal"] for e in program.json("episode", "list", "--agent", "travel")] == [
        "book a flight", "older",
    ]  # fmt: skip
    (mine,) = program.json("episode", "list")
    assert (mine["goal"], mine["agent_id"], mine["session_id"]) == ("mine", "default", "s1")
    assert len(program.json("episode", "list", "--agent", "travel", "--limit", "1")) == 1
    said = program.ok("episode", "list", "--agent", "travel")
    for part in ("book a flight", "running", short_id(trip), "2 episodes of agent travel"):
        assert part in said
    assert "No episodes of agent nobody" in program.ok("episode", "list", "--agent", "nobody")
