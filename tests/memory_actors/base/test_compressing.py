"""Derived data in fewer bytes comes back as it was written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors.base.compressing import Pieces, compressed_pieces, narrowed, widened

INT64 = np.iinfo(np.int64)
NUMBERS = st.one_of(
    st.lists(st.integers(INT64.min, INT64.max), max_size=20),
    st.builds(lambda first, step, count: [first + step * n for n in range(count)],
              st.integers(-(1 << 40), 1 << 40), st.integers(-300, 300), st.integers(0, 30)),
)  # fmt: skip


@settings(deadline=None)
@given(NUMBERS)
def test_numbers_come_back(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    data = narrowed(column)
    assert widened(data, np.int64).tolist() == numbers
    with pytest.raises(ValueError, match="fit"):
        widened(data + b"\0", np.int64)


def test_numbers_with_equal_steps_take_no_bytes_each() -> None:
    few, many = (narrowed(np.arange(5, 5 + count)) for count in (10, 10_000))
    assert len(few) == len(many)


@settings(deadline=None)
@given(st.lists(st.integers(0, 70_000), min_size=2, max_size=2), st.integers(1, 70_000))
def test_pieces_are_read_as_if_they_were_one(places: list[int], size: int) -> None:
    data = np.random.default_rng(size).integers(0, 4, size, np.uint8).tobytes()
    start, stop = sorted(min(place, size) for place in places)
    pieces = Pieces(compressed_pieces(data))
    if start < stop:
        assert bytes(pieces[start:stop]) == data[start:stop]
        assert pieces.size_bytes > 0
    assert bytes(pieces) == data
