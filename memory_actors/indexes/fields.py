"""Which rows have which values, at the paths that filters ask for.

A predicate takes 0.1 to 1 us for a row: 1 to 10 ms for 10,000. This index finds in a tenth to a
thousandth of that a superset of the rows that match. What it cannot tell it leaves to the
predicate, which the caller asks about every candidate, unless they are known to be exact:

    matches = predicate(filters)       # refuses a bad filter
    found = index.candidates(filters)  # None: a scan is as good
    keys = [key for key in found.keys if found.exact or matches(rows[key])]

A path has a column: the keys of its rows by value, and by the elements of lists for `contains`. The
values are put in order for the first range. A condition is a union of postings, and exact, as any
value at a path may meet it; only what is asked of the inside of lists and objects is not told. Of
`and`, the smallest part is gathered first, and others cut it down where that is cheaper than asking
about the rows. `or` needs a column for all parts, `not` an exact part.

Columns are lazy. A path is indexed when it is first asked for, in one pass over the rows, and kept
in step from then on; `prepared` makes that pass in portions, between which rows may change. At most
16 paths and 32 MiB are held; the least recently asked for goes first, but none that the same filter
asks for. A path that does not fit, or has eight times more lists and objects than scalars, is
refused until rows are twice or half as many. A filter of more paths uses the first; filters in turn
that need more build each time.

Paths and equality are those of filters.py. Rows are not copied: they must not change while here.
Not thread-safe: put, drop and ask from one thread at a time.
10,000 rows, measured: equality 0.005 ms; a range of distinct numbers 0.02 ms for 1 % of the rows,
0.10 ms for 10 %; `and` of two 0.03 to 0.3 ms; `ne` 0.2 ms (scans: 0.8 to 10 ms). Indexing a path 6
ms, a nested one 14, lists of two 17 to 24, and 0.7 to 2 MB. A put 20 us beside 9 paths.
"""

import operator
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from memory_actors import filters as language
from memory_actors.filters import are_operators, bare, steps_of, values_at
from memory_actors.validation import json_copy

K = TypeVar("K", bound=Hashable)

PATHS_MAX: Final = 16  # a put reads the row at each of them
BYTES_MAX: Final = 32 * 1024 * 1024  # 100,000 rows that all differ take half of it
_VALUE_BYTES: Final = 100  # a dict's entry, a tuple of one key, a place in the order
_ENTRY_BYTES: Final = 60  # a key in a set
_ROW_BYTES: Final = 100  # a dict's entry; the fields are the caller's
_BATCH: Final = 1_000  # rows indexed between two looks at the size
_PORTION: Final = 500  # rows indexed before somebody else gets a turn
_OPAQUE_RATIO: Final = 8  # a list or an object is never found by its value
_ASKING: Final = 8  # keys gathered in the time that a predicate takes for a row
_SCAN: Final = 2  # keys to gather for each row held, from where on asking about all is as good

_BOUNDS: Final = {"gt": bisect_right, "gte": bisect_left, "lt": bisect_left, "lte": bisect_right}
_LOWER: Final = ("gt", "gte")
_OPAQUE: Final = (list, dict)


class Candidates(NamedTuple, Generic[K]):
    """Rows that may match."""

    keys: AbstractSet[K]
    """Read them before the next put or drop, which may change them."""
    exact: bool
    """All of them match: there is no need to ask the predicate."""


class _Plan(NamedTuple, Generic[K]):
    """How the rows of a part of a filter would be found."""

    size: int  # of rows, about
    cost: int  # keys to gather first, or as much work: 0 where a posting is given as it is
    gather: Callable[[], Candidates[K]]


