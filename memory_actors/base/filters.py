r"""The filters of metadata and JSON documents. This file specifies the meaning of each filter.

`indexes/field_columns.py` answers many filters faster, for rows in memory; tests hold it to this.

    {"category": "sports"}                              equal
    {"price": {"gt": 10, "lte": 20}, "tags": {"contains": "new"}}
    {"or": [{"city": "Porto"}, {"not": {"open": True}}], "guests.0.name": {"exists": True}}

A filter is a dict; all of its keys must hold, so `{}` matches everything. A key is `and` or `or`
with a list of filters (an empty `and` matches all, an empty `or` nothing), `not` with a filter, or
the path of a field with what must be true of it: a dict of operators, or a value that is no dict
and that the field equals. `and`, `or` and `not` may also stand under a field:
`{"n": {"not": {"gt": 5}}}`. They and the operators may be written with Mongo's `$`.

Operators:  eq ne   gt gte lt lte   in nin (a list)   contains   exists (true or false)

- Equality is JSON's, at any depth: 1 equals 1.0, and true is not 1. A list equals a list.
- `gt gte lt lte` compare two numbers, or two strings by code point. Anything else is no match, not
  an error; a boolean is no number.
- A string such as `2026-03-01T12:00:00+02:00` is a time (ISO 8601, in UTC without a zone). The
  operators `eq in gt gte lt lte` compare it with other times only. A date alone is the whole day in
  UTC: `eq` and `lte` take all of it in, `gt` begins on the next day.
- `contains`: a list has the element, a string has the substring, an object has the key.
 - `ne`, `nin` and `not` are true exactly where `eq`, `in` and the inner filter are false. A missing
   field matches `ne`, `nin`, `exists: false` and `not`, and nothing else. null is there.

Paths. `a.b` is the field `b` of the object `a`. In each object the longest run of segments that is
a key of it is taken, so the literal key "a.b" wins. A numeric segment indexes a list (from 0). Any
other segment on a list asks for any of its elements; each operator may be met by another one.

Escapes. A leading backslash makes the rest of a key the path of a field: `\and`, `\$x`, `\\x` for
`\x`. Equality with an object is `{"eq": {...}}`: a dict under a field has operators as keys and
nothing else, so that a misspelled one is an error and not an object that nothing equals. Any other
name that begins with `$`, in a path too, is an error as well.

A filter is checked once and turned into a tree of parts, each with a closure as its test; a match
then costs little and never fails.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any, NamedTuple

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.paths import ESCAPE, MISSING, checked_path, steps_of, time_span, values_at
from memory_actors.base.records import IS_COMPRESSED
from memory_actors.base.validation import json_copy

Predicate = Callable[[Mapping[str, Any]], bool]

DEPTH_MAX = 16  # of `and`, `or`, `not`: what a person can follow, and far from Python's stack
CONDITIONS_MAX = 256  # all of them may be asked of each of 10,000 rows
IN_VALUES_MAX = 1_000
FILTER_BYTES_MAX = 64 * 1024  # 1,000 ids fit; with the others it bounds what compiling may cost

GROUPS = ("and", "or", "not")
NEGATED = {"ne": "eq", "nin": "in"}
_Test = Callable[[Any], bool]
"""A test of one value, or of `MISSING`; a `Predicate` is a test of a whole document."""


class FilterPart(NamedTuple):
    """A part of a filter: a condition on the values at a path, or a group of parts."""

    test: Predicate
    """A test of metadata or of a document: a mapping of JSON values, dicts and lists."""
    name: str
    """`and`, `or`, `not`, or an operator but `ne` and `nin`, which are groups of `not`."""
    parts: tuple["FilterPart", ...] = ()
    path: str = ""
    operand: object = None

    def conditions(self) -> list["FilterPart"]:
        """Return the conditions in it, which are no groups."""
        if self.name not in GROUPS:
            return [self]
        return [condition for part in self.parts for condition in part.conditions()]


_Compile = Callable[[object, str, int], FilterPart]
"""A function that compiles a part of a group: (given, its place, depth)."""


def parsed(filters: Mapping[str, object] | None) -> FilterPart | None:
    """Return a filter taken apart, None for no filter.

    :raises InvalidInputError: a bad or too large filter; the message names the place in it.
    """
    if filters is None:
        return None
    part = _Compiler().filter(filters, "filters", 0)
    return part if filters else None


def predicate(filters: Mapping[str, object] | None) -> Predicate | None:
    """Return a test of metadata or of a document, None for no filter.

    It takes any mapping; what is nested in it must be dicts and lists, as decoded JSON is.

    :raises InvalidInputError: a bad or too large filter; the message names the place in it.
    """
    part = parsed(filters)
    return None if part is None else part.test


# --- from a filter to parts


class _Compiler:
    def __init__(self) -> None:
        self._conditions = 0
        self._bytes = 0

    def filter(self, given: object, where: str, depth: int) -> FilterPart:
        if not isinstance(given, Mapping):
            raise InvalidInputError(f"{where} must be a dict, not {type(given).__name__}")
        if not given:
            self._spend(where)
        return _all_of([self._entry(key, value, where, depth) for key, value in given.items()])

    def _entry(self, key: object, value: object, where: str, depth: int) -> FilterPart:
        name = checked_path(key, where)
        where = f"{where}.{name}"
        if bare(name) in GROUPS:
            return self._group(bare(name), value, where, depth + 1, self.filter)
        if not name.startswith(ESCAPE) and any(part.startswith("$") for part in name.split(".")):
            raise InvalidInputError(
                f"{where}: unknown operator: use $and $or $not here, \\{name} for such a field"
            )
        return self._field(name.removeprefix(ESCAPE), value, where, depth)

    def _group(
        self, name: str, operand: object, where: str, depth: int, part: _Compile
    ) -> FilterPart:
        if depth > DEPTH_MAX:
            raise InvalidInputError(f"{where} is nested deeper than {DEPTH_MAX} levels")
        if name == "not":
            return _negated(part(operand, where, depth))
        operands = _list_of(operand, where)
        if not operands:
            self._spend(where)
        parts = [part(item, f"{where}[{at}]", depth) for at, item in enumerate(operands)]
        if name == "and":
            return _all_of(parts)
        return FilterPart(_any_passes([one.test for one in parts]), "or", tuple(parts))

    def _field(self, path: str, asked: object, where: str, depth: int) -> FilterPart:
        if not isinstance(asked, Mapping):
            return self._condition(path, "eq", asked, where)
        _check_operators(asked, where)
        parts = []
        for key, operand in asked.items():
            name, place = bare(key), f"{where}.{key}"
            if name in GROUPS:
                part = partial(self._field, path)
                parts.append(self._group(name, operand, place, depth + 1, part))
            else:
                parts.append(self._condition(path, name, operand, place))
        return _all_of(parts)

    def _condition(self, path: str, name: str, given: object, where: str) -> FilterPart:
        if path == IS_COMPRESSED and name in ("in", "nin"):
            found = self._group("or", given, where, 0, partial(self._field, path))
            return found if name == "in" else _negated(found)
        operand = json_copy(given.isoformat() if isinstance(given, date) else given, where)
        self._spend(where, len(msgspec.json.encode((path, operand))))
        if name == "exists" and not isinstance(operand, bool):
            raise InvalidInputError(f"{where} needs true or false, not {operand!r:.80}")
        negative = name in NEGATED or (name == "exists" and not operand)
        name = NEGATED.get(name, name)
        if path == IS_COMPRESSED and name == "eq" and operand is False:
            operand, negative = True, not negative  # metadata says it only of what is
        test = _at(path, _OPERATORS[name](operand, where))
        holds = FilterPart(test, name, path=path, operand=operand)
        return _negated(holds) if negative else holds

    def _spend(self, where: str, size: int = 0) -> None:
        """Count a condition; an empty filter or list counts as one, so that width is bounded."""
        self._conditions += 1
        self._bytes += size
        if self._conditions > CONDITIONS_MAX:
            raise InvalidInputError(f"{where}: more than {CONDITIONS_MAX} conditions: use fewer")
        if self._bytes > FILTER_BYTES_MAX:
            raise InvalidInputError(f"{where}: the filter is over {FILTER_BYTES_MAX:,} bytes")


def bare(key: str) -> str:
    """Return an operator's name without the `$` of Mongo."""
    return key.removeprefix("$")


