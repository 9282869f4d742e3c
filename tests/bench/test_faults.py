"""The machinery of the fault matrix: what a trial tells of its end, and what makes a row fail."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import whole_machine

from bench.__main__ import main
from bench.faults import model
from bench.faults.preload import CannotBuild, build, watched

ROOT = Path(__file__).parents[2]
TRIALS = """
import os, signal, sys, time
from bench.faults.trials import entering, in_child
def fail(): raise ZeroDivisionError("by zero")
def die():
    entering("dying")
    os.kill(os.getpid(), signal.SIGABRT)
trials = {
    "returns": lambda: ("refused", "by a typed error"),
    "raises": fail,
    "dies": die,
    "leaves": lambda: os._exit(3),
    "hangs": lambda: time.sleep(30),
}
for name, trial in trials.items():
    print(name, "|", in_child(trial, 0.5))
"""
FAILS = """
import errno, os, sys
from bench.__main__ import main
from bench.faults import model
from bench.faults.preload import Failing, failing
path = os.path.join(os.environ["FAULTS_ROOT"], "file")
with open(path, "wb", buffering=0) as file:
    with failing(Failing.WRITE, 2, errno.EIO) as failed:
        for n in range(3):
            try:
                print(n, file.write(b"data"))
            except OSError as error:
                print(n, errno.errorcode[error.errno])
    print("failed", failed[0])
    with failing(Failing.SYNC, 1, errno.EIO, on=True) as failed:
        for n in range(2):
            try:
                os.fsync(file.fileno())
            except OSError as error:
                print("sync", errno.errorcode[error.errno])
    os.fsync(file.fileno())
print(open(path, "rb").read())
"""


def output_of(program: str, env: dict[str, str] | None = None) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", program], env={**(env or os.environ), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_trial_tells_how_it_ended() -> None:
    endings = dict(each.split(" | ") for each in output_of(TRIALS))

    assert endings["returns"] == "refused: by a typed error"
    assert endings["raises"].startswith("untyped: ZeroDivisionError: by zero at")
    assert endings["dies"] == "dead: dying, ended by SIGABRT"
    assert endings["leaves"] == "dead: starting, ended by itself"
    assert endings["hangs"] == "hung: no end within 0.5 s"


def test_the_call_that_was_chosen_fails_and_no_other(tmp_path: Path) -> None:
    try:
        shared = build(tmp_path)
    except CannotBuild as error:
        pytest.skip(str(error))

    said = output_of(FAILS, watched(shared, tmp_path))

    assert said == ["0 4", "1 EIO", "2 4", "failed 1", "sync EIO", "sync EIO", "b'datadata'"]


def test_a_row_that_is_not_there_is_refused_by_name() -> None:
    done = CliRunner().invoke(main, ["faults", "--rows", "nonsense"])

    assert done.exit_code == 2
    assert "nonsense" in done.output


def test_the_row_of_the_model_names_the_seed_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def many_steps(_wanted: int, _seed: int) -> Iterator[tuple[int, int]]:
        yield 50, 1
        raise AssertionError("live is not replay")

    monkeypatch.setattr(whole_machine, "many_steps", many_steps)

    row = model.run("quick", 7, tmp_path)

    assert (row.tried, row.survived, row.lost) == (51, 50, 1)
    assert "seed 8" in row.failures[0]
    assert "live is not replay" in row.failures[0]
