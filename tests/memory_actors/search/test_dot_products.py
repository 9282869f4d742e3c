"""Products at the width that things are stored."""

import numpy as np
import pytest

from memory_actors.search.dot_products import (
    AVX512,
    INSTRUCTION_SETS,
    LIBRARY,
    Coded,
    byte_dots,
    byte_lengths,
    coded_units,
    float_dots,
)

RNG = np.random.default_rng(7)


def unit(count: int, width: int = 384):
    rows = RNG.standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(params=[pytest.param(True, id="as here"), pytest.param(False, id="without C")])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the compiled library, if there is one, and with numpy."""
    if not request.param:
        monkeypatch.setattr(LIBRARY, "instruction_set", 0)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("count", [0, 1, 170])
def test_products_of_floats_are_those_of_doubles(count: int) -> None:
    rows, vectors = unit(count), unit(64)
    found = float_dots(rows, vectors)
    assert found.shape == (count, 64)
    assert found.dtype == np.float32
    assert found == pytest.approx(rows.astype(np.float64) @ vectors.astype(np.float64).T, abs=3e-7)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("width", [1, 63, 64, 1_536])
@pytest.mark.parametrize(("count", "asked"), [(0, 2), (3, 0), (1, 1), (777, 13)])
def test_products_of_bytes_are_exact(count: int, asked: int, width: int) -> None:
    rows = RNG.integers(-128, 128, (count, 2 * width)).astype(np.int8)[:, ::2]
    vectors = RNG.integers(-128, 128, (asked, width)).astype(np.int8)
    expected = rows.astype(np.int64) @ vectors.astype(np.int64).T
    assert byte_dots(rows, vectors).tolist() == expected.tolist()
    assert byte_lengths(rows) == pytest.approx(np.linalg.norm(rows.astype(float), axis=1))


@pytest.mark.skipif(
    LIBRARY.instruction_set < AVX512,
    reason=f"products are those of {INSTRUCTION_SETS[LIBRARY.instruction_set]} here",
)
@pytest.mark.parametrize("width", [64, 384, 4_096])
@pytest.mark.parametrize("count", [0, 1, 777])
def test_compiled_products_are_the_same_bit_for_bit(
    count: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, vector = coded_units(unit(count, width)), unit(1, width)[0]
    for some in (rows, rows.at(slice(1, None)), Coded(rows.codes[::2], rows.steps[::2])):
        compiled = some.dots(vector)
        with monkeypatch.context() as patch:
            patch.setattr(LIBRARY, "instruction_set", 0)
            assert some.dots(vector).tobytes() == compiled.tobytes()


@pytest.mark.parametrize("width", [1, 3, 384, 5_000])
def test_what_was_decoded_is_coded_as_the_same_again(width: int) -> None:
    """Else an answer would differ after a restart."""
    once = coded_units(unit(500, width))
    again = coded_units(once.decoded())
    assert np.array_equal(once.codes, again.codes)
    assert np.array_equal(once.steps, again.steps)
    assert np.linalg.norm(once.decoded(), axis=1) == pytest.approx(np.ones(500), abs=1e-6)
