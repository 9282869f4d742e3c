"""An index of metadata: the memories that match a filter.

Asking a filter about a row takes 0.1 to 1 us: 1 to 10 ms for 10,000 rows. A path has a column here:
its different values, numbered, and the number of each row's. A condition is asked once for each
different value, and the answers are kept until others push them out.

    part = parsed(filters)          # refuses a bad filter
    for _ in index.prepared(part):  # others may have a turn
        ...
    found = index.matching(part)    # None: ask `part.test` about each row

A row may have several values at a path through lists: these together are one value here. Equality
with a scalar looks the value up, as does an element of lists; ranges of numbers and times compare
an array.

Columns are lazy. `prepared` indexes a path when it is first asked for, in portions between which
rows may change, and it is kept in step from then on. At most 16 paths and 32 MiB are held; the
least recently asked for goes first.

Paths and equality are those of filters.py. The rows are the caller's, who says what has changed.
Not thread-safe: change and ask from one thread at a time.
"""

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.base.filters import GROUPS, FilterPart
from memory_actors.base.paths import steps_of, time_span, values_at
from memory_actors.search.indexes.labels import with_room

PATHS_MAX: Final = 16  # a put reads the row at each of them
BYTES_MAX: Final = 32 * 1024 * 1024  # 100,000 rows that all differ take half of it
ANSWERS_MAX: Final = 16  # conditions on one path, whose answers are kept
_PORTION: Final = 500  # rows or values, before somebody else gets a turn
_VALUE_BYTES: Final = 160  # of a different value: an entry of a dict, a tuple, two floats
_VALUES_SPARE: Final = 1_000  # that no row has any more, before the column is made anew
_EXACT_MAX: Final = 1 << 53  # floats below it are every integer; as a time, the year 2255
_RANGES: Final = {
    "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le,
}  # fmt: skip
_NO_ROW: Final = 0

Fields = Mapping[str, object]
Flags = npt.NDArray[np.bool_]


class FieldIndex:
    """The metadata of rows, by key, with a column for each path that filters ask for."""

    def __init__(
        self, read: Callable[[int], Fields | None], count: Callable[[], int],
        bytes_max: int = BYTES_MAX,
    ):  # fmt: skip
        """Take a function that reads the row of a key, and one that counts the keys."""
        self._bytes_max = bytes_max
        self.read = read
        self.count = count
        self._columns: dict[str, _Column | None] = {}
        """The least recently used first. None: too large to keep."""
        self._begun: dict[str, _Column] = {}  # those that are being made

    @property
    def size_bytes(self) -> int:
        """Memory of the columns, estimated; the rows are the caller's."""
        return sum(column.size_bytes for column in self._columns.values() if column is not None)

    def follow(self, key: int, new: Fields | None) -> None:
        """Follow a change of a row, which the rows have already; None is no row."""
        for begun in self._begun.values():
            begun.put(key, new)
        for path, column in list(self._columns.items()):
            if column is not None:
                column.put(key, new)
                if column.value_count > 2 * self.count() + _VALUES_SPARE:
                    del self._columns[path]
        self._fit()

    def prepared(self, filters: FilterPart) -> Iterator[None]:
        """Index the paths of a filter that are not yet, and ask its conditions.

        Yields after each portion of a millisecond. Between the portions rows may change.
        """
        conditions = filters.conditions()
        for path in sorted({part.path for part in conditions})[:PATHS_MAX]:
            while path in self._begun:  # by somebody else's query
                yield
            if path in self._columns:
                self._columns[path] = self._columns.pop(path)  # now the last one
            else:
                yield from self._prepared(path)
        for part in conditions:
            column = self._columns.get(part.path)
            if column is not None:
                yield from column.asked(part)

    def _prepared(self, path: str) -> Iterator[None]:
        column = self._begun[path] = _Column(path)
        try:
            for first in range(0, self.count(), _PORTION):
                for key in range(first, min(first + _PORTION, self.count())):
                    column.put(key, self.read(key))
                yield
        finally:
            del self._begun[path]
        self._columns[path] = column if column.size_bytes <= self._bytes_max else None
        self._fit()

    def _fit(self) -> None:
        """Give up what was least recently asked for, until the rest is within the bounds."""
        while len(self._columns) > PATHS_MAX or self.size_bytes > self._bytes_max:
            del self._columns[next(iter(self._columns))]

    def matching(self, filters: FilterPart) -> Flags | None:
        """Mark the keys of rows that match a `prepared` filter, or None if a path has no column.

        Keys from the end of the array on are those of no row.
        """
        paths = {part.path for part in filters.conditions()}
        columns = {path: column for path in paths if (column := self._columns.get(path))}
        if not columns or len(columns) < len(paths):
            return None
        there = next(iter(columns.values())).numbers(self.count()) != _NO_ROW
        return self._matching(filters, columns, there)

    def _matching(self, part: FilterPart, columns: "Mapping[str, _Column]", there: Flags) -> Flags:
        if part.name not in GROUPS:
            return columns[part.path].matching(part, self.count())
        found = [self._matching(one, columns, there) for one in part.parts]
        if part.name == "not":
            return there & ~found[0]
        if part.name == "and":
            return reduce(np.logical_and, found, there)
        return reduce(np.logical_or, found, np.zeros_like(there))


