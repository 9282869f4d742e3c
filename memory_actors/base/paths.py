"""Paths into JSON documents, the times in them, and the order that fields give documents.

`filters.py` says what a path finds.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

import msgspec

from eventlog.core.records import to_us
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.validation import iso_datetime, json_copy

SortKey = Callable[[Mapping[str, object]], Any]

PATH_BYTES_MAX = 512
SEGMENTS_MAX = 32  # no JSON here is deeper; the ways to read a path grow with the square of it
ORDER_FIELDS_MAX = 8
ESCAPE = "\\"
MISSING = object()
"""The value at a path that a document has not."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]|\Z)")
_DAY_US = 24 * 60 * 60 * 1_000_000


class TimeSpan(NamedTuple):
    """A time as a filter compares it, in microseconds since 1970."""

    first: int
    last: int
    """The last microsecond of a day; of a moment, itself."""


def time_span(value: object) -> TimeSpan | None:
    """Return the time that a string says, None if it says none."""
    if not isinstance(value, str) or not _TIME.match(value):
        return None
    try:
        time = iso_datetime(value)
        first = to_us(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None
    is_day = len(value) == len("2026-03-01")
    return TimeSpan(first, first + _DAY_US - 1 if is_day else first)


def checked_path(key: object, where: str) -> str:
    """Return a path, in text that JSON can hold.

    :raises InvalidInputError: it is no string, or too long or too deep.
    """
    if not isinstance(key, str):
        raise InvalidInputError(f"{where} has the key {key!r:.80}: keys must be strings")
    path = str(json_copy(key, f"{where}: a path"))
    if len(path.encode()) > PATH_BYTES_MAX or path.count(".") >= SEGMENTS_MAX:
        raise InvalidInputError(
            f"{where}: the path {path!r:.80} is longer than {PATH_BYTES_MAX} bytes "
            f"or {SEGMENTS_MAX} segments"
        )
    return path


class _Step(NamedTuple):
    """The ways to go on at one segment of a path."""

    keys: tuple[tuple[str, int], ...]
    """In an object: (key, the segment after it), longest first."""
    element: int | None
    """In a list: which one, None for any."""


def steps_of(path: str) -> list[_Step]:
    """Return how `values_at` is to read a path."""
    names, steps = path.split("."), []
    for at, name in enumerate(names):
        keys = tuple((".".join(names[at:end]), end) for end in range(len(names), at, -1))
        steps.append(_Step(keys, int(name) if name.isascii() and name.isdigit() else None))
    return steps


def values_at(held: Any, steps: Sequence[_Step], at: int) -> Iterator[object]:
    """Yield what the rest of a path finds in a value, in the order of the lists on its way."""
    if at == len(steps):
        yield held
    elif isinstance(held, list):
        n = steps[at].element
        for element in held if n is None else held[n : n + 1]:
            yield from values_at(element, steps, at if n is None else at + 1)
    elif isinstance(held, dict) or at == 0:  # a document may be any mapping
        for key, following in steps[at].keys:
            if key in held:
                yield from values_at(held[key], steps, following)
                return


# --- order


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

    def key(document: Mapping[str, object]) -> tuple[bool, object]:
        held = next(values_at(document, steps, 0), MISSING)
        if held is MISSING:
            return True, None
        return False, _Downwards(_rank(held)) if down else _rank(held)

    return key


def _rank(value: object) -> tuple[int, object]:
    """Return a key that any two values of JSON can be compared by."""
    if value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1 if isinstance(value, bool) else 2, value
    if isinstance(value, str):
        span = time_span(value)
        return 3, (span is None, value if span is None else span.first)
    return 4, msgspec.json.encode(value, order="sorted")