class FieldIndex(Generic[K]):
    """The rows of one user, by key, with an index of each path that filters ask for."""

    def __init__(self, bytes_max: int = BYTES_MAX):
        self._bytes_max = bytes_max
        self._rows: dict[K, Mapping[str, Any]] = {}
        self._columns: dict[str, _Column[K]] = {}  # the least recently asked for first
        self._begun: dict[str, _Begun[K]] = {}  # columns that are being made
        self._refused: dict[str, int] = {}  # paths not worth an index, with the rows of then

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size_bytes(self) -> int:
        """Memory of the columns and of the map of rows, estimated; the fields are the caller's."""
        return _ROW_BYTES * len(self._rows) + _size(self._columns.values())

    def keys(self) -> AbstractSet[K]:
        """Return the keys of all rows."""
        return self._rows.keys()

    def get(self, key: K) -> Mapping[str, Any] | None:
        """Return a row, None if it is not there."""
        return self._rows.get(key)

    def put(self, key: K, fields: Mapping[str, Any]) -> None:
        """Add a row, in place of the one with its key."""
        self.drop(key)
        self._rows[key] = fields
        for column in self._columns.values():
            column.add(key, fields)
        for begun in self._begun.values():
            begun.put(key, fields)
        self._fit()

    def drop(self, key: K) -> None:
        """Remove a row, if it is there."""
        fields = self._rows.pop(key, None)
        if fields is not None:
            for column in self._columns.values():
                column.discard(key, fields)
            for begun in self._begun.values():
                begun.drop(key, fields)

    def prepared(self, filters: Mapping[str, Any]) -> Iterator[None]:
        """Index the paths of a filter that are not yet; yield after each portion of a millisecond.

        Between the portions rows may be put and dropped. What is not worth an index is left out.
        """
        for path in sorted(_paths(filters) - self._columns.keys() - self._begun.keys()):
            if not self._is_refused(path):
                yield from self._prepared(path)

    def _prepared(self, path: str) -> Iterator[None]:
        begun = self._begun[path] = _Begun(_Column[K](path))
        try:
            keys = iter(list(self._rows))
            while batch := list(islice(keys, _PORTION)):
                begun.take(batch, self._rows)
                yield
            if begun.column.size_bytes <= self._bytes_max and begun.column.pays:
                self._columns[path] = begun.column
                self._fit()
            else:
                self._refuse(path, len(self._rows))
        finally:
            del self._begun[path]

    def candidates(self, filters: Mapping[str, Any]) -> Candidates[K] | None:
        """Return all rows that match a filter, perhaps others too; None if a scan is as good."""
        plan = _Planner(self._rows.keys(), partial(self._column, set())).filter(filters)
        if plan is None or plan.cost > _SCAN * len(self._rows):
            return None
        found = plan.gather()
        return found if found.exact or 2 * len(found.keys) <= len(self._rows) else None

    def _column(self, asked: set[str], path: str) -> "_Column[K] | None":
        """Return the column of a path, which joins those that the same filter asked for."""
        column = self._columns.pop(path, None) or self._built(path, asked)
        if column is not None:
            asked.add(path)
            self._columns[path] = column  # now the last one
            self._fit()
        return column

    def _built(self, path: str, asked: Collection[str]) -> "_Column[K] | None":
        """Index a path, if it is worth it and there is room beside those asked for with it."""
        beside = [column for name, column in self._columns.items() if name in asked]
        if len(beside) == PATHS_MAX:
            return None
        if self._is_refused(path):
            return None
        column = _Column[K](path)
        if column.fill(self._rows, self._bytes_max - _size(beside)):
            return column
        self._refuse(path, len(self._rows))
        return None

    def _is_refused(self, path: str) -> bool:
        """Say whether a path was not worth an index, with about as many rows as now."""
        then = self._refused.get(path, 0)
        return then / 2 < len(self._rows) < then * 2

    def _refuse(self, path: str, count: int) -> None:
        self._refused.pop(path, None)
        self._refused[path] = count
        if len(self._refused) > PATHS_MAX:
            del self._refused[next(iter(self._refused))]

    def _fit(self) -> None:
        """Give up what was least recently asked for, until the rest is within the bounds."""
        while len(self._columns) > PATHS_MAX or _size(self._columns.values()) > self._bytes_max:
            del self._columns[next(iter(self._columns))]


def _paths(filters: Mapping[str, Any]) -> set[str]:
    """Return the paths that a filter, which is known to be one, asks about."""
    found: set[str] = set()
    for key, value in filters.items():
        group = bare(key)
        if group not in language.GROUPS:
            found.add(key.removeprefix(language.ESCAPE))
        else:
            parts = [value] if group == "not" else value
            found |= {path for part in parts for path in _paths(part)}
    return found


# --- from a filter to plans. None is the plan of what no column helps with.


