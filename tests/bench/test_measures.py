"""Each measure of recall counts one thing, and they stand in one order."""

import random

import numpy as np
import pytest

from bench.measures import CUTS, MEASURES, by_cosine, groups, means, measured


def test_a_fraction_is_neither_any_nor_all() -> None:
    ranking = [f"other {number}" for number in range(30)]
    ranking[2], ranking[7] = "a", "b"
    found = measured({"a", "b"}, ranking)
    assert set(found) == set(MEASURES)
    assert (found["R@5"], found["any@5"], found["all@5"]) == (0.5, 1.0, 0.0)
    assert (found["R@10"], found["any@10"], found["all@10"]) == (1.0, 1.0, 1.0)
    assert found["MRR"] == pytest.approx(1 / 3)


def test_all_is_at_most_the_fraction() -> None:
    """All is at most the fraction and that at most any."""
    rng = random.Random(1)
    for _ in range(200):
        ranking = rng.sample(range(40), 30)
        wanted = rng.sample(range(40), rng.randint(1, 6))
        found = measured([*map(str, wanted)], [*map(str, ranking)])
        for k in CUTS:
            assert 0 <= found[f"all@{k}"] <= found[f"R@{k}"] <= found[f"any@{k}"] <= 1
        assert found["R@5"] <= found["R@10"] <= found["R@20"]


def test_one_piece_of_evidence_makes_all_three_equal() -> None:
    """With a single piece of evidence all three measures are one number."""
    found = measured({"a"}, ["b", "a"])
    assert found["R@5"] == found["any@5"] == found["all@5"] == 1.0
    assert found["MRR"] == 0.5


def test_nothing_to_find_and_nothing_found_count_zero() -> None:
    for wanted, ranking in ((set(), ["a"]), ({"a"}, []), ({"a"}, ["b"])):
        assert set(measured(wanted, ranking).values()) == {0.0}


def test_groups_stand_where_their_best_member_does() -> None:
    assert groups("babca") == ["b", "a", "c"]


def test_means_are_over_questions() -> None:
    assert means([{"R@5": 1.0, "MRR": 0.5}, {"R@5": 0.0, "MRR": 0.5}], ["MRR", "R@5"]) == [0.5, 0.5]


def test_plain_cosine_ranks_best_first_and_equals_in_their_order() -> None:
    vectors = np.array([[0, 1], [1, 0], [1, 0]], np.float32)
    assert by_cosine(["a", "b", "c"], vectors, np.array([1, 0], np.float32)) == ["b", "c", "a"]
