"""The index of fields finds the rows that a filter matches.

The generators are those of the filters' own tests, with more rows and fewer, commoner values.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors.base.filters import parsed, predicate
from memory_actors.search.indexes import field_columns as fields

Rows = dict[int, dict[str, Any]]


class FieldIndex(fields.FieldIndex):
    """An index with its rows, that is asked with filters as callers write them."""

    def __init__(self, **bounds: int):
        self.held: Rows = {}
        super().__init__(self.held.get, lambda: 1 + max(self.held, default=-1), **bounds)

    def put(self, key: int, row: dict[str, Any]) -> None:
        self.held[key] = row
        self.follow(key, row)

    def drop(self, key: int) -> None:
        self.held.pop(key, None)
        self.follow(key, None)

    def found(self, filters: Any) -> set[int] | None:
        """The keys that match, None if they must be asked."""
        part = parsed(filters)
        if part is None:
            return None
        for _ in self.prepared(part):
            pass
        marks = self.matching(part)
        return None if marks is None else set(marks.nonzero()[0].tolist())


def index_of(rows: Mapping[int, Mapping[str, Any]], **bounds: int) -> FieldIndex:
    index = FieldIndex(**bounds)
    for key, row in rows.items():
        index.put(key, row)
    return index


def matching(rows: Mapping[int, Mapping[str, Any]], wanted: Any) -> set[int]:
    matches = predicate(wanted)
    return {key for key, row in rows.items() if matches is None or matches(row)}


# --- any rows, any filters

NAMES = st.sampled_from(["a", "b", "a.b", "b.a", "0"])
SCALARS = st.sampled_from([
    None, True, False, 0, 1, 2, 1.0, 0.5, -0.0, "", "a", "ab", "1",
    "2026-03-01", "2026-03-01T12:00:00Z", "2026-03-01T14:00:00+02:00",
    "2026-03-02T01:00:00+02:00", "2026-03-02", "2026-13-01",
    "9999-12-30T23:59:59.999999Z", "9999-12-31", "1600-01-01", "1600-01-02",
])  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(NAMES, SCALARS | VALUES, max_size=4)
PATHS = st.lists(st.sampled_from(["a", "b", "0", "1"]), min_size=1, max_size=3).map(".".join)
RANGES = ["gt", "gte", "lt", "lte", "$gt", "$lte"]
CONDITIONS = st.recursive(
    SCALARS
    | VALUES.map(lambda value: {"eq": value})
    | st.dictionaries(st.sampled_from([*RANGES, "ne", "contains"]), SCALARS | VALUES, min_size=1)
    | st.dictionaries(
        st.sampled_from(RANGES),
        st.integers(0, 2) | st.sampled_from(["a", "ab", "2026-03-01", "2026-03-01T12:00:00Z"]),
        min_size=1,
    )
    | st.dictionaries(st.sampled_from(["in", "nin"]), st.lists(VALUES), min_size=1)
    | st.fixed_dictionaries({"exists": st.booleans()}),
    lambda inner: (
        st.fixed_dictionaries({"not": inner})
        | st.dictionaries(st.sampled_from(["and", "$or"]), st.lists(inner, max_size=3), min_size=1)
    ),
    max_leaves=3,
)
FILTERS = st.recursive(
    st.dictionaries(PATHS, CONDITIONS, max_size=3),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"$and": st.lists(inner), "or": st.lists(inner), "not": inner}
    ),
    max_leaves=4,
)
CHANGES = st.lists(st.tuples(st.integers(0, 9), DOCUMENTS | st.none()), max_size=12)


@settings(deadline=None)
@given(
    batches=st.lists(CHANGES, min_size=1, max_size=3),
    wanted=st.lists(FILTERS, min_size=1, max_size=5),
)
def test_the_matches_are_found_after_any_changes(batches: Any, wanted: Any) -> None:
    """Columns are built by the first questions, and kept in step by the changes after them."""
    index = FieldIndex()
    for changes in batches:
        for key, row in changes:
            index.drop(key) if row is None else index.put(key, row)
        for one in wanted:
            found = index.found(one)
            assert found is None or found == matching(index.held, one)


def test_times_that_a_float_would_round_are_told_apart() -> None:
    """The last microsecond of a day before 1685 or after 2255 is not the first of the next."""
    index = index_of({
        0: {"at": "9999-12-30T23:59:59.999999Z"}, 1: {"at": "9999-12-31"}, 2: {"at": "1600-01-02"},
    })  # fmt: skip
    assert index.found({"at": {"lt": "9999-12-31"}}) == {0, 2}
    assert index.found({"at": "9999-12-31"}) == {1}
    assert index.found({"at": {"in": ["1600-01-01"]}}) == set()
    assert index.found({"at": {"gt": "1600-01-01"}}) == {0, 1, 2}


# --- what it helps with

PEOPLE = {
    n: {
        "name": f"p{n:02}",
        "age": n,
        "team": "abc"[n % 3],
        "odd": bool(n % 2),
        "tags": [f"t{n % 5}", n % 2],
        "place": {"city": f"c{n % 4}"},
        "guests": [{"age": n}, {"age": n + 10}],
        "big": 2**53 + n,
        "at": f"2026-03-{n + 1:02}T12:00:00Z",
    }
    for n in range(30)
}


@pytest.mark.parametrize(
    "wanted",
    [
        {"team": "a"},
        {"age": 7.0},
        {"age": True},
        {"odd": True},
        {"odd": 1},
        {"nowhere": None},
        {"age": {"in": [1, 2, True, "x"]}},
        {"age": {"in": []}},
        {"age": {"gt": 3, "lte": 9}},
        {"age": {"$gt": 3, "gte": 5, "lt": 9}},
        {"age": {"gt": 3, "lt": "x"}},
        {"age": {"gt": None}},
        {"name": {"gte": "p05", "lt": "p1"}},
        {"name": {"contains": "p0"}},
        {"tags": {"contains": "t3"}},
        {"tags": {"contains": True}},
        {"place.city": "c1"},
        {"place.city": {"exists": True}},
        {"guests.age": {"gt": 18, "lt": 12}},
        {"guests.1.age": {"gt": 12, "lt": 15}},
        {"team": "a", "age": {"lt": 9}},
        {"team": {"ne": "a"}},
        {"team": {"nin": ["a", "b"]}},
        {"team": {"exists": False}},
        {"age": {"not": {"gt": 25}}, "team": "b"},
        {"or": [{"team": "a", "odd": True}, {"place.city": "c2"}]},
        {"team": {"or": ["a", {"eq": "b"}]}},
        {"age": {"gt": 2**60}},
        {"big": {"gt": 2**53}},
        {"big": 2**53 + 1},
        {"at": "2026-03-02"},
        {"at": {"gt": "2026-03-02", "lt": "2026-03-09T00:00:00Z"}},
        {"\\age": 3},
    ],
)
def test_a_condition_on_any_path_finds_its_rows(wanted: Any) -> None:
    assert index_of(PEOPLE).found(wanted) == matching(PEOPLE, wanted)


# --- bounds


def test_the_least_recently_asked_column_goes_first() -> None:
    index = index_of({n: {f"f{n}": n} for n in range(30)})
    assert not index._columns
    for n in [*range(16), 0, 16]:
        assert index.found({f"f{n}": n}) == {n}
    assert list(index._columns) == [f"f{n}" for n in [*range(2, 16), 0, 16]]


def test_a_path_that_does_not_fit_is_left_to_the_caller() -> None:
    index = index_of({n: {"a": n, "b": n % 2} for n in range(100)}, bytes_max=5_000)
    assert index.found({"a": 5}) is None
    assert index.found({"b": 1}) == set(range(1, 100, 2))


def test_values_that_no_row_has_any_more_do_not_pile_up() -> None:
    index = index_of({0: {"a": 0}})
    for n in range(5_000):
        index.put(0, {"a": n})
        assert index.found({"a": n}) == {0}
        assert index.size_bytes < 400_000


def test_each_element_of_different_lists_is_found() -> None:
    rows = {n: {"tags": [f"t{n}", f"u{n % 7}"]} for n in range(2_000)}
    index = index_of(rows)
    for wanted in [f"t{n}" for n in range(20)] + ["u3"]:
        assert index.found({"tags": {"contains": wanted}}) == matching(
            rows, {"tags": {"contains": wanted}}
        )
