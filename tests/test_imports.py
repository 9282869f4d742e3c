"""Public names are imported at first use, and importing a package loads none of its modules."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import eventlog
import memory_actors

PACKAGES = pytest.mark.parametrize(
    "package", [eventlog, memory_actors], ids=lambda one: one.__name__
)


def imported(package: ModuleType) -> dict[str, tuple[str, str | None]]:
    """Return the names that a stub imports, with the module and the `as` of each."""
    tree = ast.parse(Path(package.__file__ or "").with_suffix(".pyi").read_text("utf-8"))
    assert all(isinstance(node, ast.ImportFrom) for node in tree.body[1:])
    return {
        alias.name: (node.module or "", alias.asname)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def loaded_by(code: str) -> set[str]:
    """Return the modules that a new Python process has after some code."""
    code = f"{code}\nimport json, sys; print(json.dumps([*sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    return set(json.loads(run.stdout))


@PACKAGES
def test_a_type_checker_sees_the_public_names_and_no_others(package: ModuleType) -> None:
    names = imported(package)
    assert sorted(names) == package.__all__
    assert [name for name, (_, known_as) in names.items() if known_as != name] == []


@PACKAGES
def test_every_public_name_is_that_of_its_module(package: ModuleType) -> None:
    for name, (module, _) in imported(package).items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
        assert name in dir(package)


@PACKAGES
def test_all_public_names_can_be_imported_at_once(package: ModuleType) -> None:
    names: dict[str, object] = {}
    exec(f"from {package.__name__} import *", names)
    assert set(package.__all__) == names.keys() - {"__builtins__"}


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'memory_actors' has no attribute 'Hits'"):
        memory_actors.Hits  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="Hits"):
        exec("from memory_actors import Hits")


def test_the_module_improve_does_not_hide_the_function() -> None:
    code = (
        "import memory_actors.improve.bounded; from memory_actors import improve; improve.__code__"
    )
    loaded_by(code)
    assert inspect.iscoroutinefunction(memory_actors.improve)


@PACKAGES
def test_importing_a_package_loads_none_of_its_modules(package: ModuleType) -> None:
    loaded = loaded_by(f"import {package.__name__}")
    ours = {name for name in loaded if name.startswith(("eventlog", "memory_actors"))}
    assert ours == {"eventlog", "eventlog.core", "eventlog.core.lazy", package.__name__}
    assert not loaded & {"asyncio", "anyio", "msgspec", "numpy", "lmdb", "structlog"}
