"""Each measure of recall counts one thing."""

import pytest

from bench.measures import MEASURES, measured


def test_a_fraction_is_neither_any_nor_all() -> None:
    ranking = [f"other {number}" for number in range(30)]
    ranking[2], ranking[7] = "a", "b"
    found = measured({"a", "b"}, ranking)
    assert set(found) == set(MEASURES)
    assert (found["R@5"], found["any@5"], found["all@5"]) == (0.5, 1.0, 0.0)
    assert (found["R@10"], found["any@10"], found["all@10"]) == (1.0, 1.0, 1.0)
    assert found["MRR"] == pytest.approx(1 / 3)
