"""Public names are imported at first use; declarations are imported without the engine."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

import eventlog
import memory_actors
from memory_actors import Hit, MemoryToolError, MemoryType, MissingExtraError, SystemStatistics
from memory_actors.api.operations import OWNERS
from memory_actors.api.system import PastMemory
from memory_actors.sync.blocking import own_members
from memory_actors.users.handles.context_document import ContextDocument

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
    with pytest.raises(AttributeError, match="module 'memory_actors' has no attribute 'Hitz'"):
        memory_actors.Hitz  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="Hitz"):
        exec("from memory_actors import Hitz")


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


HEAVY = {
    "cryptography", "lmdb", "numpy", "onnxruntime", "psutil", "rich", "structlog",
    "tokenizers", "zstandard",
}  # fmt: skip
LATER = {
    "importlib.metadata", "memory_actors.interchange", "numpy.ma", "onnxruntime", "rich.progress",
    "structlog", "tokenizers",
}  # fmt: skip
"""What the command line needs for some commands, or once something has to be said."""
DECLARATIONS = re.compile(r"(memory_actors\.base|eventlog\.core)\.")
"""Modules with what a client of another process needs: they load no engine."""


def test_the_command_line_imports_what_each_command_needs() -> None:
    loaded = loaded_by("import memory_actors.cli, memory_actors.cli.memories")
    assert not loaded & LATER


def declaring() -> list[str]:
    return [
        *(f"memory_actors.base.{name}" for name in (
            "context_documents", "errors", "on", "quota", "records", "reports",
            "settings", "statistics", "tokens", "validation", "weights",
        )),
        *(f"eventlog.core.{name}" for name in ("errors", "records", "requests", "waiting")),
    ]  # fmt: skip


def test_declarations_are_imported_without_the_engine() -> None:
    loaded = loaded_by(f"import {', '.join(declaring())}")
    assert not loaded & HEAVY
    ours = {name for name in loaded if name.startswith(("eventlog.", "memory_actors."))}
    layers = {"eventlog.core", "memory_actors.base"}
    assert {name for name in ours - layers if not DECLARATIONS.match(name)} == set()


def named_in(annotation: Any) -> Iterator[type]:
    """Yield the classes that an annotation names, and those that the fields of structs name."""
    for argument in (*get_args(annotation), *getattr(annotation, "__orig_bases__", ())):
        yield from named_in(argument)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct | Enum):
        yield annotation
        for hint in get_type_hints(annotation).values():
            yield from named_in(hint)


def test_all_that_public_methods_take_and_return_is_among_the_declarations() -> None:
    owners = (*OWNERS.values(), PastMemory, ContextDocument)
    members = [member for owner in owners for _, member in own_members(owner, owners)]
    functions = [getattr(one, "fget", None) or getattr(one, "__func__", one) for one in members]
    hints = [hint for one in filter(isfunction, functions) for hint in get_type_hints(one).values()]
    classes = {one for hint in hints for one in named_in(hint)}
    assert classes > {Hit, MemoryType, SystemStatistics}
    assert {one for one in classes if one.__module__ not in declaring()} == set()


def test_all_errors_that_are_raised_on_purpose_are_among_the_declarations() -> None:
    for package in (eventlog, memory_actors):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                with suppress(MissingExtraError):  # of an adapter: it declares no errors
                    importlib.import_module(module.name)
    errors = {*subclasses(memory_actors.MemoryActorsError), *subclasses(eventlog.EventLogError)}
    ours = {one for one in errors if one.__module__.startswith(("eventlog", "memory_actors"))}
    assert {one for one in ours if one.__module__ not in declaring()} == {MemoryToolError}


def subclasses(error: type[Exception]) -> Iterator[type[Exception]]:
    yield error
    for one in error.__subclasses__():
        yield from subclasses(one)


EXTRAS = {
    "cryptography", "httpx", "litestar", "mcp", "openai", "opentelemetry", "prometheus_client",
    "psycopg", "psycopg_pool", "uvicorn", "zstandard",
}  # fmt: skip
NOT_INSTALLED = f"""
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NotInstalled())
"""
ALL_NAMES = """
import inspect, pydoc
import {package} as package

exec("from {package} import *", names := {{}})
print(len(names.keys() & set(package.__all__)) - len(package.__all__))
print(len(dict(inspect.getmembers(package)).keys() & set(package.__all__)) - len(package.__all__))
print(int(package.__doc__.splitlines()[0] not in pydoc.render_doc("{package}")))
"""


@PACKAGES
def test_a_base_install_imports_lists_and_documents_all_public_names(package: ModuleType) -> None:
    program = NOT_INSTALLED + ALL_NAMES.format(package=package.__name__)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["0", "0", "0"], done.stderr


EVERY_MODULE = """
import importlib, inspect, pkgutil, pydoc
import eventlog, memory_actors

for package in (eventlog, memory_actors):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name.endswith(".__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # of an extra
            continue
        try:
            exec(f"from {found.name} import *", {})
            inspect.getmembers(module)
            pydoc.render_doc(module)
        except Exception as error:
            print(found.name, repr(error))
"""


@pytest.mark.parametrize("flag", ["-B", pytest.param("-OO", marks=pytest.mark.slow)])
def test_a_base_install_documents_every_module(flag: str) -> None:
    program = NOT_INSTALLED + EVERY_MODULE
    done = subprocess.run([sys.executable, flag, "-c", program], capture_output=True, text=True)
    assert done.stdout + done.stderr == ""


def test_a_name_whose_extra_is_missing_says_so_when_it_is_used() -> None:
    program = NOT_INSTALLED + "from eventlog import PgEventStore; PgEventStore.open('postgresql:')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "MissingExtra: " in done.stderr
    assert "pip install 'memory-actors[postgres]'" in done.stderr


WITHOUT_EXTRAS = """
import memory_actors.cli
import memory_actors.sharing.owning
from memory_actors.cli import main
list(main.commands.values())
main(["--data", "postgresql://127.0.0.1:9/d", "list", "--json"], standalone_mode=False)
"""


def test_the_program_and_the_engine_need_no_extra() -> None:
    """A store in a database says which one it needs."""
    program = NOT_INSTALLED + WITHOUT_EXTRAS

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )

    assert "pip install 'memory-actors[postgres]'" in done.stdout + done.stderr
    assert "unexpected" not in done.stdout + done.stderr