def _check_operators(asked: Mapping[object, object], where: str) -> None:
    if not asked:
        raise InvalidInputError(
            f'{where}: {{}} has no operator: use {{"eq": {{}}}} for equality with the empty object'
        )
    for key in asked:
        if not isinstance(key, str) or bare(key) not in _KNOWN:
            raise InvalidInputError(
                f"{where}: unknown operator {key!r:.80}: use only {' '.join(_KNOWN)} in one dict, "
                'a path of its own for each field, or {"eq": {...}} for equality with an object'
            )


def _list_of(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise InvalidInputError(f"{where} needs a list, not {value!r:.80}")
    return value


# --- groups. Plain loops: all() and any() with a generator take twice as long.


def _all_of(parts: Sequence[FilterPart]) -> FilterPart:
    tests = [part.test for part in parts]

    def matches(held: Any) -> bool:
        for test in tests:  # noqa: SIM110
            if not test(held):
                return False
        return True

    return parts[0] if len(parts) == 1 else FilterPart(matches, "and", tuple(parts))


def _any_passes(tests: Sequence[_Test]) -> _Test:
    def matches(held: object) -> bool:
        for test in tests:  # noqa: SIM110
            if test(held):
                return True
        return False

    return matches


def _negated(part: FilterPart) -> FilterPart:
    test = part.test
    return FilterPart(lambda held: not test(held), "not", (part,))


# --- closures: operators. Each gives a test of one value, false for a missing one.


def _equals(wanted: object, _where: str = "") -> _Test:
    if wanted is None or isinstance(wanted, bool):
        return lambda held: held is wanted
    if isinstance(wanted, str):
        return lambda held: bool(held == wanted)
    if isinstance(wanted, list | dict):
        return lambda held: held == wanted and _same_types(held, wanted)
    return lambda held: held == wanted and held.__class__ is not bool


def _same_types(held: Any, wanted: Any) -> bool:
    """Tell equal values of JSON apart where Python does not: true from 1, at any depth."""
    if isinstance(wanted, list):
        return all(map(_same_types, held, wanted))
    if isinstance(wanted, dict):
        return all(_same_types(held[key], value) for key, value in wanted.items())
    return isinstance(held, bool) == isinstance(wanted, bool)


def _is(wanted: object, _where: str = "") -> _Test:
    """Return the test of `eq`: of equality, or of a time that is within another one."""
    span = time_span(wanted)
    if span is None:
        return _equals(wanted)
    first, last = span
    return lambda held: (at := time_span(held)) is not None and first <= at.first <= last


def _is_in(wanted: object, where: str) -> _Test:
    values = _list_of(wanted, where)
    if len(values) > IN_VALUES_MAX:
        raise InvalidInputError(f"{where} has {len(values):,} values (max: {IN_VALUES_MAX:,})")
    plain = frozenset(v for v in values if not isinstance(v, list | dict | bool))
    others = _any_passes([_equals(v) for v in values if isinstance(v, list | dict | bool)])
    times = _any_passes([_is(v) for v in values if time_span(v)])

    def matches(held: object) -> bool:
        if isinstance(held, list | dict | bool):
            return others(held)
        return held in plain or times(held)

    return matches


def _comparison(name: str) -> Callable[[object, str], _Test]:
    compare = getattr(operator, {"gte": "ge", "lte": "le"}.get(name, name))

    def compile_(limit: object, _where: str) -> _Test:
        span = time_span(limit)
        if span is not None:
            end = span.last if name in ("gt", "lte") else span.first
            return lambda held: (at := time_span(held)) is not None and compare(at.first, end)
        if isinstance(limit, str):
            return lambda held: isinstance(held, str) and compare(held, limit)
        if not _is_number(limit):
            return lambda _held: False
        return lambda held: _is_number(held) and compare(held, limit)

    return compile_


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contains(part: object, _where: str) -> _Test:
    same = _equals(part)

    def matches(held: object) -> bool:
        if isinstance(held, list):
            return any(map(same, held))
        return isinstance(part, str) and isinstance(held, str | dict) and part in held

    return matches


_OPERATORS: dict[str, Callable[[object, str], _Test]] = {
    "eq": _is,
    **{name: _comparison(name) for name in ("gt", "gte", "lt", "lte")},
    "in": _is_in,
    "contains": _contains,
    "exists": lambda _wanted, _where: lambda held: held is not MISSING,
}
_KNOWN = (*_OPERATORS, *NEGATED, *GROUPS)


def _at(path: str, test: _Test) -> _Test:
    if "." not in path:
        return lambda document: test(document.get(path, MISSING))
    steps = steps_of(path)
    return lambda document: any(map(test, values_at(document, steps, 0)))
