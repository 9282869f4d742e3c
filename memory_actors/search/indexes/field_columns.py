"""An index of metadata: memories by their values at the paths that filters ask for.

A predicate takes 0.1 to 1 us for a row: 1 to 10 ms for 10,000. This index finds in a tenth to a
thousandth of that a superset of the rows that match. The predicate decides the rest, and the caller
applies it to every candidate, unless they are known to be exact:

    part = parsed(filters)          # refuses a bad filter
    for _ in index.prepared(part):  # others may have a turn
        ...
    found = index.candidates(part)  # None: a scan is as good
    keys = [key for key in found.keys if found.exact or part.test(rows[key])]

A path has a column: the keys of its rows by value, and by the elements of lists for `contains`. The
values are put in order for the first range, times in an order of their own. A condition is a union
of postings, and exact, as any value at a path may meet it; only what is asked of the inside of
lists and objects is not told. A range is asked last, and left to the predicate where gathering its
rows takes longer. `or` needs a column for all parts, `not` an exact part.

Columns are lazy. `prepared` indexes a path when it is first asked for, in portions between which
rows may change, and it is kept in step from then on. At most 16 paths and 32 MiB are held; the
least recently asked for goes first. A path that does not fit, or has eight times more lists and
objects than scalars, is refused until rows are twice or half as many.

Paths and equality are those of filters.py. The rows are the caller's, who says what has changed.
Not thread-safe: change and ask from one thread at a time.
10,000 rows of a dictionary, measured: equality 0.005 ms; a range of distinct numbers 0.02 ms for
1 % of the rows, 0.10 ms for 10 %; `and` of two 0.03 to 0.3 ms; `ne` 0.2 ms (scans: 0.8 to 10 ms).
Indexing a path 6 ms, a nested one 14, lists of two 17 to 24, and 0.7 to 2 MB. A put 20 us beside 9
paths.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.base.filters import GROUPS, FilterPart
from memory_actors.base.interning import Names
from memory_actors.base.paths import TimeSpan, steps_of, time_span, values_at
from memory_actors.kinds.rows import Row

PATHS_MAX: Final = 16  # a put reads the row at each of them
BYTES_MAX: Final = 32 * 1024 * 1024  # 100,000 rows that all differ take half of it
_PORTION: Final = 500  # rows indexed before somebody else gets a turn
_ASKING: Final = 8  # keys gathered in the time that a predicate takes for a row
_FEW: Final = 16  # keys that may always be gathered
_NOT_SHARE: Final = 0.25  # of all rows, in keys gathered: the time to leave some out of all
_SCAN: Final = 2  # keys to gather for each row held, from where on asking about all is as good
_VALUE_BYTES: Final = 100  # a dict's entry, a tuple of one key, a place in the order
_ENTRY_BYTES: Final = 60  # a key in a set
_OPAQUE_RATIO: Final = 8  # a list or an object is never found by its value
_BOUNDS: Final = {"gt": bisect_right, "gte": bisect_left, "lt": bisect_left, "lte": bisect_right}
_LOWER: Final = ("gt", "gte")
_ORDER: Final = ("eq", "in", *GROUPS, "contains", *_BOUNDS, "exists")
"""The order in which the parts of an `and` are asked."""
_OPAQUE: Final = (list, dict)

Fields = Mapping[str, object]
Limits = Sequence[tuple[str, object]]
"""The ends of a range: operators with what they compare with."""


class LivingMetadata(Mapping[int, Fields]):
    """The metadata of the living memories by their number in the traits, read from their rows."""

    def __init__(self, owners: Names, find: Callable[[str], Row | None]):
        self._owners = owners
        self._find = find
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._owners) - len(self._gone)

    def __iter__(self) -> Iterator[int]:
        return (number for number in range(len(self._owners)) if number not in self._gone)

    def __getitem__(self, number: int) -> Fields:
        row = None if number in self._gone else self._find(self._owners[number])
        if row is None:
            raise KeyError(number)
        return row.shown_metadata

    def is_there(self, number: int, *, there: bool) -> None:
        """Note whether a memory is one of those."""
        if there:
            self._gone.discard(number)
        else:
            self._gone.add(number)


class Posting(set[int]):
    """The keys of rows that have a value; also as an array, from when that is asked for."""

    numbers: npt.NDArray[np.int64] | None = None


def as_numbers(keys: AbstractSet[int]) -> npt.NDArray[np.int64]:
    """Return keys as an array, in any order; it must not be changed."""
    if isinstance(keys, Posting) and keys.numbers is not None:
        return keys.numbers
    numbers = np.fromiter(keys, np.int64, len(keys))
    if isinstance(keys, Posting):
        keys.numbers = numbers
    return numbers


class Candidates(NamedTuple):
    """Rows that may match."""

    keys: AbstractSet[int]
    """Read them before the next put or drop, which may change them."""
    exact: bool
    """All of them match: there is no need to ask the predicate."""


_Gather = Callable[[float], Candidates | None]
"""Gathers rows, at the cost of so many keys; returns None if the cost is higher."""


def _union(
    postings: Sequence[Collection[int]], most: float = math.inf, exact: bool = True
) -> Candidates | None:
    """Return the rows of any of these postings; the set itself where there is only one."""
    held = [keys for keys in postings if keys]
    if len(held) == 1 and isinstance(held[0], AbstractSet):
        return Candidates(held[0], exact)
    if sum(map(len, held)) + 2 * len(held) > max(most, _FEW):
        return None
    return Candidates(frozenset[int]().union(*held), exact)


class FieldIndex:
    """The metadata of rows, by key, with an index of each path that filters ask for."""

    def __init__(self, rows: Mapping[int, Fields], bytes_max: int = BYTES_MAX):
        self._bytes_max = bytes_max
        self._rows = rows
        self._columns: dict[str, _Column] = {}  # the least recently asked for first
        self._begun: dict[str, _Column] = {}  # those that are being made
        self._refused: dict[str, int] = {}  # paths not worth an index, with the rows of then

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size_bytes(self) -> int:
        """Memory of the columns, estimated; the rows are the caller's."""
        return sum(column.size_bytes for column in self._columns.values())

    def keys(self) -> AbstractSet[int]:
        """Return the keys of all rows."""
        return frozenset(self._rows)

    def get(self, key: int) -> Fields | None:
        """Return a row, None if it is not there."""
        return self._rows.get(key)

    def follow(self, key: int, old: Fields | None, new: Fields | None) -> None:
        """Follow a change of a row, which the rows have already; None is no row."""
        for column in (*self._columns.values(), *self._begun.values()):
            if old is not None:
                column.discard(key, old)
            if new is not None:
                column.add(key, new)
        self._fit()

    def prepared(self, filters: FilterPart) -> Iterator[None]:
        """Index the paths of a filter that are not yet; yield after each portion of a millisecond.

        Between the portions rows may be put and dropped. Paths that are not worth an index are left
        out.
        """
        for path in sorted(filters.paths())[:PATHS_MAX]:
            while path in self._begun:  # by somebody else's query
                yield
            if path in self._columns:
                self._columns[path] = self._columns.pop(path)  # now the last one
            elif not self._refused.get(path, 0) / 2 < len(self) < self._refused.get(path, 0) * 2:
                yield from self._prepared(path)

    def _prepared(self, path: str) -> Iterator[None]:
        column = self._begun[path] = _Column(path)
        try:
            keys = iter(list(self._rows))
            while batch := list(islice(keys, _PORTION)):
                for key in batch:
                    if (fields := self._rows.get(key)) is not None:
                        column.add(key, fields)
                yield
        finally:
            del self._begun[path]
        column.done = None
        if column.size_bytes <= self._bytes_max and column.pays:
            self._columns[path] = column
            self._fit()
        else:
            self._refused.pop(path, None)
            self._refused[path] = len(self._rows)
            if len(self._refused) > PATHS_MAX:
                del self._refused[next(iter(self._refused))]

    def _fit(self) -> None:
        """Give up what was least recently asked for, until the rest is within the bounds."""
        while len(self._columns) > PATHS_MAX or self.size_bytes > self._bytes_max:
            del self._columns[next(iter(self._columns))]

    def candidates(self, filters: FilterPart) -> Candidates | None:
        """Return all rows that match a `prepared` filter, perhaps others too.

        Returns None if a scan is as good.
        """
        found = self._found(filters)
        if found is None or not (found.exact or 2 * len(found.keys) <= len(self._rows)):
            return None
        return found

    def _found(self, part: FilterPart, most: float = math.inf) -> Candidates | None:
        if part.name == "not":
            if _NOT_SHARE * len(self) > max(most, _FEW):
                return None
            found = self._found(part.parts[0], most)
            if found is None or not found.exact:
                return None
            return Candidates(self.keys() - found.keys, True)
        if part.name == "or":
            any_of = [self._found(one, most) for one in part.parts]
            known = [one for one in any_of if one is not None]
            if len(known) < len(any_of):
                return None
            return _union([one.keys for one in known], most, all(one.exact for one in known))
        return self._all_of(part.parts if part.name == "and" else [part], most)

    def _all_of(self, parts: Sequence[FilterPart], most: float) -> Candidates | None:
        """Return the rows that match all parts, those asked first that leave the fewest."""
        keys: AbstractSet[int] | None = None
        exact, ranges = True, dict[str, list[tuple[str, object]]]()
        for part in parts:
            if part.name in _BOUNDS:
                ranges.setdefault(part.path, []).append((part.name, part.operand))
        asked: list[_Gather] = []
        for part in sorted(parts, key=lambda one: _ORDER.index(one.name)):
            column = self._columns.get(part.path)
            if part.name in GROUPS:
                asked.append(partial(self._found, part))
            elif column is None:
                exact = False
            elif part.name not in _BOUNDS:
                asked.append(partial(column.plain, part.name, part.operand))
            elif limits := ranges.pop(part.path, None):  # with the first of its bounds
                asked += column.ranges(limits)
        for gather in asked:
            found = gather(min(most, _SCAN * len(self) if keys is None else _ASKING * len(keys)))
            exact = exact and found is not None and found.exact
            if found is not None:
                keys = found.keys if keys is None else keys & found.keys
        return None if keys is None else Candidates(keys, exact or not keys)