class _Column:
    """The different values at one path, by number, and the number of each row's."""

    def __init__(self, path: str):
        self._path = path
        self._steps = steps_of(path) if "." in path else None
        self._values: list[Sequence[object]] = []
        """The values of each row at the path: none, one or several."""
        self._number_of: dict[Hashable, int] = {}
        self._numbers = np.zeros(0, np.int32)
        """By the keys of rows."""
        self._ordered = np.zeros((0, 2))
        """Each value as a number, and as a time; NaN where it is none."""
        self._odd: list[int] = []
        """Values that are asked one by one: several at once, and those that a float would round."""
        self._lists_with: dict[Hashable, list[int]] = {}
        """The lists that have a scalar."""
        self._has_parts = False
        """True if a string or an object may contain a string."""
        self._answers: dict[bytes, Flags] = {}
        """By condition, for each value; the one that was asked first goes first."""
        self._add(())  # the number of no row

    @property
    def value_count(self) -> int:
        """The number of different values that rows have or had."""
        return len(self._values)

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        answers = sum(map(len, self._answers.values()))
        return _VALUE_BYTES * len(self._values) + self._numbers.nbytes + answers

    def put(self, key: int, fields: Fields | None) -> None:
        """Take in the value of a row; None is no row."""
        self._numbers = with_room(self._numbers, key + 1)
        self._numbers[key] = _NO_ROW if fields is None else self._number(fields)

    def _number(self, fields: Fields) -> int:
        values: Sequence[object] = ()
        if self._steps is not None:
            values = list(values_at(fields, self._steps, 0))
        elif self._path in fields:
            values = (fields[self._path],)
        name = _name(values[0]) if len(values) == 1 else tuple(map(_name, values))
        number = self._number_of.setdefault(name, len(self._values))
        if number == len(self._values):
            self._add(values)
        return number

    def _add(self, values: Sequence[object]) -> None:
        number = len(self._values)
        value: Any = values[0] if len(values) == 1 else None
        ordered = _ordered_as(value)
        self._values.append(values)
        self._ordered = with_room(self._ordered, number + 1)
        self._ordered[number] = np.nan
        if ordered is not None:
            self._ordered[number, int(isinstance(value, str))] = ordered
        if len(values) > 1 or (ordered is not None and abs(ordered) >= _EXACT_MAX):
            self._odd.append(number)
        self._has_parts |= isinstance(value, str | dict)
        for one in value if isinstance(value, list) else ():
            if not isinstance(one, list | dict):
                self._lists_with.setdefault(_name(one), []).append(number)

    def numbers(self, count: int) -> npt.NDArray[np.int32]:
        """Return the numbers of the values of rows, by key."""
        self._numbers = with_room(self._numbers, count)
        return self._numbers[:count]

    def matching(self, part: FilterPart, count: int) -> Flags:
        """Mark the rows that meet a condition."""
        if self._is_looked_up(part):
            found = self._looked_up(part)
        else:
            for _ in self.asked(part):
                pass
            found = self._answers[_condition(part)]
        return found[self.numbers(count)]

    def asked(self, part: FilterPart) -> Iterator[None]:
        """Ask a condition about each value that it was not asked about, unless it is looked up."""
        condition, left = _condition(part), not self._is_looked_up(part)
        while left:
            answers = self._answers.pop(condition, np.zeros(0, np.bool_))
            some = self._values[len(answers) : len(answers) + _PORTION]
            fresh = [any(part.test({part.path: value}) for value in values) for values in some]
            self._answers[condition] = np.append(answers, np.array(fresh, np.bool_))
            if len(self._answers) > ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]
            left = len(answers) + len(some) < len(self._values)
            if left:
                yield

    def _is_looked_up(self, part: FilterPart) -> bool:
        """Say whether a condition needs not be asked about each value."""
        limit: Any = part.operand
        if part.name in _RANGES:
            ordered = _ordered_as(limit)
            return ordered is not None and abs(ordered) < _EXACT_MAX
        if part.name == "contains" and isinstance(limit, str) and self._has_parts:
            return False
        operands = limit if part.name == "in" else (limit,)
        return part.name != "exists" and not any(isinstance(one, list | dict) for one in operands)

    def _looked_up(self, part: FilterPart) -> Flags:
        limit: Any = part.operand
        found = np.zeros(len(self._values), np.bool_)
        numbers, times = self._ordered[: len(found)].T
        if part.name in _RANGES:
            compare, span = _RANGES[part.name], time_span(limit)
            if span is None:
                found = compare(numbers, limit)
            else:
                found = compare(times, span.last if part.name in ("gt", "lte") else span.first)
        elif part.name == "contains":
            found[self._lists_with.get(_name(limit), [])] = True
        else:
            for one in limit if part.name == "in" else (limit,):
                if (span := time_span(one)) is not None:
                    found |= (times >= span.first) & (times <= span.last)
                elif (number := self._number_of.get(_name(one))) is not None:
                    found[number] = True
        for number in self._odd:
            found[number] = any(part.test({part.path: value}) for value in self._values[number])
        return found


def _ordered_as(value: object) -> float | None:
    """Return a number itself, the first microsecond of a time, None for others."""
    if isinstance(value, int | float):
        return None if value.__class__ is bool else value
    span = time_span(value)
    return None if span is None else span.first


def _name(value: object) -> Hashable:
    """Return the key of a value: itself, (true,) as true would be 1, its JSON for others."""
    if isinstance(value, list | dict):
        return msgspec.json.encode(value)
    return (value,) if value.__class__ is bool else value


def _condition(part: FilterPart) -> bytes:
    return msgspec.json.encode((part.name, part.operand))
