"""What a suite is: a pinned sdist, its tests, the stand-in for what they import, what is left out.

`suites.toml` declares each suite; `left_out/NAME.toml` says what of it does not run, and why.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

HERE = Path(__file__).parent
TEST_FILES = ("test_*.py", "*_test.py")


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A declaration in `suites.toml`; the name of its table is the name of the suite."""

    files: tuple[str, ...]
    """The test files that run, from the root of the sdist."""
    sdist: str = ""
    """The requirement: `name==version`. None: the files are our own tests, in this checkout, that
    want packages which the extra `dev` does not bring; none of them may be skipped then."""
    sha256: str = ""
    """Of the file that the package index has for the sdist."""
    stand_in: str = ""
    """The module whose `install()` puts ours in place of what the tests import."""
    needs: tuple[str, ...] = ()
    """Requirements of the tests beside the extra `dev`; they go to an environment apart."""
    tests: str = "tests"
    """The folder of the sdist in which each test file must run or be left out with a reason."""
    options: tuple[str, ...] = ()
    """More options for pytest."""
    workers: int = 2
    """The processes that share the items: more than cores where items wait; 0 for none apart."""
    name: str = ""
    left_out: dict[str, str] = {}
    """Why each file, test or item does not run, by node id; a folder ends in a slash."""

    @property
    def package(self) -> str:
        """Return the name of the package; of our own tests, the first that they need."""
        return (self.sdist or self.needs[0]).partition("==")[0]

    @property
    def version(self) -> str:
        """Return the version of the package."""
        return (self.sdist or self.needs[0]).partition("==")[2]


class Task(msgspec.Struct, frozen=True):
    """A run, as the plugin is told of it."""

    suite: Suite
    report: str
    """The file for the report."""


class Report(msgspec.Struct, frozen=True):
    """A run, as the plugin tells of it."""

    collected: dict[str, str | None] = {}
    """Why each item of the files that run is left out, by node id; None: it is not."""
    outcomes: dict[str, str] = {}
    """`passed`, `failed`, `skipped` or `xfailed`, by node id."""
    broken: list[str] = []
    """The files that cannot be collected."""


def suites() -> dict[str, Suite]:
    """Return the suites by name, as `suites.toml` and `left_out` declare them.

    :raises ValueError: something is left out without a reason.
    """
    return {
        name: msgspec.convert(one | {"name": name, "left_out": _left_out(name)}, Suite)
        for name, one in _read(HERE / "suites.toml").items()
    }


def _left_out(name: str) -> dict[str, str]:
    path = HERE / "left_out" / f"{name}.toml"
    listed = _read(path) if path.exists() else {}
    for node, reason in listed.items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"{path.name}: {node} is left out without a reason")
    return listed


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def names_of(node: str) -> Iterable[str]:
    """Yield what may be listed for an item, the nearest first.

    That is itself, each of its parameters in brackets, its test, class and file, and its folders.
    """
    yield node
    if "[" in node:
        node, _, parameters = node.partition("[")
        yield from (f"[{one}]" for one in parameters.removesuffix("]").split("-"))
        yield node
    while "::" in node:
        node = node.rpartition("::")[0]
        yield node
    for folder in PurePosixPath(node).parents:
        yield f"{folder}/"


def reason_of(node: str, left_out: Mapping[str, str]) -> str | None:
    """Return why an item, a test or a file is left out; None: it is not."""
    return next((left_out[name] for name in names_of(node) if name in left_out), None)


def test_files(suite: Suite, root: Path) -> list[str]:
    """Return the test files in the suite's folder of an unpacked sdist; none of a checkout."""
    if not suite.sdist:
        return []
    found = {path for pattern in TEST_FILES for path in (root / suite.tests).rglob(pattern)}
    return sorted(path.relative_to(root).as_posix() for path in found)