class _Column:
    """The values at one path: keys of rows by token, and the scalars in order."""

    def __init__(self, path: str):
        self._read = _reader(path)
        self._keys: dict[Hashable, tuple[int] | Posting] = {}  # for one, a quarter of a set
        self._entries = 0
        self._several = 0  # rows with more than one value
        self._ordered: dict[type, list[object]] = {}
        self.done: set[int] | None = set()
        """The rows that it has, until it has all."""

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        return _VALUE_BYTES * len(self._keys) + _ENTRY_BYTES * self._entries

    @property
    def pays(self) -> bool:
        """Say whether enough of the values are found by what they are."""
        opaque = len(self._of(list)) + len(self._of(dict))
        return opaque <= _OPAQUE_RATIO * (self._entries - opaque)

    def add(self, key: int, fields: Fields) -> None:
        """Add a row, if it is not there yet."""
        if self.done is not None:
            if key in self.done:
                return
            self.done.add(key)
        values = self._read(fields)
        self._several += len(values) > 1
        for value in values:
            for token in _tokens(value):
                self._enter(token, key)

    def discard(self, key: int, fields: Fields) -> None:
        """Remove a row, if it is there: `fields` are those it was added with."""
        if self.done is not None:
            if key not in self.done:
                return
            self.done.discard(key)
        values = self._read(fields)
        self._several -= len(values) > 1
        for value in values:
            for token in _tokens(value):
                self._take_out(token, key)

    def _enter(self, token: Hashable, key: int) -> None:
        self._entries += 1
        held = self._keys.get(token)
        if isinstance(held, Posting):
            held.add(key)
            held.numbers = None
        elif held is None:
            self._keys[token] = (key,)
            if self._ordered:
                for kind, place in _places(token):
                    insort(self._ordered.get(kind, []), place)
        elif held[0] != key:
            self._keys[token] = Posting((held[0], key))

    def _take_out(self, token: Hashable, key: int) -> None:
        """Undo one `_enter`. A row that has a value twice is gone with the first."""
        self._entries -= 1
        held = self._of(token)
        if isinstance(held, Posting) and len(held) > 1:
            held.discard(key)
            held.numbers = None
        elif key in held:
            del self._keys[token]
            for kind, place in _places(token) if self._ordered else ():
                if (ordered := self._ordered.get(kind)) is not None:
                    del ordered[bisect_left(ordered, place)]

    def plain(self, name: str, operand: Any, most: float) -> Candidates | None:
        """Return the rows that may meet `eq`, `in`, `contains` or `exists`.

        Returns None if the postings have more than `most` keys.
        """
        if name == "exists":
            return _union([*self._keys.values()], most)
        if name == "contains":
            return self._containing(_token(operand), most)
        asked = operand if name == "in" else [operand]
        times = [one for one in asked if time_span(one)]
        same = [token for one in times for token in self._between([("gte", one), ("lte", one)])]
        tokens = {*map(_token, asked), *same}
        inexact = any(token in _OPAQUE and self._of(token) for token in tokens)
        return _union([self._of(token) for token in tokens], most, not inexact)

    def _containing(self, token: Hashable, most: float) -> Candidates | None:
        """Return rows with it in a list, in a string, or (not told here) among an object's keys."""
        if token in _OPAQUE:
            return _union([self._of(list)], most, not self._of(list))
        found = [self._of((list, token))]
        if isinstance(token, str):
            found += [self._keys[string] for string in self._in_order(str) if token in string]
            found.append(self._of(dict))
        return _union(found, most, not (isinstance(token, str) and self._of(dict)))

    def ranges(self, limits: Limits) -> list[_Gather]:
        """Return functions that gather the rows within limits, those of the fewest values first.

        Each limit has its own function if a row may meet them by several values, or kinds.
        """
        apart = self._several or len({_limit_kind(limit) for _, limit in limits}) > 1
        parts = [self._between([limit]) for limit in limits] if apart else [self._between(limits)]
        return [partial(self._within, values) for values in sorted(parts, key=len)]

    def _within(self, values: Sequence[object], most: float) -> Candidates | None:
        cost = len(values) * (2 + self._entries / max(1, len(self._keys)))
        if cost > most:
            return None
        return Candidates(frozenset[int]().union(*[self._keys[value] for value in values]), True)

    def _between(self, limits: Limits) -> list[object]:
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

    def _of(self, token: Hashable) -> Collection[int]:
        return self._keys.get(token, ())


def _reader(path: str) -> Callable[[Fields], Sequence[object]]:
    if "." not in path:
        return lambda fields: (fields[path],) if path in fields else ()
    steps = steps_of(path)
    return lambda fields: list(values_at(fields, steps, 0))


def _token(value: object) -> Hashable:
    """Return the key of a value: itself, (true,) as true would be 1, its type for others."""
    if isinstance(value, _OPAQUE):
        return list if isinstance(value, list) else dict
    return (value,) if value.__class__ is bool else value


def _tokens(value: object) -> Sequence[Hashable]:
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


def _limit_kind(limit: object) -> type | None:
    """Return the kind of the values that a limit is compared with."""
    return TimeSpan if time_span(limit) else _kind(_token(limit))


def _bound(ordered: Sequence[Any], name: str, limit: object) -> int:
    span = time_span(limit)
    if span is None:
        return _BOUNDS[name](ordered, limit)
    return bisect_left(ordered, (span.last + 1,) if name in ("gt", "lte") else (span.first,))


def _kind(token: Hashable) -> type | None:
    """Return float for a number, str for a string: what compares."""
    if isinstance(token, str):
        return str
    return float if isinstance(token, int | float) else None
