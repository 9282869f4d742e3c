"""The version of the package, and docstrings for help texts, the reference, tools of a model."""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType


def doc_of(function: Callable[..., object]) -> str:
    """Return the docstring of a function, "" if it has none.

    `python -OO` drops docstrings: then it is read from the source.
    """
    if sys.flags.optimize > 1:
        return _docs(sys.modules[function.__module__]).get(function.__qualname__, "")
    return inspect.getdoc(function) or ""


@cache
def _docs(module: ModuleType) -> dict[str, str]:
    try:
        return dict(_found(ast.parse(inspect.getsource(module)), ""))
    except OSError:  # installed without its source
        return {}


def _found(node: ast.AST, within: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _found(child, f"{within}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield within + child.name, ast.get_docstring(child) or ""
            yield from _found(child, f"{within}{child.name}.<locals>.")


def version() -> str:
    """Return the version; "0" where the package runs from a source tree."""
    from importlib import metadata  # with email, zipfile and csv: 10 ms

    try:
        return metadata.version("memory-actors")
    except metadata.PackageNotFoundError:
        return "0"
