"""Mutants: which small faults there are, and that one survives exactly where no test notices."""

import inspect
from pathlib import Path

import pytest

from bench.mutants import ROOT, TESTS, outcomes
from bench.mutants.mutations import count
from memory_actors.kinds.user_state import PARTS

SOURCE = '''
LIMIT = 3


def room(used: int = 0) -> list[int]:
    """Say whether there is room for 1 more."""
    assert used >= 0
    if used < LIMIT and not used == 7:
        print(f"{used + 1}")
        return [used + 1]
    return []
'''


def test_every_decision_is_tried_and_every_module_and_its_tests_are_there() -> None:
    decisions = [one for part in PARTS for one in part.decisions().values()]
    files = {Path(inspect.getfile(getattr(one, "func", one))) for one in decisions}
    assert {file.relative_to(ROOT).as_posix() for file in files} <= TESTS.keys()
    for module, tests in TESTS.items():
        assert count((ROOT / module).read_text()), module
        assert all((ROOT / path.partition("::")[0]).exists() for path in tests), module


@pytest.mark.parametrize("conftest", ["", "import gc\n\ngc.freeze()\n"], ids=["", "frozen"])
def test_a_mutant_survives_where_no_test_notices(tmp_path: Path, conftest: str) -> None:
    """Also where the garbage of a collection is frozen, as this project's own tests do."""
    (tmp_path / "room.py").write_text(SOURCE)
    (tmp_path / "conftest.py").write_text(f"import room  # noqa: F401\n{conftest}")
    (tmp_path / "test_room.py").write_text(
        "from room import room\n\n\ndef test_room():\n    assert room(1) == [2]\n"
    )
    as_it_is, *tried = outcomes(tmp_path, "room.py", ["test_room.py"], 20, 1)
    assert as_it_is.fate == "survived"
    survived = [one.mutant for one in tried if one.fate == "survived"]
    assert survived == [
        "8: used < LIMIT and (not used == 7) -> used < LIMIT or not used == 7",
        "8: used < LIMIT -> used <= LIMIT",
        "8: 7 -> 8",
        "9: print(f'{used + 1}') -> left out",
    ]
    assert len(tried) == 9
    assert (tmp_path / "room.py").read_text() == SOURCE
