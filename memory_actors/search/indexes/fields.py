"""An index of metadata: rows by their values at the paths that filters ask for.

A predicate takes 0.1 to 1 us for a row: 1 to 10 ms for 10,000. This index finds in a tenth to a
thousandth of that a superset of the rows that match. The predicate decides the rest, and the caller
applies it to every candidate, unless they are known to be exact:

    part = parsed(filters)          # refuses a bad filter
    found = index.candidates(part)  # None: a scan is as good
    keys = [key for key in found.keys if found.exact or part.test(rows[key])]

A path has a column: the keys of its rows by value, and by the elements of lists for `contains`. The
values are put in order for the first range. A condition is a union of postings, and exact, as any
value at a path may meet it; only what is asked of the inside of lists and objects is not told. For
`and`, the smallest part is gathered first, and others cut it down if that is cheaper than testing
the rows. `or` needs a column for all parts, `not` an exact part.

Columns are lazy. A path is indexed when it is first asked for, in one pass over the rows, and kept
in step from then on; `prepared` makes that pass in portions, between which rows may change. At most
16 paths and 32 MiB are held; the least recently asked for goes first, but none that the same filter
asks for. A path that does not fit, or has eight times more lists and objects than scalars, is
refused until rows are twice or half as many. A filter of more paths uses the first; filters in turn
that need more build each time.

Paths and equality are those of filters.py. The rows are the caller's, who says what has changed.
Not thread-safe: change and ask from one thread at a time.
10,000 rows of a dictionary, measured: equality 0.005 ms; a range of distinct numbers 0.02 ms for
1 % of the rows, 0.10 ms for 10 %; `and` of two 0.03 to 0.3 ms; `ne` 0.2 ms (scans: 0.8 to 10 ms).
Indexing a path 6 ms, a nested one 14, lists of two 17 to 24, and 0.7 to 2 MB. A put 20 us beside 9
paths.
"""

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import Any, Final, Generic

from memory_actors.base.filters import GROUPS, FilterPart
from memory_actors.base.interning import Names
from memory_actors.search.indexes.field_columns import (
    BOUNDS,
    BegunColumn,
    Candidates,
    Column,
    K,
    RowPlan,
    size_of,
    union,
)

PATHS_MAX: Final = 16  # a put reads the row at each of them
BYTES_MAX: Final = 32 * 1024 * 1024  # 100,000 rows that all differ take half of it
_PORTION: Final = 500  # rows indexed before somebody else gets a turn
_ASKING: Final = 8  # keys gathered in the time that a predicate takes for a row
_SCAN: Final = 2  # keys to gather for each row held, from where on asking about all is as good


class LivingMetadata(Mapping[int, Mapping[str, Any]]):
    """The metadata of the living memories by their number in the traits, read from their rows."""

    def __init__(self, owners: Names, find: Callable[[str], Any]):
        self._owners = owners
        self._find = find
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._owners) - len(self._gone)

    def __iter__(self) -> Iterator[int]:
        return (number for number in range(len(self._owners)) if number not in self._gone)

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        row = None if number in self._gone else self._find(self._owners[number])
        if row is None:
            raise KeyError(number)
        metadata: Mapping[str, Any] = row.shown_metadata
        return metadata

    def is_there(self, number: int, *, there: bool) -> None:
        """Note whether a memory is one of those."""
        if there:
            self._gone.discard(number)
        else:
            self._gone.add(number)


