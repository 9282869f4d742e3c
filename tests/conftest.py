"""Asynchronous tests run on asyncio; what tests write goes to memory where there is plenty."""

import faulthandler
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from support.postgres import lent_url, stop_session

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# No example is too slow: what a machine does besides is no fault of the code. A run tries the same
# examples each time, so what fails is the change; `--hypothesis-profile random` tries others.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", UNTIMED, derandomize=True)
settings.register_profile("random", UNTIMED)
settings.load_profile("same")

# Tests run side by side, and the threads of BLAS would take the cores from each other. It looks
# when numpy is loaded, in the processes that tests start, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

MEMORY = Path("/dev/shm")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FREE_BYTES_MIN = 2 << 30  # a whole run writes a few hundred megabytes, and removes what passed

STUCK_S = 60.0
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Have no test wait for a disk: a suite of thousands of stores takes half the time.

    Nothing here proves anything about a disk by writing to one: faults come from above the file
    system (`bench/faults`), and a process that is killed leaves the same behind. Whoever names a
    directory (`--basetemp`, TMPDIR) gets that one.
    """
    if config.option.basetemp is None and "TMPDIR" not in os.environ and _plenty():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # look again
    config.stash[STDERR] = os.dup(2)  # the other is captured while tests run


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process, and say where it was, if a test does not end that has timed out.

    A time-out raises an exception in the test, which cannot end what waits for something while it
    cleans up. The whole run would wait for ever, and nobody could tell for which test.
    """
    marked = item.get_closest_marker("timeout")
    after_s = float(marked.args[0] if marked else item.config.getini("timeout"))
    _end_after(after_s + STUCK_S, item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Go on watching a test that has failed, and is to clean up: pytest stops that here."""
    if isinstance(node, pytest.Item):
        _end_after(STUCK_S, node)


def _end_after(seconds: float, item: pytest.Item) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[STDERR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while ten thousand tests are collected, nor among them afterwards.

    They and all modules stay until the end. To look through them again and again takes a fifth of
    the time of collecting.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Stop the database that tests have started."""
    stop_session()


@pytest.fixture(autouse=True)
def _logging_untouched() -> Iterator[None]:
    """Undo what a command, or the bench, that a test runs in its process has done to logging."""
    yield
    if "structlog" in sys.modules:
        sys.modules["structlog"].reset_defaults()


def _plenty() -> bool:
    return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= FREE_BYTES_MIN


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A browser without a window, skipped with a reason where there is none.

    As long as it is open its event loop runs in this thread: other modules have none of it.
    """
    at = next(filter(None, map(shutil.which, BROWSERS)), None)
    if at is None:
        pytest.skip("no Chromium is installed here: `apt-get install chromium`")
    from playwright.sync_api import sync_playwright  # of the extra `dev`

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=at, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url() -> Iterator[str]:
    """Return the URL of an empty schema."""
    with lent_url() as lent:
        yield lent
