"""Bounded lists and dictionaries: what stays behind, what is refused.

Which items leave is compared with a model in `tests/properties/test_bounded.py`.
"""

from typing import Any

import pytest
from structlog.testing import capture_logs

from memory_actors import BoundedDict, BoundedList, InvalidInputError

# --- lists


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
