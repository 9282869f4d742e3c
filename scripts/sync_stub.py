"""Writes memory_actors/sync/__init__.pyi: the types of the API without `await`.

    python scripts/sync_stub.py

The script copies the signatures from the source of the async API unchanged, so that names of types
stay names. It takes the imports that these names need from the modules that have them. A test
compares the file with the script's output.
"""

import ast
import builtins
import inspect
import json
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import get_type_hints

from memory_actors.api.operations import OWNERS
from memory_actors.api.system import PastMemory
from memory_actors.sharing import owning  # noqa: F401 - by it classes are instances of others
from memory_actors.sharing.system import MemorySystem
from memory_actors.sync.blocking import ClosableHandle, blocking_class, on_loop, own_members
from memory_actors.users.handles.context_document import ContextDocument

STUB = Path(__file__).parents[1] / "memory_actors/sync/__init__.pyi"
HEAD = '''# ruff: noqa
"""Made by scripts/sync_stub.py from the async API: do not edit."""'''
CLASSES = sorted(
    (*OWNERS.values(), PastMemory, ContextDocument), key=lambda kind: len(kind.__mro__)
)
"""The classes whose methods are declared with their types; a base before those based on it."""
OURS = {kind.__name__ for kind in CLASSES}
"""Names that mean the classes of the stub itself."""
INSTEAD = {"AsyncIterator": "Iterator"}
KEPT = ("property", "classmethod", "staticmethod")
OPENED = "Opening"
WAYS_IN = ("open", "connect")
EXPORTED = {"on_loop"}
"""Names that are public as they are."""
BLOCK = """
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
"""
IMPORTS = {
    "Iterator": ("collections.abc", "Iterator"),
    "Self": ("typing", "Self"),
}


class _Types(ast.NodeTransformer):
    """Annotations as they are without `await`; notes the names that they have."""

    def __init__(self, module: str, names: dict[str, tuple[str, str]]):
        self._module = module
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        name = INSTEAD.get(node.id, node.id)
        if name in IMPORTS:
            self._names[name] = IMPORTS[name]
        elif name not in OURS and not hasattr(builtins, name):
            self._names[name] = imported(self._module).get(name, (self._module, name))
        return ast.Name(name, node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):  # of what is imported for type checkers alone
            return self.visit(ast.parse(node.value, mode="eval").body)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        assert isinstance(node.value, ast.Name)  # of a module that is imported whole
        self._names[node.value.id] = (node.value.id, "")
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == OPENED:
            return self.visit(node.slice)  # it is open here
        return self.generic_visit(node)


@cache
def imported(module: str) -> dict[str, tuple[str, str]]:
    """Return where the names come from that a module imports."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def method(function: FunctionType, names: dict[str, tuple[str, str]]) -> str:
    """Return the stub of a method."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    types = _Types(function.__module__, names)
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None:
            argument.annotation = types.visit(argument.annotation)
    if arguments.vararg is not None and arguments.vararg.annotation is not None:
        arguments.vararg.annotation = types.visit(arguments.vararg.annotation)
    arguments.defaults = [_default(each) for each in arguments.defaults]
    arguments.kw_defaults = [
        None if each is None else _default(each) for each in arguments.kw_defaults
    ]
    assert node.returns is not None
    made = ast.FunctionDef(
        name=node.name,
        args=arguments,
        body=[ast.Expr(ast.Constant(...))],
        decorator_list=[each for each in node.decorator_list if _is_kept(each)],
        returns=types.visit(node.returns),
        lineno=0,
    )
    said = ast.unparse(made).removesuffix("...").rstrip()
    doc = inspect.getdoc(function)  # on one line: this file is for editors, and nobody reads it
    body = json.dumps(doc, ensure_ascii=False) if doc else "..."
    return textwrap.indent(f"{said} {body}", "    ")


def _default(node: ast.expr) -> ast.expr:
    """Return a default that is a plain value, or that there is one."""
    return node if isinstance(node, ast.Constant) else ast.Constant(...)


def _is_kept(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id in KEPT


def class_(kind: type, names: dict[str, tuple[str, str]]) -> str:
    """Return the stub of a class."""
    bases = [base.__name__ for base in kind.__bases__ if base in CLASSES]
    lines = [f"class {kind.__name__}({', '.join(bases)}):"]
    inherited = {
        name for base in kind.__bases__ if base in CLASSES for name in get_type_hints(base)
    }
    for name, hint in get_type_hints(kind).items():
        if not name.startswith("_") and isinstance(hint, type) and name not in inherited:
            if hint not in CLASSES:
                names[hint.__name__] = (hint.__module__, hint.__name__)
            lines.append(f"    {name}: {hint.__name__}")
    opening = [vars(MemorySystem)[each] for each in WAYS_IN] if kind is OWNERS["system"] else []
    for member in (*opening, *(each for _, each in own_members(kind, CLASSES))):
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if isinstance(function, FunctionType):
            lines.append(method(function, names))
    if issubclass(blocking_class(kind) or kind, ClosableHandle):
        names["Self"] = IMPORTS["Self"]
        lines.append(BLOCK)
    return "\n".join(lines)


def stub() -> str:
    """Return the text of the stub."""
    names: dict[str, tuple[str, str]] = {}
    classes = [class_(kind, names) for kind in CLASSES]
    names["on_loop"] = (on_loop.__module__, on_loop.__name__)
    imports = [_import(known, *where) for known, where in names.items() if where[0] != "builtins"]
    return _formatted("\n\n".join([HEAD, "\n".join(imports), *classes]))


def _import(known: str, module: str, name: str) -> str:
    if not name:
        return f"import {module}"
    known = f" as {known}" if name != known or name in EXPORTED else ""
    return f"from {module} import {name}{known}"


def _formatted(text: str) -> str:
    for command in (["check", "--fix-only", "--select=I", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={STUB}", "-"]
        text = subprocess.run(  # noqa: S603 - ruff
            ruff, input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


if __name__ == "__main__":
    STUB.write_text(stub())
