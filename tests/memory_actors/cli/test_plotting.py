"""`--plot`: bars in the terminal, and the same as a picture."""

import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_actors.cli.plotting import CELLS, Bar, drawn, marks


def test_a_bar_is_as_long_as_its_part() -> None:
    assert drawn(Bar("", 0.0)).plain == "·" * CELLS
    assert drawn(Bar("", 0.5)).plain == "█" * (CELLS // 2) + "·" * (CELLS // 2)
    assert drawn(Bar("", 7.0)).plain == "█" * CELLS
    assert drawn(Bar("", 0.0, begin=1.0)).plain == "·" * (CELLS - 1) + "●"


def test_moments_stand_between_the_first_and_the_last() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert marks([start + timedelta(hours=n) for n in (0, 1, 4)]) == [0.0, 0.25, 1.0]
    assert marks([start]) == [0.0]


def test_usage_is_drawn_in_the_terminal_and_into_a_file(program: Any, tmp_path: Path) -> None:
    program.ok("add", "likes tea")
    told = program.ok("usage", "--plot")
    assert "long_term memories" in told
    assert "1 of 100,000" in told
    picture = tmp_path / "usage.svg"
    program.ok("usage", "--plot", str(picture))
    svg = picture.read_text()
    assert ET.fromstring(svg).tag.endswith("svg")
    assert "long_term" in svg
    assert "http" not in svg.replace("http://www.w3.org", "").replace(
        "https://www.textualize.io", ""
    )


def test_history_is_drawn_along_the_time(program: Any) -> None:
    added = program.json("add", "likes tea")["memory_id"]
    program.ok("delete", added)
    told = program.ok("history", added, "--plot")
    assert told.count("●") + told.count("·" * CELLS) >= 1
    assert "long_term.deleted" in told


@pytest.mark.parametrize("where", ["usage.png", "nowhere/usage.svg"])
def test_what_cannot_be_drawn_into_is_said(program: Any, tmp_path: Path, where: str) -> None:
    program.ok("add", "likes tea")
    told = program("usage", "--plot", str(tmp_path / where))
    assert told.exit_code == 1
    assert "svg" in told.stderr or "cannot be written" in told.stderr
