"""Recall: of the turns that answer a question, the fraction among the first k that were found."""

from collections.abc import Collection, Iterable, Sequence
from statistics import fmean

CUTS = (5, 10)
TOP_K = max(CUTS)


def recall(evidence: Collection[str], found: Sequence[str], k: int) -> float:
    """Return recall@k of one question; `found` are ids, best first."""
    return len(set(evidence) & set(found[:k])) / len(set(evidence))


def mean(values: Iterable[float]) -> float:
    """Return the mean, 0 of nothing."""
    listed = list(values)
    return fmean(listed) if listed else 0.0
