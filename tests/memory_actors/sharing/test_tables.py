"""What clients know of operations and routes is what scripts make of them."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["declared", "offered"])
def test_a_table_is_what_its_script_makes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `python scripts/declared.py` or `scripts/offered.py` after a change of what they read."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    before = {*sys.modules}
    try:
        made = import_module(name)
        assert made.text() == (ROOT / f"memory_actors/sharing/{name}.py").read_text()
    finally:
        for module in ({"declared", "offered"} & sys.modules.keys()) - before:
            del sys.modules[module]
