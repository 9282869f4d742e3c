"""Metadata filters: which memories a query may find. Evaluated here and nowhere else.

A filter is a dict; a memory matches when each key is in its metadata with an equal JSON value.
Numbers are equal by value (1 and 1.0 are), and a boolean is no number (1 and true are not).
"""

from collections.abc import Callable, Mapping
from typing import Any

from memory_actors.validation import metadata_copy

Predicate = Callable[[Mapping[str, Any]], bool]
_MISSING = object()


def predicate(filters: Mapping[str, Any] | None) -> Predicate | None:
    """Return a test of metadata, None for no filter.

    :raises InvalidInputError: the filter is not a JSON object.
    """
    wanted = metadata_copy(filters)
    if not wanted:
        return None

    def matches(metadata: Mapping[str, Any]) -> bool:
        for key, value in wanted.items():
            held = metadata.get(key, _MISSING)
            if held != value or not _same_types(held, value):
                return False
        return True

    return matches


def _same_types(held: Any, value: Any) -> bool:
    """Tell equal values of JSON apart where Python does not: true from 1, at any depth."""
    if isinstance(value, list):
        return all(map(_same_types, held, value))
    if isinstance(value, dict):
        return all(_same_types(held[key], item) for key, item in value.items())
    return isinstance(held, bool) == isinstance(value, bool)
