"""Bounded lists and dictionaries: what stays behind, what is refused.

Which items leave is compared with a model in `tests/properties/test_bounded.py`.
"""

import hashlib
from typing import Any

import pytest
from structlog.testing import capture_logs

from memory_actors import BoundedDict, BoundedList, InvalidInputError
from memory_actors.improve.bounded import Eviction, Marker

LARGE = "long ago " * 200  # 1,800 characters


def history(max_size: int, **more: Any) -> BoundedList[str]:
    """A list that keeps the first, the last, and what begins with `!`."""
    return BoundedList(
        max_size,
        eviction="keep_first_last_errors",
        is_error=lambda item: item.startswith("!"),
        **more,
    )


# --- lists


def test_an_item_over_the_limit_is_refused() -> None:
    """An item larger than the limit is refused, and nothing leaves."""
    items = BoundedList(10)
    items.append("aaaa")
    with pytest.raises(InvalidInputError, match=r"size 11 \(max_size: 10\)"):
        items.append("b" * 11)
    assert (list(items), items.size) == (["aaaa"], 4)
    items.append("c" * 10)
    assert list(items) == ["c" * 10]


def test_a_size_function_bounds_by_count_or_by_anything_else() -> None:
    by_count = BoundedList(2, lambda _: 1)
    by_count.extend([1, 2, 3])
    assert list(by_count) == [2, 3]
    with pytest.raises(InvalidInputError, match="a size is a whole number from 0"):
        BoundedList(2, lambda _: -1).append(1)


def test_places_are_read_from_both_ends() -> None:
    items = BoundedList(100)
    items.extend("abcdef")
    assert [items[place] for place in range(6)] == list("abcdef")
    assert [items[place] for place in range(-6, 0)] == list("abcdef")
    assert list(reversed(items)) == list("fedcba")
    assert "c" in items
    assert "z" not in items
    for place in (6, -7):
        with pytest.raises(IndexError):
            items[place]


def test_what_was_read_last_leaves_last() -> None:
    items = BoundedList(3, eviction=Eviction.LEAST_RECENTLY_USED)
    items.extend("abc")
    assert items[0] == "a"
    items.append("d")
    assert list(items) == ["a", "c", "d"]


def test_a_large_text_leaves_digest_and_snippet() -> None:
    """A large text leaves its digest and a snippet in its place."""
    items = history(8_000)
    items.extend(["first", LARGE, "!bad", LARGE, LARGE, LARGE, LARGE])
    entries = items.entries()
    assert [type(entry) for entry in entries] == [str, Marker, str, *[str] * 4]
    left = entries[1]
    assert left.sha256 == hashlib.sha256(LARGE.encode()).hexdigest()
    assert (left.snippet, left.text_size) == (LARGE[:80], len(LARGE))
    assert items.size == sum(len(item) for item in items) + left.size <= 8_000


def test_markers_take_an_eighth_at_most() -> None:
    """Markers take an eighth at most, and the oldest goes first."""
    items = BoundedList(8_000)
    texts = [f"{number} {LARGE}" for number in range(50)]
    items.extend(texts)
    markers = [entry for entry in items.entries() if isinstance(entry, Marker)]
    assert sum(marker.size for marker in markers) <= 1_000
    gone = texts[: items.evicted]
    assert [marker.snippet for marker in markers] == [text[:80] for text in gone[-len(markers) :]]
    assert len(markers) == 6


def test_small_texts_and_things_without_a_text_leave_nothing() -> None:
    small = BoundedList(8_000)
    small.extend(["x" * 1_000] * 20)
    unknown = BoundedList(8_000)
    unknown.extend([b"x" * 2_000] * 20)
    assert small.entries() == list(small)
    assert unknown.entries() == list(unknown)


def test_a_function_finds_the_text_of_an_item() -> None:
    """The text of an item is found by a function, whose failure hurts no other item."""

    def text_of(item: bytes) -> str:
        return item.decode()

    items = BoundedList(8_000, text_fn=text_of)
    with capture_logs() as logs:
        items.extend([b"x" * 3_000, b"\xff" * 3_000, b"y" * 3_000, b"z" * 3_000])
    assert [entry[:1] for entry in items] == [b"y", b"z"]
    assert [entry.snippet[:1] for entry in items.entries()[:1]] == ["x"]
    assert [log["event"] for log in logs] == ["an evicted item gave no text"]


def test_a_raising_hook_is_logged() -> None:
    """A hook that raises is logged, and the list stays in order."""

    def hook(_item: str) -> None:
        raise RuntimeError("SECRET")

    items = BoundedList(2, on_evict=hook)
    with capture_logs() as logs:
        items.extend("abc")
    assert (list(items), items.size) == (["b", "c"], 2)
    assert [log["log_level"] for log in logs] == ["error"]
    assert "SECRET" not in str(logs)


