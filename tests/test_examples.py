"""The programs in `examples` print what they say."""

import ast
import textwrap
from pathlib import Path

import pytest
from support.pages import ROOT, printed_by

PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
LINES_MAX = 60


def promised(program: str) -> str:
    """Return the output that the docstring names."""
    told = ast.get_docstring(ast.parse(program))
    assert told is not None
    return textwrap.dedent(told.split("Prints:\n\n")[1]) + "\n"


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_an_example_is_short_and_prints_what_it_says(path: Path, tmp_path: Path) -> None:
    program = path.read_text("utf-8")
    assert len(program.splitlines()) <= LINES_MAX
    assert printed_by(tmp_path, str(path)) == promised(program)
    assert not list(tmp_path.iterdir())  # it leaves nothing behind


def test_the_page_lists_every_example() -> None:
    page = (ROOT / "examples/README.md").read_text("utf-8")
    assert [path.name for path in PROGRAMS if f"]({path.name})" not in page] == []
    assert len(PROGRAMS) >= 6
