"""The counts of `python -m bench house`, on sources whose figures are known."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.floors import circles, floors
from bench.house import GOALS, File, measured, read

SOURCE = '''"""What it is."""

import json
from pathlib import (
    Path,
)


class Twice:
    """A class."""

    def _once(self):
        return self._twice() + _nowhere()

    def _twice(self):
        return [self._twice, self._once]


class Inner:
    class Twice:
        pass


def episode(row):
    """An episode.

    It has steps.
    """
    return dict(goal=row["task"], steps=1, result=None)
'''


def sources(directory: Path) -> list[File]:
    (directory / "one.py").write_text(SOURCE)
    return [read(directory / "one.py")]


def test_what_is_read_from_the_text_is_what_stands_there(tmp_path: Path) -> None:
    found = {one.name: one for one in measured(sources(tmp_path))}
    lines = len(SOURCE.splitlines())
    assert found["product lines"].today == lines
    assert found["import lines, %"].today == 100 * 4 / lines
    assert found["private functions named once in their file, %"].today == 50
    assert "_once" in found["private functions named once in their file, %"].details[0]
    assert found["class names defined twice or more"].today == 1
    assert found["docstrings without a noun for a subject, %"].today == pytest.approx(100 / 3)
    assert found["files that list the fields of a relationship"].today == 0
    assert len(found["files that list the fields of an episode"].details) == 1
    assert found["longest function"].today == 2


def test_floors_are_the_longest_chain() -> None:
    """Floors are the longest chain, and a circle is one of them."""
    assert floors({"top": {"low", "mid"}, "mid": {"low"}, "low": set()}) == ["top", "mid", "low"]
    circle = {"top": {"a"}, "a": {"b"}, "b": {"a", "low"}, "low": set()}
    assert floors(circle) == ["top", "circle: a, b", "low"]
    assert circles(circle) == [["a", "b"]]
    assert circles({"top": {"low"}, "low": set()}) == []


def test_the_command_has_a_figure_for_each_goal(tmp_path: Path) -> None:
    """The command has a figure for each goal and lists what it counted."""
    arguments = ["house", "--list", "crosses", "--dir", str(tmp_path), "--json"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    report = json.loads(result.stdout)
    table, add, *_ = report["tables"]
    today = {name: figure for name, figure, _ in table["rows"]}
    assert set(GOALS) <= set(today)
    paths = [path for (path,) in add["rows"]]
    assert len(paths) == len(set(paths)) == today["files that an add crosses"]
    assert {path.split("/")[0] for path in paths} == {"memory_actors", "eventlog"}
    assert 1 < today["files that a get crosses"] < today["files that an add crosses"]
