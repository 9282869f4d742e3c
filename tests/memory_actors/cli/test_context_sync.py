"""context sync: a document and a file in step, for people, for programs, and going on."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.programs import INTERRUPTIBLE

ROOT = Path(__file__).parents[3]
TEXT = "# Memory\n\n## People\n\n- Ann likes tea\n- Bob plays chess\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "MEMORY.md"
    made.write_text(TEXT)
    return made


def test_a_file_and_the_document_are_brought_in_step(program, file) -> None:
    report = program.json("context", "sync", str(file))
    assert (report["document"], report["changes"], report["file_changed"]) == (
        "MEMORY.md", 4, False
    )  # fmt: skip
    assert program.json("context", "show")["text"] == TEXT
    program.ok("context", "add", "Cy is new", "--section", "People")
    said = program.ok("context", "sync", str(file))
    assert f"File {file} and document MEMORY.md are in step: the file was written." in said
    assert file.read_text() == TEXT + "- Cy is new\n"
    assert "nothing to do" in program.ok("context", "sync", str(file))


def test_a_conflict_is_shown_with_both_texts(program, file) -> None:
    program.ok("context", "sync", str(file))
    ann = program.json("context", "list")[0]["entry_id"]
    program.ok("context", "edit", ann, "Ann likes black tea")
    file.write_text(TEXT.replace("likes tea", "likes green tea"))
    result = program("context", "sync", str(file))
    assert result.exit_code == 0
    for part in ("both were kept", "document: Ann likes black tea", "file: Ann likes green tea"):
        assert part in result.stderr
    assert "- Ann likes black tea\n- Ann likes green tea\n" in file.read_text()


def test_what_is_too_large_is_refused_or_makes_room(program, file) -> None:
    lines = "".join(f"- entry {n} with several words in it\n" for n in range(300))
    file.write_text(TEXT + lines)
    error = program.refused("context", "sync", str(file))
    assert (error["type"], "hard limit" in error["message"]) == ("ContextLimitError", True)
    assert file.read_text() == TEXT + lines
    said = program.ok("context", "sync", str(file), "--auto-archive")
    assert "Archived to make room: " in said
    assert program.json("context", "show")["text"] == file.read_text()
    assert "entry 0 " in file.with_name("MEMORY-archive.md").read_text()


def test_watching_goes_on_until_it_is_interrupted(file, tmp_path) -> None:
    command = [
        *INTERRUPTIBLE, "--data", str(tmp_path / "memory"),
        "context", "sync", str(file), "--watch", "--json",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MEMORY_ACTORS_MODEL_DIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["changes"] == 4
        file.write_text(TEXT + "- Cy is new\n")
        assert json.loads(process.stdout.readline())["changes"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
