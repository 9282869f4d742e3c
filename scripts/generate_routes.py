"""Writes memory_actors/sharing/generated_routes.py: what a server offers its clients over HTTP.

    python scripts/generate_routes.py

It is read from the routes of the server; a client must know them without that. A test compares.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from generate_operations import ROWS, Names, formatted

from memory_actors.api.operations import OPERATIONS
from memory_actors.server import admin, problems, users
from memory_actors.server.bodies import body_of
from memory_actors.sharing.declaration import Offered

FILE = Path(__file__).parents[1] / "memory_actors/sharing/generated_routes.py"
HEAD = '''"""Made by scripts/generate_routes.py from the routes of the server: do not edit."""'''
USER = "/v1/users/{user_id}"
ADMIN = "/admin"


def offered() -> Iterator[tuple[str, Offered]]:
    """Yield the operations that a server carries out, each with its route."""
    for route in users.ROUTES:
        method, path = route.at.split()
        operation = OPERATIONS[route.operation]
        yield (
            route.operation,
            Offered(
                method,
                USER + path.replace(":str", ""),
                _in_query(operation) if route.given is None else _in_body(route.operation),
                route.given is not None,
                route.within and route.within[1],
                not operation.writes,
            ),
        )
    yield "system.compact", _of_root("POST", admin.run, _in_body("system.compact"), reads=False)
    yield (
        "system.compaction_stats",
        _of_root("GET", admin.stats, {"user_id": "user_id"}, reads=True),
    )


def _in_body(operation: str) -> dict[str, str]:
    return {one.name: one.encode_name for one in msgspec.structs.fields(body_of(operation))}


def _in_query(operation: Any) -> dict[str, str]:
    names = [one.name for one in operation.parameters if one.name in users.QUERY]
    return {name: users.QUERY[name].name or name for name in names}


def _of_root(method: str, handler: Any, given: dict[str, str], *, reads: bool) -> Offered:
    (path,) = handler.paths
    return Offered(method, ADMIN + path, given, method == "POST", None, reads)


def text() -> str:
    """Return the text of the module."""
    names = Names()
    known = {one.name: one.error for one in reversed(problems._KNOWN)}  # noqa: SLF001
    errors = [f'    "{name}": {names.of(kind)},' for name, kind in reversed(known.items())]
    names.modules["memory_actors.sharing.declaration"] = {"Offered"}
    imports = [f"from {module} import {', '.join(used)}" for module, used in names.modules.items()]
    imports += ["from collections.abc import Mapping", "from typing import Final"]
    lines = [f'    "{name}": Offered{tuple(route)!r},' for name, route in offered()]
    table = ["OFFERED: Final[Mapping[str, Offered]] = {", *lines, "}"]
    table += ['"""The operations that a server carries out, by name."""']
    table += ["PROBLEMS: Final[Mapping[str, type[Exception]]] = {", *errors, "}"]
    table += ['"""The errors that problem details stand for, by the last part of their type."""']
    return formatted("\n".join([HEAD, *imports, ROWS, *table]), FILE)


if __name__ == "__main__":
    FILE.write_text(text())
