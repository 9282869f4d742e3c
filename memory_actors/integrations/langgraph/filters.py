"""From LangGraph's filters of values to those of `user.documents.find`.

`{"color": "red"}` and the operators `$eq $ne $gt $gte $lt $lte` mean the same in both. What
differs: a field that must be null may be missing; an object asks for the fields in it and lets
others be; numbers that JSON does not have are compared as they are.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory_actors.base.errors import InvalidInputError

Filter = dict[str, Any]

_KEY = re.compile(r"[\w .-]+")
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_NUMBER_MAX = 1.7976931348623157e308
_INT_MAX = 1 << 63  # beyond which JSON's numbers are those of floats
_NOTHING: Filter = {"or": []}


def documents_filter(asked: Mapping[str, Any] | None) -> Filter:
    """Return a filter of documents that matches what LangGraph's matches.

    :raises InvalidInputError: a key that is no field's name, or an unknown operator.
    """
    return {"and": [one for key, value in (asked or {}).items() for one in _field(key, value)]}


def _field(key: str, value: Any) -> Iterator[Filter]:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInputError(
            f"Invalid filter key: {key!r:.80}. Use the name of a field: letters, digits, spaces, "
            "hyphens and underscores, and dots between an object and its field"
        )
    if not isinstance(value, Mapping):
        yield _holds(key, "$eq", value)
    elif any(isinstance(name, str) and name.startswith("$") for name in value):
        yield from (_holds(key, name, operand) for name, operand in value.items())
    else:
        for inner, operand in value.items():
            yield from _field(f"{key}.{inner}", operand)


def _holds(key: str, name: str, operand: Any) -> Filter:
    """Return the filter of one condition; the backslash says that the rest is a path."""
    if name not in _OPERATORS:
        raise InvalidInputError(f"Unsupported operator: {name!r:.80}. Use {' '.join(_OPERATORS)}")
    path = f"\\{key}"
    if isinstance(operand, float) and math.isnan(operand):
        return {"not": _NOTHING} if name == "$ne" else _NOTHING
    if name in ("$eq", "$ne"):
        same: Filter = {path: {"eq": _as_json(operand)}}
        if operand is None:
            same = {"or": [same, {path: {"exists": False}}]}
        return same if name == "$eq" else {"not": same}
    if isinstance(operand, float) and math.isinf(operand):  # all of JSON's are on one side of it
        is_met = name in ("$lt", "$lte") if operand > 0 else name in ("$gt", "$gte")
        return {path: {"gte": -_NUMBER_MAX}} if is_met else _NOTHING
    return {path: {name: _as_json(operand)}}


def _as_json(operand: Any) -> Any:
    """Return a number that JSON can hold in the place of one that is too large for it."""
    is_int = isinstance(operand, int) and not isinstance(operand, bool)
    return float(operand) if is_int and not -_INT_MAX <= operand < _INT_MAX else operand
