"""Room for rows to come."""

import gc

import numpy as np
import psutil
import pytest

from memory_actors.search.indexes.labels import _HAS_PRIVATE, PAGES_BYTES_MIN, grown, zeros


@pytest.mark.parametrize("rows", [0, 10, PAGES_BYTES_MIN])
def test_a_grown_column_has_what_was_there_and_zeros(rows: int) -> None:
    column = np.arange(2 * rows, dtype=np.int32).reshape(rows, 2)
    wider = grown(column, rows + 100_000)
    assert wider.shape == (rows + 100_000, 2)
    assert wider.dtype == np.int32
    assert np.array_equal(wider[:rows], column)
    assert not wider[rows:].any()
    wider[-1] = 7, 8
    assert wider.flags.c_contiguous


@pytest.mark.skipif(not _HAS_PRIVATE, reason="this system has no pages of its own to give")
def test_what_is_not_written_takes_no_memory_and_all_of_it_goes_at_once() -> None:
    process, size = psutil.Process(), 1 << 28
    gc.collect()
    before = process.memory_info().rss
    column = zeros((size,), np.uint8, size // 4)
    column[: size // 4] = 1
    written = process.memory_info().rss
    assert size // 4 <= written - before < size // 2
    column[size // 2] = 1  # in a page that is not one of 2 MB
    assert process.memory_info().rss - written < 1 << 20
    kept = column[:10]
    del column
    assert kept.tolist() == [1] * 10
    del kept
    assert process.memory_info().rss - before < size // 8
