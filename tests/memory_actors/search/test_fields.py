"""The index of fields never misses a row that a filter matches, and knows when it gives no other.

The generators are those of the filters' own tests, with more rows and fewer, commoner values.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors.base.filters import parsed, predicate
from memory_actors.search.indexes import field_columns as fields
from memory_actors.search.indexes.field_columns import Candidates

Rows = dict[int, dict[str, Any]]


class FieldIndex(fields.FieldIndex):
    """An index with its rows, that is asked with filters as callers write them."""

    def __init__(self, **bounds: int):
        self.held: Rows = {}
        super().__init__(self.held, **bounds)

    def put(self, key: int, row: dict[str, Any]) -> None:
        old = self.held.get(key)
        self.held[key] = row
        self.follow(key, old, row)

    def drop(self, key: int) -> None:
        self.follow(key, self.held.pop(key, None), None)

    def candidates(self, filters: Any) -> Candidates | None:
        part = parsed(filters)
        if part is None:
            return None
        for _ in self.prepared(part):
            pass
        return super().candidates(part)


def index_of(rows: Mapping[int, Mapping[str, Any]], **bounds: int) -> FieldIndex:
    index = FieldIndex(**bounds)
    for key, row in rows.items():
        index.put(key, row)
    return index


def matching(rows: Mapping[int, Mapping[str, Any]], wanted: Any) -> set[int]:
    matches = predicate(wanted)
    return {key for key, row in rows.items() if matches is None or matches(row)}


def check(index: FieldIndex, rows: Rows, wanted: Any) -> None:
    found, expected = index.candidates(wanted), matching(rows, wanted)
    if found is not None:
        assert found.keys == expected if found.exact else found.keys >= expected
        assert found.keys <= rows.keys()


# --- any rows, any filters

NAMES = st.sampled_from(["a", "b", "a.b", "b.a", "0"])
SCALARS = st.sampled_from([
    None, True, False, 0, 1, 2, 1.0, 0.5, -0.0, "", "a", "ab", "1",
    "2026-03-01", "2026-03-01T12:00:00Z", "2026-03-01T14:00:00+02:00",
    "2026-03-02T01:00:00+02:00", "2026-03-02", "2026-13-01",
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


def change(index: FieldIndex, rows: Rows, changes: list[tuple[int, Any]]) -> None:
    for key, row in changes:
        if row is None:
            index.drop(key)
            rows.pop(key, None)
        else:
            index.put(key, row)
            rows[key] = row


@settings(deadline=None)
@given(
    batches=st.lists(CHANGES, min_size=1, max_size=3),
    wanted=st.lists(FILTERS, min_size=1, max_size=5),
    whole=st.booleans(),
)
def test_no_match_is_missed_after_any_changes(batches: Any, wanted: Any, whole: bool) -> None:
    """Columns are built by the first questions, and kept in step by the changes after them."""
    index, rows = FieldIndex(), Rows()
    with pytest.MonkeyPatch.context() as patch:
        if whole:  # whatever it costs
            patch.setattr(fields, "_SCAN", 1_000)
            patch.setattr(fields, "_ASKING", 1_000)
        for changes in batches:
            change(index, rows, changes)
            assert len(index) == len(rows)
            for one in wanted:
                check(index, rows, one)


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
        {"or": []},
        {"\\age": 3},
    ],
)
def test_scalars_are_found_exactly(wanted: Any) -> None:
    found = index_of(PEOPLE).candidates(wanted)
    assert found is not None
    assert found.exact
    assert found.keys == matching(PEOPLE, wanted)


# --- bounds


def test_the_least_recently_asked_column_goes_first() -> None:
    """Columns are made when asked for, and the least recently asked goes first."""
    index = index_of({n: {f"f{n}": n} for n in range(30)})
    assert not index._columns
    for n in [*range(16), 0, 16]:
        assert index.candidates({f"f{n}": n}) == ({n}, True)
    assert list(index._columns) == [f"f{n}" for n in [*range(2, 16), 0, 16]]


@pytest.mark.parametrize("value", [{"x": 1}, [], [[1], {}]])
def test_a_path_of_lists_is_refused_until_rows_change(value: Any) -> None:
    """A path of lists and objects is refused until the rows are others."""
    index = index_of({n: {"a": value} for n in range(20)})
    assert index.candidates({"a": 5}) is None
    for n in range(19):
        index.put(n, {"a": n})
    assert index.candidates({"a": 5}) is None
    for n in range(19, 40):
        index.put(n, {"a": n})
    assert index.candidates({"a": 5}) == ({5}, True)


@pytest.mark.parametrize(
    "more", [{"not": {"color": "red"}}, {"or": [{"color": "red"}, {"color": {"exists": True}}]}]
)
def test_what_leaves_few_rows_spares_the_others(more: Any, monkeypatch: Any) -> None:
    """If one part leaves three rows of 1,000, the other parts build no set of all rows."""
    rows = {n: {"color": "red" if n % 2 else "blue", "number": n // 3} for n in range(1_000)}
    index = index_of(rows)
    wanted = {"and": [{"number": 7}, more]}
    monkeypatch.setattr(FieldIndex, "keys", lambda _: pytest.fail("all rows are gathered"))
    found = index.candidates(wanted)
    assert found is not None
    assert matching(rows, wanted) <= set(found.keys) == {21, 22, 23}
    assert not found.exact
