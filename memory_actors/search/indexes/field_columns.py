"""The column of a field: which rows have which value at one path.

The keys of the rows by value, and by the elements of lists for `contains`; values are put in order
for the first range, times in an order of their own. A query of a column is a plan: how many rows it
would give, and at what cost, before any are gathered.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from memory_actors.base.paths import TimeSpan, steps_of, time_span, values_at

K = TypeVar("K", bound=Hashable)

_VALUE_BYTES: Final = 100  # a dict's entry, a tuple of one key, a place in the order
_ENTRY_BYTES: Final = 60  # a key in a set
_BATCH: Final = 1_000  # rows indexed between two looks at the size
_OPAQUE_RATIO: Final = 8  # a list or an object is never found by its value
BOUNDS: Final = {"gt": bisect_right, "gte": bisect_left, "lt": bisect_left, "lte": bisect_right}
_LOWER: Final = ("gt", "gte")
_OPAQUE: Final = (list, dict)


class Posting(set[K]):
    """The keys of rows that have a value; numbers also as an array, from when it is asked for."""

    numbers: npt.NDArray[np.int64] | None = None

    def with_key(self, key: K) -> None:
        """Add a key."""
        self.add(key)
        self.numbers = None

    def without_key(self, key: K) -> None:
        """Remove a key, if it is there."""
        self.discard(key)
        self.numbers = None


def as_numbers(keys: AbstractSet[int]) -> npt.NDArray[np.int64]:
    """Return keys that are numbers as an array, in any order; it must not be changed."""
    if isinstance(keys, Posting) and keys.numbers is not None:
        return keys.numbers
    numbers = np.fromiter(keys, np.int64, len(keys))
    if isinstance(keys, Posting):
        keys.numbers = numbers
    return numbers


class Candidates(NamedTuple, Generic[K]):
    """Rows that may match."""

    keys: AbstractSet[K]
    """Read them before the next put or drop, which may change them."""
    exact: bool
    """All of them match: there is no need to ask the predicate."""


class RowPlan(NamedTuple, Generic[K]):
    """A way to find the rows of a part of a filter."""

    size: int  # of rows, about
    cost: int  # keys to gather first, or as much work: 0 where a posting is given as it is
    gather: Callable[[], Candidates[K]]


# --- plans of postings


def ready(postings: Sequence[Collection[K]], exact: bool = True) -> RowPlan[K]:
    """Plan a union of postings, which costs nothing where there is only one."""
    held = [keys for keys in postings if keys]
    size = sum(map(len, held))
    cost = size + 2 * len(held) if len(held) > 1 else 0
    return RowPlan(size, cost, partial(union, held, exact))


def union(postings: Sequence[Collection[K]], exact: bool = True) -> Candidates[K]:
    """Return the rows of any of these postings; the set itself where there is only one."""
    if len(postings) == 1 and isinstance(postings[0], AbstractSet):
        return Candidates(postings[0], exact)
    return Candidates(frozenset[K]().union(*postings), exact)


# --- columns


class Column(Generic[K]):
    """The values at one path: keys of rows by token, and the scalars in order."""

    def __init__(self, path: str):
        self._read = _reader(path)
        self._keys: dict[Hashable, tuple[K] | Posting[K]] = {}  # for one, a quarter of a set
        self._entries = 0
        self._several = 0  # rows with more than one value
        self._ordered: dict[type | None, list[Any]] = {}

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        return _VALUE_BYTES * len(self._keys) + _ENTRY_BYTES * self._entries

    def fill(self, rows: Mapping[K, Mapping[str, Any]], bytes_max: int) -> bool:
        """Add all rows, and tell whether this was worth it; stop where it takes too much."""
        left = iter(rows.items())
        while batch := list(islice(left, _BATCH)):
            for key, fields in batch:
                self.add(key, fields)
            if self.size_bytes > bytes_max:
                return False
        return self.pays

    @property
    def pays(self) -> bool:
        """Say whether enough of the values are found by what they are."""
        opaque = len(self._of(list)) + len(self._of(dict))
        return opaque <= _OPAQUE_RATIO * (self._entries - opaque)

    def add(self, key: K, fields: Mapping[str, Any]) -> None:
        """Add a row."""
        values = self._read(fields)
        self._several += len(values) > 1
        for value in values:
            for token in _tokens(value):
                self._enter(token, key)

    def discard(self, key: K, fields: Mapping[str, Any]) -> None:
        """Remove a row: `fields` are those it was added with."""
        values = self._read(fields)
        self._several -= len(values) > 1
        for value in values:
            for token in _tokens(value):
                self._take_out(token, key)

    def _enter(self, token: Hashable, key: K) -> None:
        self._entries += 1
        held = self._keys.get(token)
        if isinstance(held, Posting):
            held.with_key(key)
        elif held is None:
            self._keys[token] = (key,)
            if self._ordered:
                for kind, place in _places(token):
                    insort(self._ordered.get(kind, []), place)
        elif held[0] != key:
            self._keys[token] = Posting((held[0], key))

    def _take_out(self, token: Hashable, key: K) -> None:
        """Undo one `_enter`. A row that has a value twice is gone with the first."""
        self._entries -= 1
        held = self._of(token)
        if isinstance(held, Posting) and len(held) > 1:
            held.without_key(key)
        elif key in held:
            del self._keys[token]
            for kind, place in _places(token) if self._ordered else ():
                if (ordered := self._ordered.get(kind)) is not None:
                    del ordered[bisect_left(ordered, place)]

    def plan(self, name: str, operand: Any) -> RowPlan[K]:
        """Plan `eq`, `in`, `contains` or `exists`."""
        if name == "exists":
            return ready([*self._keys.values()])
        if name == "contains":
            return self._containing(_token(operand))
        asked = operand if name == "in" else [operand]
        times = [one for one in asked if time_span(one)]
        same = [token for one in times for token in self._between([("gte", one), ("lte", one)])]
        return self._among({*map(_token, asked), *same})

    def ranges(self, limits: Sequence[tuple[str, Any]]) -> list[RowPlan[K]]:
        """Plan a range at once, if no row can meet each end of it by another value or kind."""
        apart = self._several or len({_limit_kind(limit) for _, limit in limits}) > 1
        parts = [[limit] for limit in limits] if apart else [limits] if limits else []
        return [self._range(part) for part in parts]

    def _range(self, limits: Sequence[tuple[str, Any]]) -> RowPlan[K]:
        found = self._between(limits)
        size = len(found) * self._entries // max(1, len(self._keys))
        cost = size + 2 * len(found)
        return RowPlan(size, cost, lambda: union([self._keys[value] for value in found]))

    def _among(self, tokens: Collection[Hashable]) -> RowPlan[K]:
        """Plan equality with any of the tokens; a list may equal any list here."""
        inexact = any(token in _OPAQUE and self._of(token) for token in tokens)
        return ready([self._of(token) for token in tokens], not inexact)

    def _containing(self, token: Hashable) -> RowPlan[K]:
        """Plan `contains`: in a list, in a string, or (not told here) among an object's keys."""
        if token in _OPAQUE:
            return self._among([list])
        found = [self._of((list, token))]
        if not isinstance(token, str):
            return ready(found)
        found += [self._keys[string] for string in self._in_order(str) if token in string]
        return ready([*found, self._of(dict)], not self._of(dict))

    def _between(self, limits: Sequence[tuple[str, Any]]) -> list[Any]:
        """Return the values within limits of one kind: none, if it has no order."""
        kind = _limit_kind(limits[0][1])
        if kind is None:
            return []
        ordered = self._in_order(kind)
        places = [(name, _bound(ordered, name, limit)) for name, limit in limits]
        start = max([0, *(place for name, place in places if name in _LOWER)])
        end = min([len(ordered), *(place for name, place in places if name not in _LOWER)])
        found = ordered[start:end]
        return [token for _, token in found] if kind is TimeSpan else found

    def _in_order(self, kind: type) -> list[Any]:
        """Return the different values of a kind in order, and keep them so from now on."""
        if kind not in self._ordered:
            places = [place for token in self._keys for of, place in _places(token) if of is kind]
            self._ordered[kind] = sorted(places)
        return self._ordered[kind]

    def _of(self, token: Hashable) -> Collection[K]:
        return self._keys.get(token, ())


