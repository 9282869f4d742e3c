"""Bounded lists and dictionaries: what stays behind, what is refused.

Which items leave is compared with a model in `tests/properties/test_bounded.py`.
"""

import hashlib
from typing import Any

import pytest
from structlog.testing import capture_logs

from memory_actors import BoundedDict, BoundedList, InvalidInputError
from memory_actors.improve.bounded import Marker

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
