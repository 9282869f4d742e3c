"""Runs a suite in its own process and environment, and judges it."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec

from suites.declared import Report, Suite, Task, names_of, reason_of, test_files
from suites.obtaining import environment, unpacked

RUN_S_MAX = 1_800
ITEM_S_MAX = 120
SURROUNDINGS = {
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": str(Path(__file__).parents[1]),  # of this package
}


class Result(msgspec.Struct):
    """A run of a suite."""

    suite: str
    package: str
    version: str
    items: int
    """Of the files that run: those that ran, and those left out."""
    run: int
    passed: int
    left_out: dict[str, str]
    """The reasons, by what is listed: an item, a test, a file or a folder."""
    items_left_out: dict[str, int]
    """How many items of the files that run each entry leaves out; none of a whole file."""
    problems: list[str]
    """Why the run fails; none: it has passed."""
    seconds: float


def run(suite: Suite) -> Result:
    """Run a suite.

    :raises NotObtainedError: its sdist or its environment cannot be had.
    """
    root = unpacked(suite)
    started_s = perf_counter()
    done, report = _pytest(suite, suite.files, ("-q", "-n", str(suite.workers)))
    seconds = perf_counter() - started_s
    problems = list(_problems(suite, root, report))
    if done.returncode != 0 or not report.outcomes:
        problems.append(f"pytest ended with {done.returncode}:\n{done.stdout[-6_000:]}")
    return _result(suite, report, problems, seconds)


def run_by_hand(suite: Suite, options: Sequence[str]) -> int:
    """Run a suite with options for pytest, shown as it goes and without a judgement."""
    done, _ = _pytest(suite, suite.files, options, shown=True)
    return done.returncode


def _pytest(
    suite: Suite, files: Iterable[str], options: Iterable[str], *, shown: bool = False
) -> "tuple[subprocess.CompletedProcess[str], Report]":
    """Run the owner's tests where they were unpacked, with the owner's settings of pytest."""
    ours = ["-p", "suites.plugin", "-p", "no:cacheprovider", f"--timeout={ITEM_S_MAX}"]
    with TemporaryDirectory() as folder:
        task, report = Path(folder, "task.json"), Path(folder, "report.json")
        task.write_bytes(msgspec.json.encode(Task(suite, str(report))))
        done = subprocess.run(
            [environment(suite), "-m", "pytest", *ours, *suite.options, *options, *files],
            cwd=unpacked(suite),
            env={**os.environ, **SURROUNDINGS, "MEMORY_ACTORS_SUITE": str(task)},
            stdin=subprocess.DEVNULL,
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )
        said = report.read_bytes() if report.exists() else b"{}"
    return done, msgspec.json.decode(said, type=Report)


def _problems(suite: Suite, root: Path, report: Report) -> Iterator[str]:
    """Yield why a run fails."""
    left_out = suite.left_out
    hint = f"make it pass, or name it in left_out/{suite.name}.toml with a reason"
    for node in report.broken:
        yield f"{node} cannot be collected"
    for node, reason in report.collected.items():
        outcome = report.outcomes.get(node, "not run")
        if reason is None and outcome not in ("passed", "xfailed"):
            yield f"{node} {outcome}: {hint}"
    there = test_files(suite, root)
    for file in there:
        if file not in suite.files and reason_of(file, left_out) is None:
            yield f"{file} is not run: {hint}"
    known = {name for node in [*there, *report.collected] for name in names_of(node)}
    for listed in left_out:
        if listed not in known:
            yield f"{listed} is left out, and there is no such test: strike it from the list"


def _result(suite: Suite, report: Report, problems: list[str], seconds: float) -> Result:
    listed = suite.left_out
    counted: Counter[str] = Counter()
    for node, reason in report.collected.items():
        if reason is not None:
            counted[next(name for name in names_of(node) if name in listed)] += 1
    outcomes = Counter(report.outcomes.values())
    return Result(
        suite=suite.name,
        package=suite.package,
        version=suite.version,
        items=len(report.collected),
        run=outcomes.total(),
        passed=outcomes["passed"] + outcomes["xfailed"],
        left_out=listed,
        items_left_out=dict(counted),
        problems=problems,
        seconds=seconds,
    )
