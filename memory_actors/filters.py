"""Metadata filters: which memories a query may find. Evaluated here and nowhere else.

A filter is a dict; a memory matches when each key is in its metadata with an equal JSON value.
"""

from collections.abc import Callable, Mapping
from typing import Any

from memory_actors.kinds.kind import same_json
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
        return all(same_json(metadata.get(key, _MISSING), value) for key, value in wanted.items())

    return matches