class _Planner(Generic[K]):
    """Plans one filter, part by part as filters.py compiles it."""

    def __init__(self, rows: AbstractSet[K], column: Callable[[str], "_Column[K] | None"]):
        self._rows = rows
        self._column = column

    def filter(self, given: Mapping[str, Any]) -> _Plan[K] | None:
        return _all_of([self._entry(key, value) for key, value in given.items()])

    def _entry(self, key: str, value: Any) -> _Plan[K] | None:
        if bare(key) in language.GROUPS:
            return self._group(bare(key), value, self.filter)
        column = self._column(key.removeprefix(language.ESCAPE))
        return None if column is None else self._field(column, value)

    def _group(
        self, name: str, operand: Any, part: Callable[[Any], _Plan[K] | None]
    ) -> _Plan[K] | None:
        if name == "not":
            return self._negated(part(operand))
        parts = [part(item) for item in operand]
        return _all_of(parts) if name == "and" else _any_of(parts)

    def _field(self, column: "_Column[K]", asked: Any) -> _Plan[K] | None:
        """Plan what is asked of one field: operators, or a value it equals."""
        if not isinstance(asked, Mapping) or not are_operators(asked, "filters"):
            return self._condition(column, "eq", asked)
        pairs = [(bare(key), operand) for key, operand in asked.items()]
        ranges = column.ranges([pair for pair in pairs if pair[0] in _BOUNDS])
        others = [self._condition(column, *pair) for pair in pairs if pair[0] not in _BOUNDS]
        return _all_of([*ranges, *others])

    def _condition(self, column: "_Column[K]", name: str, operand: Any) -> _Plan[K] | None:
        if name in language.GROUPS:
            return self._group(name, operand, partial(self._field, column))
        plan = column.plan(language.NEGATED.get(name, name), json_copy(operand, "filters"))
        negative = name in language.NEGATED or (name == "exists" and not operand)
        return self._negated(plan) if negative else plan

    def _negated(self, plan: _Plan[K] | None) -> _Plan[K] | None:
        if plan is None:
            return None
        count = len(self._rows)
        cost = plan.cost + count // 4  # a quarter, as what is left is copied as it is
        return _Plan(count - plan.size, cost, partial(_complement, self._rows, plan))


def _complement(rows: AbstractSet[K], plan: _Plan[K]) -> Candidates[K]:
    found = plan.gather()
    return Candidates(rows - found.keys, True) if found.exact else Candidates(rows, False)


def _all_of(parts: Sequence[_Plan[K] | None]) -> _Plan[K] | None:
    plans = sorted([part for part in parts if part is not None], key=operator.itemgetter(0))
    if not plans or len(parts) == 1:
        return plans[0] if plans else None
    return plans[0]._replace(gather=partial(_intersection, plans, len(plans) == len(parts)))


def _intersection(plans: Sequence[_Plan[K]], complete: bool) -> Candidates[K]:
    keys, exact = plans[0].gather()
    for plan in plans[1:]:
        if plan.cost > _ASKING * len(keys):
            complete = False
        else:
            found = plan.gather()
            keys, exact = keys & found.keys, exact and found.exact
    return Candidates(keys, (exact and complete) or not keys)


def _any_of(parts: Sequence[_Plan[K] | None]) -> _Plan[K] | None:
    plans = [part for part in parts if part is not None]
    if len(plans) < len(parts):
        return None

    def gather() -> Candidates[K]:
        found = [plan.gather() for plan in plans]
        return _union([one.keys for one in found], all(one.exact for one in found))

    size = sum(plan.size for plan in plans)
    return _Plan(size, size + sum(plan.cost for plan in plans), gather)


def _ready(postings: Sequence[Collection[K]], exact: bool = True) -> _Plan[K]:
    """Plan a union of postings, which costs nothing where there is only one."""
    held = [keys for keys in postings if keys]
    size = sum(map(len, held))
    cost = size + 2 * len(held) if len(held) > 1 else 0
    return _Plan(size, cost, partial(_union, held, exact))


def _union(postings: Sequence[Collection[K]], exact: bool = True) -> Candidates[K]:
    if len(postings) == 1 and isinstance(postings[0], AbstractSet):
        return Candidates(postings[0], exact)
    return Candidates(frozenset[K]().union(*postings), exact)


# --- columns


