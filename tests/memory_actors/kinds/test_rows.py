"""Rows with their sums, and which of them are the oldest."""

from typing import Any

import pytest

from memory_actors.kinds.long_term import MemoryRow
from memory_actors.kinds.rows import Draft, HeldRows, oldest


def row(name: str, at: int = 0, *, size: int = 10, pinned: bool = False, version: int = 1) -> Any:
    return MemoryRow(
        memory_id=name, version=version, size_bytes=size, stored_bytes=size + 1, created_at_us=0,
        occurred_at_us=at, metadata={}, digest=b"", pinned=pinned, session_id=None,
        role=None, began=version,
    )  # fmt: skip


ROWS = [row(f"m{n:02}", at=n) for n in range(30)]


@pytest.mark.parametrize(
    ("over_count", "over_bytes", "taken"),
    [(0, 0, 0), (1, 0, 3), (3, 0, 3), (4, 0, 6), (0, 1, 3), (0, 30, 3), (0, 31, 6), (3, 30, 3),
     (3, 31, 6), (4, 30, 6), (30, 300, 30)],
)  # fmt: skip
def test_as_many_tenths_go_as_bring_both_to_zero(over_count, over_bytes, taken) -> None:
    gone = tuple(one.memory_id for one in ROWS[:taken])
    assert oldest(reversed(ROWS), 30, over_count, over_bytes) == gone


def test_if_all_are_not_enough_there_is_no_room() -> None:
    assert oldest(ROWS, 30, 31, 0) is None
    assert oldest(ROWS, 30, 0, 301) is None


def test_pinned_rows_stay_and_a_tenth_counts_all() -> None:
    """Pinned rows stay, and a tenth is of all rows there are."""
    rows = [*(row(f"p{n}", at=-n, pinned=True) for n in range(20)), *ROWS]
    assert oldest(rows, 50, 1, 0) == ("m00", "m01", "m02", "m03", "m04")
    assert oldest(rows, 50, 31, 0) is None


def test_of_the_same_time_who_came_first_goes_first() -> None:
    assert oldest([row("b", version=2), row("a", version=3), row("c")], 3, 1, 0) == ("c",)


@pytest.mark.parametrize(("count", "gone"), [(10, 1), (16, 1), (19, 1), (20, 2), (29, 2)])
def test_a_tenth_is_rounded_down(count: int, gone: int) -> None:
    assert len(oldest(ROWS[:count], count, 1, 0) or ()) == gone


def test_of_fewer_than_ten_one_goes_at_a_time() -> None:
    assert oldest(ROWS[:9], 9, 2, 0) == ("m00", "m01")


def test_sums_follow_rows_that_come_change_and_go() -> None:
    held = HeldRows.of([row("a"), row("b", size=5)])
    assert (len(held), held.size_bytes, held.stored_bytes) == (2, 15, 17)
    draft = Draft(held)
    draft.put(row("a", size=7))
    assert draft.drop("b").size_bytes == 5
    held = draft.finish()
    assert (len(held), held.size_bytes, held.stored_bytes) == (1, 7, 8)


def test_rows_stand_in_the_order_of_their_versions() -> None:
    held = HeldRows.of([row("b", version=2), row("c"), row("a", version=2)])
    assert [one.memory_id for one in held.in_order()] == ["c", "a", "b"]
