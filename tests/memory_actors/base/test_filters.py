"""The filter language: each rule of the module's docstring, and a naive evaluator beside it."""

import json
import random
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors import InvalidInputError
from memory_actors.base import filters
from memory_actors.base.filters import predicate
from memory_actors.base.paths import ordering


def match(document: Any, wanted: Any) -> bool:
    matches = predicate(wanted)
    return matches is None or matches(document)


DOCUMENT = {
    "category": "sports",
    "price": 15,
    "ratio": 1.0,
    "open": True,
    "nothing": None,
    "tags": ["new", "red", 1, True],
    "place": {"city": "Porto", "zip": [4000, 1]},
    "guests": [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 40}, "stranger"],
    "grid": [[{"x": 1}], [{"x": 2}]],
    "a": {"b": "nested", "b.c": "half literal", "c": 1},
    "a.b": "literal",
    "and": "conjunction",
    "$x": "dollar",
    "\\x": "backslash",
}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, True),
        ({"category": "sports"}, True),
        ({"category": "sports", "price": 15}, True),
        ({"category": "sports", "price": 16}, False),
        ({"category": {"eq": "sports"}}, True),
        ({"category": {"ne": "sports"}}, False),
        ({"price": {"gt": 10, "lte": 20}}, True),
        ({"price": {"gt": 15}}, False),
        ({"price": {"gte": 15, "lt": 15.5}}, True),
        ({"price": {"lt": 15}}, False),
        ({"category": {"gte": "a", "lt": "t"}}, True),
        ({"price": {"in": [1, 15.0]}}, True),
        ({"price": {"in": []}}, False),
        ({"price": {"nin": [1, 2]}}, True),
        ({"price": {"nin": (1, 15)}}, False),
        ({"place": {"in": ["x", {"city": "Porto", "zip": [4000, 1]}]}}, True),
        ({"tags": {"contains": "red"}}, True),
        ({"tags": {"contains": "re"}}, False),
        ({"category": {"contains": "port"}}, True),
        ({"category": {"contains": 1}}, False),
        ({"place": {"contains": "city"}}, True),
        ({"place": {"contains": 1}}, False),
        ({"price": {"contains": 1}}, False),
        ({"price": {"exists": True}}, True),
        ({"price": {"exists": False}}, False),
        ({"nothing": {"exists": True}}, True),
        ({"nothing": None}, True),
        ({"or": [{"price": 1}, {"category": "sports"}]}, True),
        ({"or": [{"price": 1}, {"category": "arts"}]}, False),
        ({"and": [{"price": 15}, {"category": "sports"}]}, True),
        ({"and": []}, True),
        ({"or": []}, False),
        ({"not": {}}, False),
        ({"not": {"price": 15}}, False),
        ({"price": 15, "or": [{"open": False}, {"not": {"category": "arts"}}]}, True),
        ({"price": {"not": {"gt": 20}}}, True),
        ({"price": {"not": 15}}, False),
        ({"price": {"or": [{"lt": 10}, {"gt": 12}, 3]}}, True),
        ({"price": {"gt": 10, "and": [{"lt": 20}, {"ne": 15}]}}, False),
    ],
)
def test_operators_and_groups(wanted: Any, expected: bool) -> None:
    assert match(DOCUMENT, wanted) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"price": 15.0}, True),
        ({"ratio": 1}, True),
        ({"ratio": True}, False),
        ({"open": True}, True),
        ({"open": 1}, False),
        ({"open": {"in": [1, 0]}}, False),
        ({"open": {"in": [False, True]}}, True),
        ({"price": {"in": [True, "15"]}}, False),
        ({"tags": ["new", "red", 1.0, True]}, True),
        ({"tags": ["new", "red", True, True]}, False),
        ({"tags": ["new", "red", 1, 1]}, False),
        ({"place": {"eq": {"zip": [4000.0, 1], "city": "Porto"}}}, True),
        ({"place": {"eq": {"city": "Porto", "zip": [4000, True]}}}, False),
        ({"place": {"eq": {"city": "Porto"}}}, False),
        ({"place": {"eq": {}}}, False),
        ({"guests.0": {"contains": "name"}}, True),
    ],
)
def test_equality_is_jsons_at_any_depth(wanted: Any, expected: bool) -> None:
    assert match(DOCUMENT, wanted) is expected