class _Column(Generic[K]):
    """What the rows have at one path: their keys by token, and the scalars in order."""

    def __init__(self, path: str):
        self._read = _reader(path)
        self._keys: dict[Hashable, tuple[K] | set[K]] = {}  # for one, a quarter of a set
        self._entries = 0
        self._several = 0  # rows with more than one value
        self._ordered: dict[type | None, list[Any]] = {}

    @property
    def size_bytes(self) -> int:
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
        """Whether enough of the values are found by what they are."""
        opaque = len(self._of(list)) + len(self._of(dict))
        return opaque <= _OPAQUE_RATIO * (self._entries - opaque)

    def add(self, key: K, fields: Mapping[str, Any]) -> None:
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
        if isinstance(held, set):
            held.add(key)
        elif held is None:
            self._keys[token] = (key,)
            if self._ordered:
                insort(self._ordered.get(_kind(token), []), token)
        elif held[0] != key:
            self._keys[token] = {held[0], key}

    def _take_out(self, token: Hashable, key: K) -> None:
        """Undo one `_enter`. A row that has a value twice is gone with the first."""
        self._entries -= 1
        held = self._of(token)
        if isinstance(held, set) and len(held) > 1:
            held.discard(key)
        elif key in held:
            del self._keys[token]
            if (ordered := self._ordered.get(_kind(token))) is not None:
                del ordered[bisect_left(ordered, token)]

    def plan(self, name: str, operand: Any) -> _Plan[K]:
        """Plan `eq`, `in`, `contains` or `exists`."""
        if name == "exists":
            return _ready([*self._keys.values()])
        if name == "contains":
            return self._containing(_token(operand))
        return self._among({_token(one) for one in (operand if name == "in" else [operand])})

    def ranges(self, limits: Sequence[tuple[str, Any]]) -> list[_Plan[K]]:
        """Plan a range at once, if no row can meet each end of it by another value."""
        parts = [[limit] for limit in limits] if self._several else [limits] if limits else []
        return [self._range(part) for part in parts]

    def _range(self, limits: Sequence[tuple[str, Any]]) -> _Plan[K]:
        found = self._between(limits)
        size = len(found) * self._entries // max(1, len(self._keys))
        cost = size + 2 * len(found)
        return _Plan(size, cost, lambda: _union([self._keys[value] for value in found]))

    def _among(self, tokens: Collection[Hashable]) -> _Plan[K]:
        """Plan equality with any of the tokens; a list may equal any list here."""
        inexact = any(token in _OPAQUE and self._of(token) for token in tokens)
        return _ready([self._of(token) for token in tokens], not inexact)

    def _containing(self, token: Hashable) -> _Plan[K]:
        """Plan `contains`: in a list, in a string, or (not told here) among an object's keys."""
        if token in _OPAQUE:
            return self._among([list])
        found = [self._of((list, token))]
        if not isinstance(token, str):
            return _ready(found)
        found += [self._keys[string] for string in self._in_order(str) if token in string]
        return _ready([*found, self._of(dict)], not self._of(dict))

    def _between(self, limits: Sequence[tuple[str, Any]]) -> list[Any]:
        """Return the values within limits: none, if these are not all numbers or all strings."""
        kinds = {_kind(_token(limit)) for _, limit in limits}
        kind = kinds.pop()
        if kind is None or kinds:
            return []
        ordered = self._in_order(kind)
        places = [(name, _BOUNDS[name](ordered, limit)) for name, limit in limits]
        start = max([0, *(place for name, place in places if name in _LOWER)])
        end = min([len(ordered), *(place for name, place in places if name not in _LOWER)])
        return ordered[start:end]

    def _in_order(self, kind: type) -> list[Any]:
        """Return the different values of a kind in order, and keep them so from now on."""
        if kind not in self._ordered:
            self._ordered[kind] = sorted([token for token in self._keys if _kind(token) is kind])
        return self._ordered[kind]

    def _of(self, token: Hashable) -> Collection[K]:
        return self._keys.get(token, ())


class _Begun(Generic[K]):
    """A column that has some of the rows, and is kept in step with those."""

    def __init__(self, column: _Column[K]):
        self.column = column
        self._done: set[K] = set()

    def take(self, keys: Iterable[K], rows: Mapping[K, Mapping[str, Any]]) -> None:
        """Add rows that are still there and have not been added."""
        for key in keys:
            if key in rows and key not in self._done:
                self.put(key, rows[key])

    def put(self, key: K, fields: Mapping[str, Any]) -> None:
        self._done.add(key)
        self.column.add(key, fields)

    def drop(self, key: K, fields: Mapping[str, Any]) -> None:
        if key in self._done:
            self._done.discard(key)
            self.column.discard(key, fields)


def _size(columns: Iterable[_Column[Any]]) -> int:
    return sum(column.size_bytes for column in columns)


def _reader(path: str) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    """Return what reads the values at a path, as filters.py does."""
    if "." not in path:
        return lambda fields: (fields[path],) if path in fields else ()
    steps = steps_of(path)
    return lambda fields: list(values_at(fields, steps, 0))


def _token(value: Any) -> Hashable:
    """Return what a value is found by: itself, (true,) as true would be 1, its type for others."""
    if isinstance(value, _OPAQUE):
        return list if isinstance(value, list) else dict
    return (value,) if value.__class__ is bool else value


def _tokens(value: Any) -> Sequence[Hashable]:
    """Return the token of a value, and (list, token) for each scalar in a list."""
    if not isinstance(value, list):
        return (_token(value),)
    return [list, *[(list, _token(one)) for one in value if not isinstance(one, _OPAQUE)]]


def _kind(token: Hashable) -> type | None:
    """Return float for a number, str for a string: what compares."""
    if isinstance(token, str):
        return str
    return float if isinstance(token, int | float) else None
