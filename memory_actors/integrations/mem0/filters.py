"""mem0's filters in terms of ours (`memory_actors/base/filters.py`): they are nearly the same.

A value is equality, a list is any of its values, `"*"` is anything. `AND`, `OR` and `NOT` take
lists of filters; `NOT` is none of them. `ne` and `nin` want the field to be there, as in Qdrant.
"""

from collections.abc import Mapping
from typing import Any, Final

Filter = dict[str, Any]

_GROUPS: Final = {
    "AND": "AND", "OR": "OR", "NOT": "NOT", "$and": "AND", "$or": "OR", "$not": "NOT",
}  # fmt: skip
_RANGE: Final = frozenset({"gt", "gte", "lt", "lte"})
_NEGATED: Final = frozenset({"ne", "nin"})
_OPERATORS: Final = _RANGE | _NEGATED | {"eq", "in", "contains", "icontains"}


def translated(filters: Mapping[str, Any]) -> Filter:
    """Return mem0's filters as ours.

    :raises ValueError: an operator that there is not, or a group that is no list of filters.
    """
    return {"and": [_part(key, value) for key, value in filters.items()]}


def _part(key: str, value: Any) -> Filter:
    group = _GROUPS.get(key)
    if group is not None:
        return _group(group, value)
    field = f"\\{key}"  # whatever it is called, it is the path of a field
    if not isinstance(value, Mapping):
        if value == "*":
            return {}
        return {field: {"in" if isinstance(value, list) else "eq": value}}
    unknown = value.keys() - _OPERATORS
    if unknown or not value:
        raise ValueError(
            f"Unsupported filter operator(s) for field '{key}': {sorted(map(str, unknown))}. "
            f"Supported operators: {sorted(_OPERATORS)}"
        )
    if value.keys() & _RANGE and value.keys() - _RANGE:
        raise ValueError(
            f"Cannot mix range operators with others for field '{key}'. Use AND to combine them as "
            "separate conditions."
        )
    return {"and": [_operator(field, name, given) for name, given in value.items()]}


def _group(group: str, value: Any) -> Filter:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise ValueError(f"{group} filter value must be a list of filter dicts")
    parts = [translated(one) for one in value]
    if group == "AND":
        return {"and": parts}
    if not parts:
        raise ValueError(f"{group} operator requires a non-empty list of conditions")
    return {"or": parts} if group == "OR" else {"not": {"or": parts}}


def _operator(field: str, name: str, value: Any) -> Filter:
    if name in _NEGATED:
        return {field: {name: value, "exists": True}}
    return {field: {"contains" if name == "icontains" else name: value}}
