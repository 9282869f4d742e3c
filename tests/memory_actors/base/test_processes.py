"""The packages that a child process imports, and the places it never imports from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import memory_actors
from memory_actors.base.processes import ROOT, ended, python

pytestmark = pytest.mark.user

LEFT_BEHIND = ("json", "msgspec", "pip", "statistics", "struct", "zstandard")
"""Modules that a child, or what it imports, may ask for."""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A directory with modules that tell when they are run."""
    folder = tmp_path / "somebody's project"
    folder.mkdir()
    for name in LEFT_BEHIND:
        told = tmp_path / f"{name} was run"
        (folder / f"{name}.py").write_text(f"open({str(told)!r}, 'w')\n")
    return folder


def was_run(trap: Path) -> list[str]:
    return sorted(path.name for path in trap.parent.glob("* was run"))


@pytest.mark.parametrize(
    "line",
    [
        ["verify"],
        ["repair", "another"],
        ["import", "memories.jsonl"],
        ["model", "install"],
    ],
    ids=lambda line: line[0],
)
@pytest.mark.anyio
async def test_no_command_runs_what_lies_in_the_current_directory(
    line: list[str], trap: Path, open_memory
) -> None:
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")
    (trap / "memories.jsonl").write_text('{"content": "likes cake"}\n')
    surroundings = {
        **os.environ,
        "MEMORY_ACTORS_DATA": str(trap.parent / "memory"),
        "MEMORY_ACTORS_MODEL_DIR": str(trap.parent / "no model here"),
        "PATH": "",  # no uv
        "PIP_FIND_LINKS": "",
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": str(ROOT),
    }

    run = subprocess.run(
        [sys.executable, "-P", "-m", "memory_actors.cli", *line],
        cwd=trap, env=surroundings, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert was_run(trap) == [], run.stderr
    without_a_model = line[0] in {"import", "model"}
    assert run.returncode == without_a_model, run.stderr
    assert ("could not fetch" in run.stderr) == without_a_model


def test_a_child_imports_what_its_parent_does(
    trap: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child imports the packages of its parent, and nothing of its own directory.

    From anywhere, of a package that is not installed; `statistics` is the standard library's.
    """
    own = tmp_path / "of the parent, é:"  # a colon would part two entries of PYTHONPATH
    own.mkdir()
    (own / "only_here.py").write_text("")
    monkeypatch.setattr(sys, "path", ["", *sys.path, str(own)])
    monkeypatch.setenv("PYTHONPATH", os.pathsep)  # two empty entries: the current directory
    asked = "import memory_actors, only_here, statistics; import sys; print(*sys.argv[1:], "
    asked += "memory_actors.__file__, statistics.mean([7]), sep='|', file=sys.stderr)"

    code, said = ended(python(asked, "a b"), trap, 60, {})

    assert (code, said) == (0, f"a b|{memory_actors.__file__}|7\n")
    assert was_run(trap) == []


def test_a_process_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        ended(python("import time; time.sleep(60)"), tmp_path, 0.2, {})
