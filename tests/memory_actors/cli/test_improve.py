"""improve: a file in, a difference out, and the file as it was."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.llm_server import server

from memory_actors import Critique, LocalCritic

__all__ = ["server"]

TEXT = "In order to sail, wait.\nThe PostgrSQL job ran well.\nThe PostgrSQL job ran well.\n"
BEST = "To sail, wait.\nThe PostgreSQL job ran well.\n"
EDITED = "Edited by its owner.\n"
TERM = ("--term", "PostgreSQL")


@pytest.fixture
def note(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text(TEXT)
    return path


def edits_during_the_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody edit a file while its text is judged."""
    judge = LocalCritic.judge

    def judged(self: LocalCritic, text: str) -> Critique:
        if path.exists() or text == TEXT:
            path.write_text(EDITED)
        return judge(self, text)

    monkeypatch.setattr(LocalCritic, "judge", judged)


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


def test_a_file_edited_during_the_run_keeps_the_edit(
    program: Any, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits_during_the_run(note, monkeypatch)
    note.chmod(0o600)
    for ending in ("improved", "improved-2"):
        result = program("improve", str(note), *TERM, "--in-place")
        kept = note.with_name(f"note.md.{ending}")
        assert result.exit_code == 1
        assert "+To sail, wait." in result.stdout
        assert "Written" not in result.stdout
        assert "was changed during the run, and stays as it is" in result.stderr
        assert f"the improved text is in {kept}" in result.stderr
        assert (kept.read_text(), kept.stat().st_mode & 0o777) == (BEST, 0o600)
        assert note.read_text() == EDITED
        note.write_text(TEXT)


def test_an_output_edited_during_the_run_keeps_the_edit(
    program: Any, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = note.with_name("out.md")
    edits_during_the_run(out, monkeypatch)
    result = program("improve", str(note), *TERM, "--output", str(out), "--json")
    *_, finished, error = events(result.stdout)
    assert (result.exit_code, finished["type"]) == (1, "finished")
    assert "out.md.improved" in error["error"]["message"]
    assert out.read_text() == EDITED
    assert out.with_name("out.md.improved").read_text() == BEST


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
    out = tmp_path / "out.md"
    out.write_text("kept")
    assert said in program.refused("improve", str(path), "--output", str(out))["message"]
    assert out.read_text() == "kept"


def test_a_model_is_asked_with_llm(program: Any, note: Path, llm: Any) -> None:
    critique = json.dumps({"score": 0.5, "critique": "Shorter."})
    llm.script = [("says", critique), ("says", "Sail."), ("says", '{"score": 1}')]
    out = program.ok("improve", str(note), "--llm", "--goal", "be brief")
    assert "+Sail." in out
    assert "be brief" in llm.bodies[0]["messages"][0]["content"]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_failing_run_writes_its_best_text(
    program: Any, note: Path, llm: Any, as_json: bool
) -> None:
    """Of a run that fails the best text so far goes to the output."""
    critiques = [("says", json.dumps({"score": score, "critique": "On."})) for score in (0.3, 0.6)]
    llm.script = [critiques[0], ("says", "Better."), critiques[1], ("says", ""), ("says", "")]
    llm.script += [("says", "")] * 2
    out = note.with_name("out.md")
    more = ("--json",) if as_json else ()
    result = program("improve", str(note), "--llm", "--output", str(out), *more)
    assert result.exit_code == 1
    assert out.read_text() == "Better.\n"
    assert f"The best text so far (score 0.600) is in {out}." in result.stderr
    if as_json:
        *_, failed, error = events(result.stdout)
        assert (failed["type"], failed["result"]["text"]) == ("error", "Better.\n")
        assert error["error"] == {"type": failed["error"], "message": failed["message"]}
