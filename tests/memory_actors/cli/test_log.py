"""log, replay, diff, why, stats."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.programs import INTERRUPTIBLE

ROOT = Path(__file__).parents[3]
OF_USER = ("--user", "default")


@pytest.fixture
def ids(program: Any) -> dict[str, str]:
    """A user whose memories were added (1, 2), changed (3) and deleted (4); and another one (5)."""
    tea = program.json("add", "likes tea")["memory_id"]
    car = program.json("add", "has a car")["memory_id"]
    program.ok("delete", car)
    program.ok("restore", car)
    program.ok("delete", tea)
    program.ok("add", "someone else", "--user", "other")
    return {"tea": tea, "car": car}


def test_the_log_shows_all_users_or_one(program: Any, ids: dict[str, str]) -> None:
    entries = program.json("log")
    assert [(e["position"], e["user_id"], e["event"]) for e in entries] == [
        (1, "default", "long_term.added"), (2, "default", "long_term.added"),
        (3, "default", "long_term.deleted"), (4, "default", "long_term.restored"),
        (5, "default", "long_term.deleted"), (6, "other", "long_term.added"),
    ]  # fmt: skip
    assert [e["position"] for e in program.json("log", "--user", "other")] == [6]
    assert [e["position"] for e in program.json("log", "--limit", "2")] == [5, 6]
    assert [e["position"] for e in program.json("log", "--after", "2", "--limit", "2")] == [3, 4]
    assert program.json("log", "--until", "2020-01-01") == []
    assert len(program.json("log", "--since", "2020-01-01", "--limit", "3")) == 3
    said = program.ok("log")
    for part in ("long_term.restored", "likes tea", "someone else", "DeleteMemory"):
        assert part in said
    assert "Nothing happened" in program("log", "--user", "nobody").stdout


def test_a_followed_log_prints_json_until_interrupted(program: Any, ids: dict[str, str]) -> None:
    (program.data / "derived.mdb").unlink()  # which names a model that only this process has
    arguments = ["--data", str(program.data), "log", "--follow", "--json"]
    with subprocess.Popen(
        [*INTERRUPTIBLE, *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(6)]
        assert "likes tea" in program.ok("log"), "others are let in meanwhile"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert [line["position"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_the_memory_as_it_was_is_listed_and_searched(program: Any, ids: dict[str, str]) -> None:
    found = program.json(*OF_USER, "replay", "--as-of", "2")
    assert {memory["content"] for memory in found["memories"]} == {"likes tea", "has a car"}
    assert (found["moment"]["position"], found["lost"]) == (2, 0)
    (hit,) = program.json(*OF_USER, "replay", "--as-of", "2", "--limit", "1", "tea")["memories"]
    assert hit["memory_id"] == ids["tea"]
    assert program.json(*OF_USER, "replay", "--as-of", "2020-01-01")["memories"] == []
    assert "has a car" in program.ok(*OF_USER, "replay", "--as-of", "3000-01-01")
    assert "likes tea" not in program.ok(*OF_USER, "replay", "--as-of", "5")
    assert "Nothing there" in program.ok(*OF_USER, "replay", "--as-of", "0")
    assert program.refused(*OF_USER, "replay", "--as-of", "99")["type"] == "InvalidInputError"
    assert program.refused(*OF_USER, "replay", "--as-of", "soon", code=2)["type"] == "UsageError"


def test_what_changed_is_shown_with_who_and_why(program: Any, ids: dict[str, str]) -> None:
    found = program.json(*OF_USER, "diff", "2", "5")
    assert {(c["memory_id"], c["change"]) for c in found["changes"]} == {
        (ids["tea"], "deleted"), (ids["car"], "restored"),
    }  # fmt: skip
    assert [c["change"] for c in program.json(*OF_USER, "diff", "4")["changes"]] == ["deleted"]
    said = program.ok(*OF_USER, "diff", "2")
    for part in ("deleted", "likes tea", "Deleted. (#5)", "Brought back as it was."):
        assert part in said
    assert "Nothing changed" in program.ok(*OF_USER, "diff", "5", "5")
    assert program.refused(*OF_USER, "diff", "5", "2")["type"] == "InvalidInputError"
