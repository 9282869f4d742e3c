"""Pages of the docs: their blocks of code, and what these print when they are run."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRINTED = re.compile(r"^ *print\(.*?\)(?:  # (.*))?$", re.MULTILINE)
PROMPTS = re.compile(r"^(?:(?:>>>|\.\.\.) )+", re.MULTILINE)
RAISED = re.compile(r"^[\w.]*Error\b", re.MULTILINE)


def blocks(name: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text("utf-8"), re.DOTALL)


def printed_by(directory: Path, *arguments: str, stdin: str | None = None) -> str:
    """Run Python with these arguments; return what it prints, where nothing was raised."""
    run = subprocess.run(
        [sys.executable, *arguments], cwd=directory, input=stdin,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True, capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert not RAISED.search(run.stderr), run.stderr  # a prompt goes on after an error
    return run.stdout


def check_printed(code: str, output: str) -> None:
    """Check that each line behind a `print` is printed, in their order."""
    said = PRINTED.findall(code)
    assert len(said) == len(re.findall(r"^ *print\(", code, re.MULTILINE)) > 0
    lines = iter(PROMPTS.sub("", output).splitlines())
    same = doctest.OutputChecker().check_output
    for want in said:
        assert want, "each print of the tutorial says what it prints"
        assert any(same(f"{want}\n", f"{line}\n", doctest.ELLIPSIS) for line in lines), want
