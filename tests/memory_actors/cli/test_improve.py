"""improve: a file in, a difference out, and the file as it was."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.llm_server import server

__all__ = ["server"]

TEXT = "In order to sail, wait.\nThe PostgrSQL job ran well.\nThe PostgrSQL job ran well.\n"
BEST = "To sail, wait.\nThe PostgreSQL job ran well.\n"
TERM = ("--term", "PostgreSQL")


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text(TEXT)
    return path


def events(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_file_is_improved_and_stays_as_it_is(program: Any, note: Path) -> None:
    out = program.ok("improve", str(note), *TERM)
    assert out.splitlines() == [
        f"--- {note} before", f"+++ {note} after", "@@ -1,3 +1,2 @@",
        "-In order to sail, wait.", "-The PostgrSQL job ran well.", "-The PostgrSQL job ran well.",
        "+To sail, wait.", "+The PostgreSQL job ran well.",
        "score 1.000, 3 revisions, ended: nothing found.",
    ]  # fmt: skip
    assert note.read_text() == TEXT
    assert not program.data.exists()


def test_as_json_there_is_an_event_a_line(program: Any, note: Path) -> None:
    seen = events(program.ok("improve", str(note), *TERM, "--json"))
    round_ = ["critiqued", "scored", "revised"]
    assert [one["type"] for one in seen] == [
        "started", *round_ * 3, "critiqued", "scored", "finished",
    ]  # fmt: skip
    assert seen[-1]["result"]["text"] == BEST
    assert seen[-1]["result"]["metadata"]["memory_stats"]["iterations"] == 3


def test_a_text_comes_from_stdin_and_goes_into_a_file(program: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    said = program.ok("improve", "-", *TERM, "--output", str(out), stdin=TEXT)
    assert f"Written to {out}." in said
    assert out.read_text() == BEST
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.md"]


def test_in_place_the_file_is_replaced_and_keeps_its_mode(program: Any, note: Path) -> None:
    note.chmod(0o640)
    link = note.with_name("link.md")
    link.symlink_to(note)
    program.ok("improve", str(link), *TERM, "--in-place")
    assert (note.read_text(), note.stat().st_mode & 0o777) == (BEST, 0o640)
    assert link.is_symlink()


def test_the_file_itself_is_no_output(program: Any, note: Path) -> None:
    again = note.parent / "." / note.name
    error = program.refused("improve", str(note), "--output", str(again), code=2)
    assert "--in-place" in error["message"]
    assert note.read_text() == TEXT


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-", "--in-place"), "needs a FILE"),
        (("note.md", "--in-place", "--output", "x"), "needs a FILE"),
        (("note.md", "--goal", "brief"), "goes with --llm"),
        (("note.md", "--rounds", "-1"), "-1 is not in the range"),
        (("note.md", "--stop", "2"), "2.0 is not in the range"),
    ],
)
def test_options_that_make_no_sense_are_a_usage_error(
    program: Any, note: Path, arguments: tuple[str, ...], said: str
) -> None:
    os.chdir(note.parent)
    assert said in program.refused("improve", *arguments, code=2)["message"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot read"), (b"\xff\xfe", "not UTF-8"), (b" \n", "empty"), (b"x" * 102_401, "max")],
)
def test_what_is_no_text_is_refused(
    program: Any, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "it.md"
    if content is not None:
        path.write_bytes(content)
    assert said in program.refused("improve", str(path))["message"]


def test_rounds_words_and_a_score_bound_the_run(program: Any, note: Path) -> None:
    assert "1 revision, ended: max iterations" in program.ok("improve", str(note), "--rounds", "1")
    assert "0 revisions, ended: target" in program.ok("improve", str(note), "--stop", "0.1")
    assert "No change" in program.ok("improve", str(note), "--rounds", "0")
    assert "-The PostgrSQL" in program.ok("improve", str(note), "--words", "4")


def test_a_run_is_recorded_for_the_user(program: Any, note: Path) -> None:
    seen = events(program.ok("improve", str(note), "--record", "--user", "ann", "--json"))
    episode_id = seen[-1]["result"]["metadata"]["episode_id"]
    assert seen[0]["episode_id"] == episode_id
    episode = program.json("episode", "get", episode_id, "--user", "ann")
    assert (episode["status"], episode["result"]) == ("done", seen[-1]["result"]["text"])
    assert "Recorded as episode improve-" in program.ok("improve", str(note), "--record")


def test_a_model_is_asked_with_llm(
    program: Any, note: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_ACTORS_LLM_MODEL", "tiny")
    monkeypatch.setenv("MEMORY_ACTORS_LLM_BASE_URL", server.url)
    critique = json.dumps({"score": 0.5, "critique": "Shorter."})
    server.script = [("says", critique), ("says", "Sail."), ("says", '{"score": 1}')]
    out = program.ok("improve", str(note), "--llm", "--goal", "be brief")
    assert "+Sail." in out
    assert "be brief" in server.bodies[0]["messages"][0]["content"]


def test_a_model_that_fails_is_an_error_and_writes_nothing(
    program: Any, note: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_ACTORS_LLM_MODEL", "tiny")
    monkeypatch.setenv("MEMORY_ACTORS_LLM_BASE_URL", server.url)
    server.script = [("says", "junk")]
    result = program("improve", str(note), "--llm", "--in-place")
    assert result.exit_code == 1
    assert "the critic raised LLMError" in result.stderr
    assert note.read_text() == TEXT


def test_control_characters_of_a_text_do_not_reach_the_terminal(program: Any) -> None:
    out = program.ok("improve", "-", stdin="In order to \x1b[31m sail.\n")
    assert "\x1b" not in out
    assert "\\x1b" in out
