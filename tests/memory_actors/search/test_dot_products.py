"""Products at the width that things are stored."""

import numpy as np
import pytest

from memory_actors.search.dot_products import byte_codes, byte_dots, coded_dots, dots, float_dots

RNG = np.random.default_rng(7)


def unit(count: int, width: int = 384):
    rows = RNG.standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("count", [0, 1, 3, 1_000])
def test_nothing_of_a_vector_is_lost_beside_halves(count: int) -> None:
    rows, vectors = unit(count).astype(np.float16), unit(2)
    expected = rows.astype(np.float64) @ vectors.astype(np.float64).T
    found = dots(rows, vectors)
    assert found.shape == (count, 2)
    assert found.dtype == np.float32
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, 170])
def test_products_of_floats_are_those_of_doubles(count: int) -> None:
    rows, vectors = unit(count), unit(64)
    found = float_dots(rows, vectors)
    assert found.shape == (count, 64)
    assert found.dtype == np.float32
    assert found == pytest.approx(rows.astype(np.float64) @ vectors.astype(np.float64).T, abs=1e-7)


@pytest.mark.parametrize(("count", "asked"), [(0, 2), (3, 0), (1, 1), (777, 13)])
def test_products_of_bytes_are_exact(count: int, asked: int) -> None:
    rows = RNG.integers(-128, 128, (count, 64)).astype(np.int8)
    vectors = RNG.integers(-128, 128, (asked, 64)).astype(np.int8)
    expected = rows.astype(np.int64) @ vectors.astype(np.int64).T
    assert byte_dots(rows, vectors).tolist() == expected.tolist()


def test_rows_that_are_parts_of_others_are_read_right() -> None:
    rows = RNG.integers(-128, 128, (50, 128)).astype(np.int8)[::2, :64]
    vectors = RNG.integers(-128, 128, (5, 64)).astype(np.int8)
    expected = rows.astype(np.int64) @ vectors.astype(np.int64).T
    assert byte_dots(rows, vectors).tolist() == expected.tolist()


def test_codes_are_close_to_what_they_stand_for() -> None:
    rows, vector = unit(500), unit(1)[0]
    codes, steps = byte_codes(rows)
    assert coded_dots(codes, steps, vector) == pytest.approx(rows @ vector, abs=2e-3)
    nothing, step = byte_codes(np.zeros((2, 384), np.float32))
    assert not coded_dots(nothing, step, vector).any()
