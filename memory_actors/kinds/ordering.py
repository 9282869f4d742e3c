"""The order of JSON documents, by fields of theirs. Paths are those of filters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.filters import ESCAPE, checked_path, steps_of, time_span, values_at

SortKey = Callable[[Mapping[str, Any]], Any]

ORDER_FIELDS_MAX = 8
_MISSING = object()


def ordering(fields: str | Sequence[str]) -> SortKey:
    r"""Return a key for `sorted`: by one path, or by several, the first counting most.

     A leading `-` sorts that field downwards (a field whose name begins so is written `\-name`).
     Types are ordered null, boolean, number, time, string, then list and object by their JSON text;
     documents without the field come last in both directions. A field with several values sorts by
     the first.

    :raises InvalidInputError: no field, over 8 of them, or a bad path.
    """
    names = [fields] if isinstance(fields, str) else fields
    if not isinstance(names, list | tuple) or not 0 < len(names) <= ORDER_FIELDS_MAX:
        raise InvalidInputError(
            f"order_by must be a path, or a list of 1 to {ORDER_FIELDS_MAX}: not {names!r:.80}"
        )
    keys = [_order_of(name, f"order_by[{at}]") for at, name in enumerate(names)]
    return lambda document: tuple([key(document) for key in keys])


class _Downwards:
    """A key in the opposite order."""

    __slots__ = ("key",)

    def __init__(self, key: Any):
        self.key = key

    def __eq__(self, other: object) -> bool:  # tuples ask for it first
        return isinstance(other, _Downwards) and bool(self.key == other.key)

    def __lt__(self, other: "_Downwards") -> bool:
        return bool(other.key < self.key)


def _order_of(name: object, where: str) -> SortKey:
    """Return the key of one path: (is it missing, where it stands)."""
    path = checked_path(name, where)
    down = path.startswith("-")
    steps = steps_of(path.removeprefix("-").removeprefix(ESCAPE))

    def key(document: Mapping[str, Any]) -> tuple[bool, Any]:
        held = next(values_at(document, steps, 0), _MISSING)
        if held is _MISSING:
            return True, None
        return False, _Downwards(_rank(held)) if down else _rank(held)

    return key


def _rank(value: Any) -> tuple[int, Any]:
    """Return a key that any two values of JSON can be compared by."""
    if value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1 if isinstance(value, bool) else 2, value
    if isinstance(value, str):
        span = time_span(value)
        return 3, (span is None, value if span is None else span.first)
    return 4, msgspec.json.encode(value, order="sorted")
