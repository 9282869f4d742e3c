"""What clients know of operations and routes is what scripts make of them."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["operations", "routes"])
def test_a_table_is_what_its_script_makes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run `python scripts/generate_operations.py` (or routes) after a change of what it reads."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    before = {*sys.modules}
    try:
        made = import_module(f"generate_{name}")
        assert made.text() == (ROOT / f"memory_actors/sharing/generated_{name}.py").read_text()
    finally:
        for module in ({"generate_operations", "generate_routes"} & sys.modules.keys()) - before:
            del sys.modules[module]