class FieldIndex(Generic[K]):
    """The rows of one user, by key, with an index of each path that filters ask for."""

    def __init__(self, rows: Mapping[K, Mapping[str, Any]], bytes_max: int = BYTES_MAX):
        self._bytes_max = bytes_max
        self._rows = rows
        self._columns: dict[str, Column[K]] = {}  # the least recently asked for first
        self._begun: dict[str, BegunColumn[K]] = {}  # columns that are being made
        self._refused: dict[str, int] = {}  # paths not worth an index, with the rows of then

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size_bytes(self) -> int:
        """Memory of the columns, estimated; the rows are the caller's."""
        return size_of(self._columns.values())

    def keys(self) -> AbstractSet[K]:
        """Return the keys of all rows."""
        return frozenset(self._rows)

    def get(self, key: K) -> Mapping[str, Any] | None:
        """Return a row, None if it is not there."""
        return self._rows.get(key)

    def follow(self, key: K, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        """Follow a change of a row, which the rows have already; None is no row."""
        if old is not None:
            for column in self._columns.values():
                column.discard(key, old)
            for begun in self._begun.values():
                begun.drop(key, old)
        if new is not None:
            for column in self._columns.values():
                column.add(key, new)
            for begun in self._begun.values():
                begun.put(key, new)
            self._fit()

    def prepared(self, filters: FilterPart) -> Iterator[None]:
        """Index the paths of a filter that are not yet; yield after each portion of a millisecond.

        Between the portions rows may be put and dropped. Paths that are not worth an index are left
        out.
        """
        for path in sorted(filters.paths()):
            while path in self._begun:  # by somebody else's query
                yield
            if path not in self._columns and not self._is_refused(path):
                yield from self._prepared(path)

    def _prepared(self, path: str) -> Iterator[None]:
        begun = self._begun[path] = BegunColumn(Column[K](path))
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

    def candidates(self, filters: FilterPart) -> Candidates[K] | None:
        """Return all rows that match a filter, perhaps others too, or None if a scan is as good."""
        plan = _Planner(self._rows, partial(self._column, set())).part(filters)
        if plan is None or plan.cost > _SCAN * len(self._rows):
            return None
        found = plan.gather()
        return found if found.exact or 2 * len(found.keys) <= len(self._rows) else None

    def _column(self, asked: set[str], path: str) -> "Column[K] | None":
        """Return the column of a path, which joins those that the same filter asked for."""
        column = self._columns.pop(path, None) or self._built(path, asked)
        if column is not None:
            asked.add(path)
            self._columns[path] = column  # now the last one
            self._fit()
        return column

    def _built(self, path: str, asked: Collection[str]) -> "Column[K] | None":
        """Index a path, if it is worth it and there is room beside those asked for with it."""
        beside = [column for name, column in self._columns.items() if name in asked]
        if len(beside) == PATHS_MAX:
            return None
        if self._is_refused(path):
            return None
        column = Column[K](path)
        if column.fill(self._rows, self._bytes_max - size_of(beside)):
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
        while len(self._columns) > PATHS_MAX or size_of(self._columns.values()) > self._bytes_max:
            del self._columns[next(iter(self._columns))]


# --- from a filter to plans. The plan is None if no column helps.


class _Planner(Generic[K]):
    """Plans one filter, part by part."""

    def __init__(self, rows: Collection[K], column: Callable[[str], "Column[K] | None"]):
        self._rows = rows
        self._column = column

    def part(self, part: FilterPart) -> RowPlan[K] | None:
        if part.name == "not":
            return self._negated(self.part(part.parts[0]))
        if part.name == "or":
            return _any_of([self.part(one) for one in part.parts])
        parts = part.parts if part.name == "and" else [part]
        plans: list[RowPlan[K] | None] = []
        ranges: dict[str, list[tuple[str, Any]]] = {}
        for one in parts:
            if one.name in BOUNDS:
                ranges.setdefault(one.path, []).append((one.name, one.operand))
        for one in parts:
            if one.name in GROUPS:
                plans.append(self.part(one))
            elif one.name not in BOUNDS:
                column = self._column(one.path)
                plans.append(None if column is None else column.plan(one.name, one.operand))
            elif limits := ranges.pop(one.path, None):  # with the first of its bounds
                column = self._column(one.path)
                plans += [None] if column is None else column.ranges(limits)
        return _all_of(plans)

    def _negated(self, plan: RowPlan[K] | None) -> RowPlan[K] | None:
        if plan is None:
            return None
        count = len(self._rows)
        cost = plan.cost + count // 4  # a quarter, as the rest is copied unchanged
        return RowPlan(count - plan.size, cost, partial(_complement, self._rows, plan))


def _complement(rows: Collection[K], plan: RowPlan[K]) -> Candidates[K]:
    found, held = plan.gather(), frozenset(rows)
    return Candidates(held - found.keys, True) if found.exact else Candidates(held, False)


def _all_of(parts: Sequence[RowPlan[K] | None]) -> RowPlan[K] | None:
    plans = sorted([part for part in parts if part is not None], key=operator.itemgetter(0))
    if not plans or len(parts) == 1:
        return plans[0] if plans else None
    return plans[0]._replace(gather=partial(_intersection, plans, len(plans) == len(parts)))


def _intersection(plans: Sequence[RowPlan[K]], complete: bool) -> Candidates[K]:
    keys, exact = plans[0].gather()
    for plan in plans[1:]:
        if plan.cost > _ASKING * len(keys):
            complete = False
        else:
            found = plan.gather()
            keys, exact = keys & found.keys, exact and found.exact
    return Candidates(keys, (exact and complete) or not keys)


def _any_of(parts: Sequence[RowPlan[K] | None]) -> RowPlan[K] | None:
    plans = [part for part in parts if part is not None]
    if len(plans) < len(parts):
        return None

    def gather() -> Candidates[K]:
        found = [plan.gather() for plan in plans]
        return union([one.keys for one in found], all(one.exact for one in found))

    size = sum(plan.size for plan in plans)
    return RowPlan(size, size + sum(plan.cost for plan in plans), gather)
