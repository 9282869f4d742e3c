"""`--plot`: bars in the terminal, and the same as a picture."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest


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


@pytest.mark.parametrize("where", ["usage.png", "nowhere/usage.svg"])
def test_what_cannot_be_drawn_into_is_said(program: Any, tmp_path: Path, where: str) -> None:
    program.ok("add", "likes tea")
    told = program("usage", "--plot", str(tmp_path / where))
    assert told.exit_code == 1
    assert "svg" in told.stderr or "cannot be written" in told.stderr
