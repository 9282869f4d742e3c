"""Writes memory_actors/sharing/generated_operations.py: what a client knows of each operation.

    python scripts/generate_operations.py

It is read from the methods of the API, which load all that carries them out; a client must know
their names and results without that. A test compares.
"""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from memory_actors.api.operations import OPERATIONS, OWNERS, in_answers
from memory_actors.api.user import UserMemory
from memory_actors.users.handles.context_document import ContextDocument

FILE = Path(__file__).parents[1] / "memory_actors/sharing/generated_operations.py"
HEAD = '''"""Made by scripts/generate_operations.py from the methods of the API: do not edit."""'''
ROWS = "# fmt: off"
"""Goes before tables: one row, one line."""
PRIVATE = {
    "_put_block": ContextDocument._put_block,  # noqa: SLF001
    "_note_synced": ContextDocument._note_synced,  # noqa: SLF001
    "_archive_digest": ContextDocument._archive_digest,  # noqa: SLF001
    "_put_forgotten": UserMemory._put_forgotten,  # noqa: SLF001
    "_put_summary": UserMemory._put_summary,  # noqa: SLF001
    "_leave": UserMemory._leave,  # noqa: SLF001
}
"""Operations that imports, files of documents and erasures need, but no caller."""
BOUND = {"open", "connect", "close", "replay"}
"""Operations that a client carries out in another way."""


class Names:
    """The names of types that are used, and where they come from."""

    def __init__(self) -> None:
        self.modules: dict[str, set[str]] = {}

    def of(self, kind: Any) -> str:
        """Return a type as it is written."""
        if kind in (None, NoneType):
            return "None"
        if get_origin(kind) in (Union, UnionType):
            return " | ".join(self.of(one) for one in get_args(kind))
        if (origin := get_origin(kind)) is not None:
            return f"{self.of(origin)}[{', '.join(self.of(one) for one in get_args(kind))}]"
        if kind is Ellipsis:
            return "..."
        name = "Any" if kind is Any else kind.__name__
        if kind is Any or kind.__module__ != "builtins":
            self.modules.setdefault("typing" if kind is Any else kind.__module__, set()).add(name)
        return name


def declared() -> Iterator[tuple[str, Any, str]]:
    """Yield what can be called: its name, the function, and how."""
    for name, operation in OPERATIONS.items():
        if name.rpartition(".")[2] not in BOUND:
            is_iterated = inspect.isasyncgenfunction(operation.method)
            yield name, operation.method, "ITERATED" if is_iterated else "AWAITED"
    yield "system.statistics", OWNERS["system"].statistics, "AT_ONCE"
    yield "short_term.ttl", OWNERS["short_term"].ttl.fget, "AT_ONCE"
    yield "context.new_entry_id", ContextDocument.new_entry_id, "AT_ONCE"
    for name, method in PRIVATE.items():
        is_of_user = hasattr(UserMemory, name)
        yield f"{'' if is_of_user else 'context.'}{name}", method, "AWAITED"


def line(name: str, method: Any, how: str, names: Names) -> str:
    """Return the line of an operation."""
    hints = get_type_hints(method)
    returned = in_answers(hints.pop("return"))
    if how == "ITERATED":
        (returned,) = get_args(returned)
    paths = [each for each in enumerate(hints) if Path in get_args(hints[each[1]])]
    more = f", {paths[0]!r}" if paths else ""
    if not name.rpartition(".")[2].startswith("_"):
        types = {
            one: re.sub(r"[\w.]+\.(\w+)", r"\1", inspect.formatannotation(hint))
            for one, hint in get_type_hints(method).items()
        }
        more += f", doc={inspect.getdoc(method) or ''!r}, types={types!r}"
    return f'    "{name}": Declared({how}, {names.of(returned)}, {takes(method)}{more}),'


def takes(method: Any) -> str:
    """Return a function with the parameters of a method, as it is written."""
    signature = inspect.signature(method)
    parameters = [
        one.replace(annotation=one.empty, default=_plain(one.default))
        for one in signature.parameters.values()
    ]
    said = str(inspect.Signature(parameters))
    return f"lambda {said[1:-1]}: ..."


def _plain(default: Any) -> Any:
    if isinstance(default, Enum):
        return default.value
    plain = default in (inspect.Parameter.empty, None, ()) or isinstance(default, str | int | float)
    return default if plain else ...


def text() -> str:
    """Return the text of the module."""
    names = Names()
    lines = [line(*one, names) for one in declared()]
    names.modules.setdefault("memory_actors.sharing.declaration", set()).update(
        {"AT_ONCE", "AWAITED", "ITERATED", "Declared"}
    )
    imports = [f"from {module} import {', '.join(used)}" for module, used in names.modules.items()]
    imports += ["from collections.abc import Mapping", "from typing import Final"]
    table = ["DECLARED: Final[Mapping[str, Declared]] = {", *lines, "}"]
    about = '"""The operations that can be called, by name."""'
    return formatted("\n".join([HEAD, *imports, ROWS, *table, about]))


def formatted(source: str, file: Path = FILE) -> str:
    """Return a module as ruff would have it; the rows of a table stay one line each."""
    for command in (["check", "--fix-only", "--select=I", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={file}", "-"]
        source = subprocess.run(  # noqa: S603 - ruff
            ruff, input=source, capture_output=True, text=True, check=True
        ).stdout
    return source


if __name__ == "__main__":
    FILE.write_text(text())
