"""A plugin for pytest: puts the stand-in in place, leaves out what is listed, says what ran.

It runs in the process of the owner's tests and, with xdist, in each of its workers; the process
that holds the results writes them as JSON. `MEMORY_ACTORS_SUITE` names the file with the task.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from suites.declared import Report, Task, reason_of

TASK = msgspec.json.decode(Path(os.environ["MEMORY_ACTORS_SUITE"]).read_bytes(), type=Task)
suite = TASK.suite
collected: dict[str, str | None] = {}
"""Why each item is left out, by node id; None: it runs."""
outcomes: dict[str, str] = {}
"""`passed`, `failed`, `skipped` or `xfailed`, by node id."""
broken: list[str] = []
"""Files that cannot be collected."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Put the stand-in where the tests import from: before any of their code runs."""
    if suite.stand_in:
        import_module(suite.stand_in).install()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is listed."""
    collected.update({item.nodeid: reason_of(item.nodeid, suite.left_out) for item in items})
    left_out = [item for item in items if collected[item.nodeid] is not None]
    items[:] = [item for item in items if collected[item.nodeid] is None]
    config.hook.pytest_deselected(items=left_out)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that cannot be imported."""
    if report.failed:
        broken.append(report.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how an item ended: a failure of any phase counts, of several attempts the last."""
    if report.outcome == "failed":
        outcomes[report.nodeid] = "failed"
    elif hasattr(report, "wasxfail"):
        outcomes[report.nodeid] = "xfailed"
    elif report.skipped or report.when == "call":
        outcomes[report.nodeid] = report.outcome


class OfWorkers:
    """The part for a run with workers, whose notes come with their end."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take a worker's notes."""
        notes = getattr(node, "workeroutput", {})
        collected.update(notes.get("collected", {}))
        broken.extend(notes.get("broken", ()))


def pytest_configure(config: pytest.Config) -> None:
    """Expect the notes of workers."""
    config.pluginmanager.register(OfWorkers())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the notes on: a worker to the process that started it, that one to the runner."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output.update(collected=collected, broken=broken)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the report, at the end of all."""
    if not hasattr(config, "workeroutput"):
        said = Report(collected, outcomes, sorted(set(broken)))
        Path(TASK.report).write_bytes(msgspec.json.encode(said))
