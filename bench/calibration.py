"""Calibration: scores beside the chance, which they promise, that a result answers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BINS = 10
Numbers = npt.NDArray[np.float64]


class Bin(NamedTuple):
    """Results of about the same score."""

    results: int
    score: float
    """In the mean."""
    answers: float
    """The share of them that answers."""


def bins(scores: Sequence[float], answers: Sequence[bool], count: int = BINS) -> list[Bin]:
    """Return results by tenths of the score; those that nothing falls into are left out."""
    shown, right = np.asarray(scores, float), np.asarray(answers, float)
    number = np.minimum((shown * count).astype(int), count - 1)
    chosen = [np.flatnonzero(number == one) for one in range(count)]
    return [
        Bin(len(rows), float(shown[rows].mean()), float(right[rows].mean()))
        for rows in chosen
        if len(rows)
    ]


def calibration_error(scores: Sequence[float], answers: Sequence[bool]) -> float:
    """Return how far score and share are apart in the mean over results (ECE), 0 of nothing."""
    found = bins(scores, answers)
    apart = sum(one.results * abs(one.score - one.answers) for one in found)
    return apart / max(1, len(scores))


def auroc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return how often one of `higher` is above one of `lower`; a tie counts half."""
    ordered = np.sort(np.asarray(lower, float))
    below = np.searchsorted(ordered, higher, "left") + np.searchsorted(ordered, higher, "right")
    return float(below.mean() / 2 / len(ordered))
