"""Bounded collections against a model that is too simple to be wrong, and slow."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors import BoundedDict, BoundedList
from memory_actors.improve.bounded import Eviction, Marker

LETTERS = st.sampled_from("abc!")
ITEMS = st.builds(lambda letter, size: letter * size, LETTERS, st.integers(0, 40))
LARGE = st.builds(lambda letter, size: letter * size, LETTERS, st.integers(0, 4_000))
MANY = settings(max_examples=300, deadline=None)


def is_error(item: str) -> bool:
    return item.startswith("!")


def made(eviction: Eviction, max_size: int, gone: list[str]) -> BoundedList[str]:
    return BoundedList(max_size, eviction=eviction, is_error=is_error, on_evict=gone.append)


def leaving(items: list[str], eviction: Eviction) -> int:
    """Say by its place which item leaves for one that comes behind them all."""
    if eviction is not Eviction.KEEP_FIRST_LAST_ERRORS:
        return 0
    plain = [place for place, item in enumerate(items) if place and not is_error(item)]
    return (plain or list(range(1, len(items))) or [0])[0]


@MANY
@given(st.sampled_from(Eviction), st.integers(40, 120), st.lists(ITEMS, max_size=60))
def test_a_list_agrees_with_a_model(eviction: Eviction, max_size: int, items: list[str]) -> None:
    """A list holds the items that a model holds, and evicts the same."""
    gone: list[str] = []
    bounded, kept, left = made(eviction, max_size, gone), [], []
    for item in items:
        bounded.append(item)
        while sum(max(1, len(one)) for one in kept) + max(1, len(item)) > max_size:
            left.append(kept.pop(leaving(kept, eviction)))
        kept.append(item)
        assert bounded.size <= max_size
        assert list(bounded) == kept
    assert gone == left
    assert (len(bounded), bounded.evicted) == (len(kept), len(left))
    assert bounded.size == sum(max(1, len(one)) for one in bounded)


@MANY
@given(st.sampled_from(Eviction), st.integers(4_000, 12_000), st.lists(LARGE, max_size=40))
def test_a_list_of_large_texts_keeps_its_limit(
    eviction: Eviction, max_size: int, items: list[str]
) -> None:
    """A list of large texts is never above its limit, markers included."""
    bounded = made(eviction, max_size, [])
    for item in items:
        bounded.append(item)
        entries = bounded.entries()
        assert bounded.size <= max_size
        sizes = [one.size if isinstance(one, Marker) else max(1, len(one)) for one in entries]
        assert bounded.size == sum(sizes)
        assert [one for one in entries if not isinstance(one, Marker)] == list(bounded)
        assert bounded[-1] == item


@MANY
@given(st.integers(4_000, 12_000), st.lists(LARGE, min_size=1, max_size=40))
def test_protected_items_stay_if_they_fit(max_size: int, items: list[str]) -> None:
    """The protected items of a history are always there if they fit."""
    bounded = made(Eviction.KEEP_FIRST_LAST_ERRORS, max_size, [])
    for count, item in enumerate(items, start=1):
        bounded.append(item)
        errors = [one for one in items[1 : count - 1] if is_error(one)]
        protected = [*items[: min(1, count - 1)], *errors, item]
        assert bounded[-1] == item
        if sum(max(1, len(one)) for one in protected) > max_size:
            return  # one of them has to go, and is gone from then on
        kept = list(bounded)
        assert kept[0] == items[0]
        assert [one for one in kept[1:-1] if is_error(one)] == errors


KEYS = st.integers(0, 8)
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, ITEMS),
    st.tuples(st.just("get"), KEYS, st.none()),
    st.tuples(st.just("del"), KEYS, st.none()),
)


@MANY
@given(st.integers(40, 120), st.lists(STEPS, max_size=60))
def test_a_dictionary_evicts_the_longest_unused(max_size: int, steps: list[Any]) -> None:
    """A dictionary lets go the value that was unused for the longest time."""
    bounded: BoundedDict[int, str] = BoundedDict(max_size, eviction="least_recently_used")
    used: dict[int, str] = {}  # the least recently used first
    for what, key, value in steps:
        if what == "set":
            bounded[key] = value
            used.pop(key, None)
            while sum(max(1, len(one)) for one in used.values()) + max(1, len(value)) > max_size:
                del used[next(iter(used))]
            used[key] = value
        elif key not in used:
            with pytest.raises(KeyError):
                bounded[key] if what == "get" else bounded.pop(key)
        elif what == "get":
            used[key] = used.pop(key)
            assert bounded[key] == used[key]
        else:
            assert bounded.pop(key) == used.pop(key)
        assert bounded.size <= max_size
        assert dict(bounded.items()) == used