class BegunColumn(Generic[K]):
    """A column that has some of the rows, and is kept in step with those."""

    def __init__(self, column: Column[K]):
        self.column = column
        self._done: set[K] = set()

    def take(self, keys: Iterable[K], rows: Mapping[K, Mapping[str, Any]]) -> None:
        """Add rows that are still there and have not been added."""
        for key in keys:
            fields = None if key in self._done else rows.get(key)
            if fields is not None:
                self.put(key, fields)

    def put(self, key: K, fields: Mapping[str, Any]) -> None:
        """Add a row, whose turn may not have come yet."""
        self._done.add(key)
        self.column.add(key, fields)

    def drop(self, key: K, fields: Mapping[str, Any]) -> None:
        """Remove a row, if it has been added; `fields` are those it was added with."""
        if key in self._done:
            self._done.discard(key)
            self.column.discard(key, fields)


def size_of(columns: Iterable[Column[Any]]) -> int:
    """Return the memory of columns, estimated."""
    return sum(column.size_bytes for column in columns)


def _reader(path: str) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return a function that reads the values at a path, as filters.py does."""
    if "." not in path:
        return lambda fields: (fields[path],) if path in fields else ()
    steps = steps_of(path)
    return lambda fields: list(values_at(fields, steps, 0))


def _token(value: Any) -> Hashable:
    """Return the key of a value: itself, (true,) as true would be 1, its type for others."""
    if isinstance(value, _OPAQUE):
        return list if isinstance(value, list) else dict
    return (value,) if value.__class__ is bool else value


def _tokens(value: Any) -> Sequence[Hashable]:
    """Return the token of a value, and (list, token) for each scalar in a list."""
    if not isinstance(value, list):
        return (_token(value),)
    return [list, *[(list, _token(one)) for one in value if not isinstance(one, _OPAQUE)]]


def _places(token: Hashable) -> Iterator[tuple[type, Any]]:
    """Yield what a token is in each order that it is in; a string may be a time, too."""
    kind = _kind(token)
    if kind is not None:
        yield kind, token
    span = time_span(token)
    if span is not None:
        yield TimeSpan, (span.first, token)


def _limit_kind(limit: Any) -> type | None:
    """Return the kind of the values that a limit is compared with."""
    return TimeSpan if time_span(limit) else _kind(_token(limit))


def _bound(ordered: Sequence[Any], name: str, limit: Any) -> int:
    """Return the place of a limit among values in order."""
    span = time_span(limit)
    if span is None:
        return BOUNDS[name](ordered, limit)
    return bisect_left(ordered, (span.last + 1,) if name in ("gt", "lte") else (span.first,))


def _kind(token: Hashable) -> type | None:
    """Return float for a number, str for a string: what compares."""
    if isinstance(token, str):
        return str
    return float if isinstance(token, int | float) else None
