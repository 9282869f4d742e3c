"""The fields of an item that not every kind has: which an event keeps, and their checks."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from memory_actors.base.records import Item
from memory_actors.base.validation import check_count, check_flag, check_optional_name

OPTIONAL = {
    field.name: field
    for field in msgspec.structs.fields(Item)
    if field.name not in {"content", "metadata", "memory_id"}
}
"""The fields of an item that not every kind has."""
_IN_EVENTS = {"occurred_at": "occurred_at_us", "last_seen_at": "last_seen_us"}
"""The names that times have in events, which count them in microseconds."""


def taken(event: type[msgspec.Struct], *others: str) -> frozenset[str]:
    """Return the optional fields of an item that an event keeps, and others that a kind takes."""
    kept = (name for name in OPTIONAL if _IN_EVENTS.get(name, name) in event.__struct_fields__)
    return frozenset((*kept, *others))


def checked_fields(item: Item, event: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the optional fields of an item that an event has under the same name.

    :raises InvalidInputError: one of them is not what its type says.
    """
    return {
        name: _CHECKS[field.type](getattr(item, name), name)
        for name, field in OPTIONAL.items()
        if name in event.__struct_fields__
    }


_CHECKS: Mapping[Any, Callable[[Any, str], Any]] = {
    str | None: check_optional_name,
    bool: check_flag,
    int: partial(check_count, least=1),
}
"""By the types that fields of an item have."""
