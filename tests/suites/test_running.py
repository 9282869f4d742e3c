"""A run of a suite fails where a test does, and where one is neither run nor left out."""

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest
from msgspec.structs import replace

from suites.declared import Suite
from suites.obtaining import cache
from suites.running import Result, run

STANDING_IN = "suites.stand_ins.example"
SUITE = Suite(
    sdist="thing==1.0",
    sha256="0" * 64,
    files=("tests/test_thing.py",),
    stand_in=STANDING_IN,
    workers=0,
    name="thing",
    left_out={"tests/api/": "Of its server."},
)
TESTS = """
import pytest
from thing.store import Store
from tests.numbers import ONE

@pytest.mark.parametrize("n", [1, 2])
def test_ours(n): assert Store.maker == "ours"

class TestMore:
    def test_false(self): assert ONE == 2

def test_skipped(): pytest.skip("not here")

@pytest.mark.xfail
def test_expected(): assert False
"""


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def sdist() -> Path:
    """An sdist that was downloaded and unpacked before."""
    place = cache() / f"thing-1.0-{SUITE.sha256[:12]}"
    rmtree(place, ignore_errors=True)
    root = place / "thing-1.0"
    for name, text in {
        "tests/__init__.py": "",
        "tests/numbers.py": "ONE = 1",
        "tests/test_thing.py": TESTS,
        "tests/api/test_server.py": "assert False, 'never imported'",
        "thing/store.py": "assert False, 'the stand-in takes its place'",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def ran(**left_out: str) -> Result:
    listed = {f"tests/test_thing.py::{name}": why for name, why in left_out.items()}
    return run(replace(SUITE, left_out=SUITE.left_out | listed))


def problems(result: Result) -> list[str]:
    """Return what the problems are about: the words before the hint, without pytest's output."""
    return [one.partition(":\n")[0].partition(": ")[0] for one in result.problems]


def test_a_run_in_which_all_pass_that_are_not_left_out_passes() -> None:
    result = ran(TestMore="Another thing.", test_skipped="No such place.")
    assert result.problems == []
    assert (result.items, result.run, result.passed) == (5, 3, 3)
    assert sum(result.items_left_out.values()) == 2


def test_what_fails_or_is_skipped_must_be_left_out_with_a_reason() -> None:
    assert problems(ran()) == [
        "tests/test_thing.py::TestMore::test_false failed",
        "tests/test_thing.py::test_skipped skipped",
        "pytest ended with 1",
    ]