@pytest.mark.parametrize(
    "asked",
    [
        1, None, {"eq": {}}, {"eq": 1}, {"gt": 0}, {"lt": 0}, {"in": [None, 1]}, {"contains": 1},
        {"exists": True}, {"not": {"exists": False}},
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["x", "x.y", "a.x", "l.7", "l.x", "a.b.c"])
def test_a_missing_field_matches_no_positive_condition(path: str, asked: Any) -> None:
    document = {"a": {"b": 1}, "l": [1, {"y": 2}]}
    assert not match(document, {path: asked})
    assert match(document, {"not": {path: asked}})


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"place.city": "Porto"}, True),
        ({"place.zip.0": 4000}, True),
        ({"place.zip.2": {"exists": True}}, False),
        ({"guests.0.name": "Ann"}, True),
        ({"guests.1.name": "Ann"}, False),
        ({"guests.name": "Bob"}, True),
        ({"guests.name": "Eve"}, False),
        ({"guests.name": {"ne": "Bob"}}, False),  # not equal means that none is
        ({"guests.name": {"ne": "Eve"}}, True),
        ({"guests.age": {"gt": 35, "lt": 35}}, True),  # each operator by another element
        ({"guests.2": "stranger"}, True),
        ({"guests.-1": "stranger"}, False),
        ({"grid.x": 2}, True),
        ({"grid.1.0.x": 2}, True),
        ({"grid.1.x": 1}, False),
        ({"a.b": "literal"}, True),
        ({"a.b": "nested"}, False),
        ({"a.c": 1}, True),
        ({"a.b.c": "half literal"}, False),  # "a.b" is the longest key here, and has no "c"
        ({"category.length": {"exists": False}}, True),
    ],
)
def test_paths(wanted: Any, expected: bool) -> None:
    assert match(DOCUMENT, wanted) is expected


@pytest.mark.parametrize(
    "wanted",
    [
        {"\\and": "conjunction"},
        {"\\category": "sports"},
        {"\\$x": "dollar"},
        {"\\\\x": "backslash"},
        {"not": {"\\or": {"exists": True}}},
    ],
)
def test_a_backslash_makes_a_key_a_field(wanted: Any) -> None:
    assert match(DOCUMENT, wanted)


UNKNOWN: list[Any] = [
    {"gtt": 5}, {"regex": "x"}, {"GT": 5}, {"$gtt": 5}, {"$regex": "x"}, {"between": [1, 2]},
    {"size": {"gt": 1}}, {},
]  # fmt: skip
EVERYWHERE = [
    lambda asked: {"price": asked},
    lambda asked: {"place.city": asked},
    lambda asked: {"price": {"not": asked}},
    lambda asked: {"price": {"gt": 1, **asked}},
    lambda asked: {"price": {"or": [{"gt": 1}, asked]}},
    lambda asked: {"price": {"and": [{"not": asked}]}},
    lambda asked: {"or": [{"category": "sports"}, {"price": asked}]},
    lambda asked: {"and": [{"not": {"price": asked}}]},
    lambda asked: {"not": {"not": {"\\$price": asked}}},
]


@pytest.mark.parametrize("place", range(len(EVERYWHERE)))
@pytest.mark.parametrize("asked", UNKNOWN, ids=str)
def test_an_unknown_operator_is_an_error_everywhere(asked: Any, place: int) -> None:
    """An operator that does not exist is an error in every position."""
    wanted = EVERYWHERE[place](asked)
    if asked or place != 3:
        with pytest.raises(InvalidInputError, match="operator"):
            predicate(wanted)


