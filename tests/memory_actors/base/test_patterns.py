"""Regular expressions mean the same in every Python that this package runs on."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants, _parser
from typing import Any

ROOT = Path(__file__).parents[3]
ONE_CHARACTER = {_constants.ANY, _constants.IN, _constants.LITERAL, _constants.NOT_LITERAL}


def patterns() -> Iterator[tuple[str, str]]:
    """Every text that a function of `re` is given in the packages, and where it is."""
    for path in [*ROOT.glob("eventlog/**/*.py"), *ROOT.glob("memory_actors/**/*.py")]:
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("re."):
                for node in ast.walk(call):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def possessive_groups(parsed: Any) -> Iterator[Any]:
    for operation, argument in parsed:
        inside = list(subpatterns(argument))
        if operation is _constants.ATOMIC_GROUP:
            yield argument
        if operation is _constants.POSSESSIVE_REPEAT:
            yield from (one for one in inside if any(op not in ONE_CHARACTER for op, _ in one))
        for one in inside:
            yield from possessive_groups(one)


def subpatterns(argument: Any) -> Iterator[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from subpatterns(each)


def test_no_pattern_has_a_possessive_group() -> None:
    """Python 3.11.0 to 3.11.4 match possessive groups wrongly that have alternatives."""
    assert list(possessive_groups(_parser.parse(r"(?:ab|c)*+")))
    found = []
    for place, pattern in patterns():
        try:
            found += [place for _ in possessive_groups(_parser.parse(pattern))]
        except re.error:  # a part of one, or what it is put together from
            continue
    assert found == []