def test_a_hook_may_add_to_the_list() -> None:
    """A hook sees the new item, and may add to the list."""
    seen: list[list[str]] = []
    items: BoundedList[str]

    def hook(item: str) -> None:
        seen.append(list(items))
        if item == "a":
            items.append("a")

    items = BoundedList(2, on_evict=hook)
    items.extend("abc")
    assert seen == [["b", "c"], ["c", "a"]]
    assert list(items) == ["c", "a"]


def test_clearing_is_no_eviction() -> None:
    items = BoundedList(8_000, on_evict=(gone := []).append)
    items.extend([LARGE] * 6)
    assert len(gone) == 2
    items.clear()
    assert (len(items), items.size, items.entries(), items.evicted) == (0, 0, [], 2)
    items.append("a")
    assert list(items) == ["a"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_size": 0}, {"max_size": 1.5}, {"max_size": True},
        {"max_size": 5, "eviction": "random"},
        {"max_size": 5, "eviction": "keep_first_last_errors"},
    ],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    for made in (BoundedList, BoundedDict):
        with pytest.raises(InvalidInputError):
            made(**wrong)


# --- dictionaries


def test_a_dictionary_lets_the_oldest_values_go() -> None:
    gone: list[tuple[str | None, str]] = []
    values: BoundedDict[str | None, str] = BoundedDict(5, on_evict=lambda *one: gone.append(one))
    values.update({None: "aa", "b": "bb"})
    values["c"] = "cc"
    assert (dict(values), gone) == ({"b": "bb", "c": "cc"}, [(None, "aa")])
    assert (len(values), values.size, values.evicted) == (2, 4, 1)


def test_setting_a_key_again_makes_it_the_newest() -> None:
    """Setting a key again replaces its value, and makes it the newest."""
    values: BoundedDict[str, str] = BoundedDict(5, on_evict=lambda *_: pytest.fail("evicted"))
    values.update({"a": "aa", "b": "bb"})
    values["a"] = "a"
    assert list(values.items()) == [("b", "bb"), ("a", "a")]
    assert values.size == 3
    with pytest.raises(InvalidInputError):
        values["a"] = "a" * 6
    assert values["a"] == "a"


def test_reading_a_value_keeps_it_and_looking_does_not() -> None:
    """A value that was read stays; one that was only looked for does not."""
    values: BoundedDict[str, str] = BoundedDict(3, eviction="least_recently_used")
    values.update({"a": "1", "b": "2", "c": "3"})
    assert values.get("a") == "1"
    assert "b" in values
    values["d"] = "4"
    assert list(values) == ["a", "c", "d"]


@pytest.mark.parametrize(
    "look",
    [
        lambda values: list(values.items()),
        lambda values: ("b", "2") in values.items(),
        lambda values: list(values.values()),
        lambda values: values == {"b": "2"},
        repr,
    ],
)
def test_looking_at_all_values_is_no_use_of_any(look: Any) -> None:
    values: BoundedDict[str, str] = BoundedDict(3, eviction="least_recently_used")
    values.update({"a": "1", "b": "2", "c": "3"})
    assert values["a"] == "1"
    look(values)
    values["d"] = "4"
    assert list(values.items()) == [("a", "1"), ("c", "3"), ("d", "4")]


@pytest.mark.parametrize("size", [float("nan"), 1.5, None, True, "2", -1])
def test_a_size_is_a_whole_number(size: Any) -> None:
    items: BoundedList[str] = BoundedList(3, lambda _: size)
    with pytest.raises(InvalidInputError, match="a size is a whole number from 0"):
        items.append("a")
    assert (list(items), items.size) == ([], 0)


def test_a_large_value_leaves_a_marker_until_set_again() -> None:
    """A large value leaves a marker under its key, until the key is set again."""
    values: BoundedDict[str, str] = BoundedDict(8_000)
    for key in "abcdef":
        values[key] = key + LARGE
    assert [marker.snippet[:1] for marker in values.markers.values()] == ["a", "b"]
    values["a"] = "back"
    assert list(values.markers) == ["b"]
    assert values.size == sum(map(len, values.values())) + values.markers["b"].size


def test_the_first_of_a_dictionarys_history_may_be_deleted() -> None:
    """Of a history in a dictionary the first may be deleted."""
    values: BoundedDict[int, str] = BoundedDict(
        6, eviction="keep_first_last_errors", is_error=lambda value: value == "!!"
    )
    for key, value in enumerate(["11", "22", "!!"]):
        values[key] = value
    del values[0]
    values[3], values[4] = "33", "44"
    assert dict(values) == {1: "22", 2: "!!", 4: "44"}