@pytest.mark.parametrize("wanted", [{"$gt": 5}, {"a.$size": 2}, {"or": [{"$nor": []}]}])
def test_a_dollar_name_that_is_no_group_is_refused(wanted: Any) -> None:
    with pytest.raises(InvalidInputError, match="unknown operator"):
        predicate(wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"$or": [{"price": {"$gt": 100}}, {"price": {"$lte": 15, "$ne": 1}}]},
        {"$and": [{"tags": {"$contains": "new"}}, {"$not": {"open": {"$exists": False}}}]},
        {"price": {"$not": {"$gt": 20}, "$in": [15], "$nin": [16], "gte": 15, "$lt": 16}},
        {"category": {"$eq": "sports"}},
    ],
)
def test_mongo_spellings(wanted: Any) -> None:
    assert match(DOCUMENT, wanted)


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"not": inner}
    return inner


KNOWN = "eq gt gte lt lte in contains exists ne nin and or not"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["a"], "filters must be a dict, not list"),
        ("", "filters must be a dict, not str"),
        ({1: 2}, "filters has the key 1: keys must be strings"),
        ({"a": {"$regex": "x"}}, f"filters.a: unknown operator '\\$regex': use only {KNOWN}"),
        ({"a": {"$": 1}}, "filters.a: unknown operator"),
        ({"$nor": []}, r"filters.\$nor: unknown operator: use \$and \$or \$not here, \\\$nor"),
        ({"a": {"gt": 1, "currency": "x"}}, "filters.a: unknown operator 'currency'.*\"eq\""),
        ({"or": {"a": 1}}, "filters.or needs a list"),
        ({"or": [{"a": 1}, 5]}, r"filters.or\[1\] must be a dict, not int"),
        ({"or": [{"a": 1}, {"b": {"in": 3}}]}, r"filters.or\[1\].b.in needs a list, not 3"),
        ({"not": []}, "filters.not must be a dict"),
        ({"a": {"$or": 1}}, r"filters.a.\$or needs a list"),
        ({"a": {"exists": 1}}, "filters.a.exists needs true or false, not 1"),
        ({"a": {"in": "abc"}}, "filters.a.in needs a list, not 'abc'"),
        ({"a": {"in": list(range(1001))}}, "filters.a.in has 1,001 values"),
        ({"a": object()}, "filters.a holds .* not JSON"),
        ({"a": {"gt": float("nan")}}, "filters.a.gt holds nan"),
        ({"a": "\ud800"}, "filters.a is not valid Unicode"),
        ({"\ud800": 1}, "filters: a path is not valid Unicode"),
        ({"a" * 513: 1}, "longer than 512 bytes"),
        ({".".join("a" * 33): 1}, "or 32 segments"),
        (nested(17, {"a": 1}), "nested deeper than 16"),
        ({"a": nested(17, 1)}, "nested deeper than 16"),
        ({"or": [{"a": n} for n in range(257)]}, "more than 256 conditions"),
        ({"or": [{} for _ in range(257)]}, "more than 256 conditions"),
        ({"or": [{"and": []} for _ in range(257)]}, "more than 256 conditions"),
        ({"a": {"or": [{"and": []} for _ in range(257)]}}, "more than 256 conditions"),
        ({str(n): "x" * 33_000 for n in range(2)}, "over 65,536 bytes"),
    ],
)
def test_a_bad_filter_is_refused_and_the_place_is_named(wanted: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        predicate(wanted)


# --- against a naive evaluator, which works on JSON texts and lists of all values


def canonical(value: Any) -> str:
    """One text for all that is equal: numbers as floats, keys sorted."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(float(value) + 0.0)  # -0.0 is 0.0
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return "{" + ",".join(f"{json.dumps(k)}:{canonical(value[k])}" for k in sorted(value)) + "}"


def found(value: Any, names: list[str]) -> list[Any]:
    if not names:
        return [value]
    if isinstance(value, dict):
        for cut in range(len(names), 0, -1):
            if ".".join(names[:cut]) in value:
                return found(value[".".join(names[:cut])], names[cut:])
    if isinstance(value, list):
        if names[0].isdigit():
            return [x for e in value[int(names[0]) :][:1] for x in found(e, names[1:])]
        return [x for element in value for x in found(element, names)]
    return []


def kind_of(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def moment(value: Any) -> datetime | None:
    """What a string says as a time, by its form and the standard library alone."""
    try:
        assert re.match(r"....-..-..", value)
        time = datetime.fromisoformat(value.upper())
    except (AssertionError, TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def passes(name: str, held: Any, operand: Any) -> bool:
    if name == "in":
        return any(passes("eq", held, one) for one in operand)
    asked = moment(operand)
    if asked is not None and name != "contains":
        until = asked + timedelta(days=1) if len(operand) == 10 else asked + timedelta(0, 0, 1)
        at = moment(held)
        return at is not None and {
            "eq": asked <= at < until, "gt": at >= until, "gte": at >= asked, "lt": at < asked,
            "lte": at < until,
        }[name]  # fmt: skip
    if name == "eq":
        return canonical(held) == canonical(operand)
    if name == "contains":
        if isinstance(held, list):
            return canonical(operand) in map(canonical, held)
        return type(held) in (str, dict) and isinstance(operand, str) and operand in held
    if kind_of(held) != kind_of(operand) or kind_of(held) not in ("number", "str"):
        return False
    return {
        "gt": held > operand, "gte": held >= operand, "lt": held < operand, "lte": held <= operand,
    }[name]  # fmt: skip


def asks(path: str, asked: Any, document: Any) -> bool:
    asked = asked if isinstance(asked, dict) else {"eq": asked}
    values = found(document, path.split("."))
    for name, operand in asked.items():
        if name in ("and", "or"):
            ok = {"and": all, "or": any}[name](asks(path, part, document) for part in operand)
        elif name == "not":
            ok = not asks(path, operand, document)
        elif name == "exists":
            ok = bool(values) is operand
        elif name in ("ne", "nin"):
            ok = not any(passes({"ne": "eq", "nin": "in"}[name], v, operand) for v in values)
        else:
            ok = any(passes(name, v, operand) for v in values)
        if not ok:
            return False
    return True


def reference(document: Any, wanted: Any) -> bool:
    for key, value in wanted.items():
        if key in ("and", "or"):
            ok = {"and": all, "or": any}[key](reference(document, part) for part in value)
        elif key == "not":
            ok = not reference(document, value)
        else:
            ok = asks(key, value, document)
        if not ok:
            return False
    return True


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
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.lists(st.sampled_from(["a", "b", "0", "1"]), min_size=1, max_size=3).map(".".join)
CONDITIONS = st.recursive(
    VALUES.map(lambda value: {"eq": value})
    | SCALARS
    | st.dictionaries(
        st.sampled_from(["ne", "gt", "gte", "lt", "lte", "contains"]), VALUES, min_size=1
    )
    | st.dictionaries(st.sampled_from(["in", "nin"]), st.lists(VALUES), min_size=1)
    | st.fixed_dictionaries({"exists": st.booleans()}),
    lambda inner: (
        st.fixed_dictionaries({"not": inner})
        | st.dictionaries(st.sampled_from(["and", "or"]), st.lists(inner, max_size=3), min_size=1)
    ),
    max_leaves=3,
)
FILTERS = st.recursive(
    st.dictionaries(PATHS, CONDITIONS, max_size=3),
    lambda inner: st.fixed_dictionaries(
        {}, optional={"and": st.lists(inner), "or": st.lists(inner), "not": inner}
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("wanted", "days"),
    [
        ({"gte": "2026-03-01T00:00:00-05:00"}, "bcd"),
        ({"gt": "2026-03-01"}, "d"), ({"lte": "2026-03-01"}, "abc"), ({"lt": "2026-03-01"}, "a"),
        ({"gte": "2026-03-01", "lte": "2026-03-01"}, "bc"), ({"eq": "2026-03-01"}, "bc"),
        ("2026-03-01", "bc"), ({"ne": "2026-03-01"}, "ad"), ({"in": ["2026-03-01", "x"]}, "bc"),
        ({"eq": "2026-03-01T10:00:00+05:00"}, "b"), ({"eq": "2026-03-01t05:00:00z"}, "b"),
        ({"eq": "2026-03-01T1000+0500"}, "b"), ({"lt": "2026-03-01T05:00:00.000001Z"}, "ab"),
        ({"gt": "2026-02-28 18:30:00"}, "abcd"), ({"gt": date(2026, 3, 1)}, "d"),
        ({"gt": datetime(2026, 3, 1, 12, tzinfo=UTC)}, "cd"),
    ],
)  # fmt: skip
def test_times_are_compared_as_times_and_a_date_is_the_whole_day(wanted: Any, days: str) -> None:
    created = {
        "a": "2026-02-28T18:30:00.5-05:00",
        "b": "2026-03-01T00:00:00-05:00",
        "c": "2026-03-01T23:59:59.999999Z",
        "d": "2026-03-02t03:00:00+02:00",
    }
    assert [name for name in created if match({"at": created[name]}, {"at": wanted})] == [*days]
    assert not match({"at": "soon"}, {"at": {"gt": "2026-03-01"}})


@given(document=DOCUMENTS, wanted=FILTERS)
def test_any_filter_agrees_with_the_naive_evaluator(document: Any, wanted: Any) -> None:
    assert match(document, wanted) is reference(document, wanted)


# --- ordering

IN_ORDER: list[Any] = [
    None,
    False,
    True,
    -1,
    0.5,
    1,
    2**60,
    "",
    "B",
    "a",
    "é",
    ["a"],
    [1],
    {"a": 1},
]


def shuffled(documents: list[Any]) -> list[Any]:
    return random.Random(7).sample(documents, len(documents))


def test_an_order_is_total_over_types_and_missing_comes_last() -> None:
    documents = [{"x": value} for value in IN_ORDER]
    assert sorted(shuffled([{}, *documents]), key=ordering("x")) == [*documents, {}]
    assert sorted(shuffled([{}, *documents]), key=ordering("-x")) == [*documents[::-1], {}]


@given(documents=st.permutations([{"x": value, "y": 1} for value in IN_ORDER]))
def test_an_order_does_not_depend_on_where_documents_stood(documents: list[Any]) -> None:
    assert [d["x"] for d in sorted(documents, key=ordering(["y", "x"]))] == IN_ORDER


@pytest.mark.parametrize("fields", [[], None, 5, ["a"] * 9, [5], "a" * 513])
def test_a_bad_order_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidInputError, match="order_by"):
        ordering(fields)


def test_the_operators_of_these_tests_are_all_there_are() -> None:
    assert " ".join(filters._KNOWN) == KNOWN


@pytest.mark.parametrize(
    "asked",
    [
        False, {"eq": False}, {"ne": True}, {"in": [False]}, {"in": [False, None]}, {"nin": [True]},
        {"not": True}, {"not": {"ne": False}}, {"not": {"nin": [False]}},
    ],
)  # fmt: skip
def test_is_compressed_false_matches_what_is_not_by_any_operator(asked: Any) -> None:
    """Metadata says `is_compressed` only of what is."""
    for test, wanted in (
        (predicate({"is_compressed": asked}), True),
        (predicate({"not": {"is_compressed": asked}}), False),
    ):
        assert test is not None
        assert (test({}), test({"is_compressed": True})) == (wanted, not wanted)
