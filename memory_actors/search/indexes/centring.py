"""Centred cosine: how close a vector is to a query, without what all vectors have in common.

Sentence vectors of one model share a large common part, and the memories of one user a second one
("User …", a name, one way to put things). Neither tells two memories apart, yet both are in every
cosine. So the score of a memory v for a query q is

    cos(v - mu, q - mu),  mu = (2 * background + w * mean) / (2 + w),  w at most 3

where the background is the mean of general text, and the mean is that of the user's own memories.

A theme must not be taken away with it: who writes down every run has a mean that is running. So the
mean is one of different things. Each memory weighs 1 / (how many are like it, itself included): a
cosine of 0.7 counts for nothing, 1 for a whole one. And it never weighs more than three memories,
which is what a user with three facts has: there "User" must go, or it decides.

It is the mean of a sample of 128 memories, by a hash of their labels: which ones does not depend on
what came and went, and it seldom changes as others are added, so what rests on it is kept. The
vectors are stored as they are, and mu is applied at search time.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Halves, dots, float_dots
from memory_actors.search.embedding.protocol import Vectors

SAMPLE_MAX: Final = 128
"""Memories that the mean is of: comparing each with each takes 0.2 ms."""
BACKGROUND_WEIGHT: Final = 2.0
"""In memories. Any from 0 to 50 gives LoCoMo the same recall; a small one serves a few facts."""
OWN_WEIGHT_MAX: Final = 3.0
"""In memories. `python -m bench recall`: without this bound, and with all memories weighing the
same, 0.70 of the questions about the theme of a store put it first; with the bound alone 0.73."""
UNLIKE_MAX: Final = 0.7
"""A cosine up to which two memories are two things. From 0.5 to 0.7 the figures are the same: 0.90
of those questions, and LoCoMo's turn recall@10 0.863 as with all memories weighing the same."""
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


def sample_order(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a number for each label: those with the smallest ones are the sample."""
    mixed = labels.astype(np.uint64) * _MIX
    return np.asarray((mixed ^ (mixed >> np.uint64(29))) * _MIX, np.uint64)


def centre(background: Vectors, sample: Vectors) -> Vectors:
    """Return mu: where the common part of a user's vectors lies.

    `background` is float32 [d], `sample` float32 [n, d], n at most `SAMPLE_MAX`.
    """
    total, weight = BACKGROUND_WEIGHT * background, BACKGROUND_WEIGHT
    if len(sample):
        alike = np.clip((float_dots(sample, sample) - UNLIKE_MAX) / (1 - UNLIKE_MAX), 0, 1)
        weights = 1 / np.maximum(alike.sum(axis=1), 1)
        own = min(float(weights.sum()), OWN_WEIGHT_MAX)
        mean = (weights[:, None] * sample).sum(axis=0) / weights.sum()
        total, weight = total + own * mean, weight + own
    return (total / weight).astype(np.float32)


def direction_of(query: Vectors, centre: Vectors) -> Vectors:
    """Return q - mu at length 1."""
    centred = query - centre
    length = float(np.linalg.norm(centred))
    return centred / length if length > 0 else centred


def cosines(vectors: Halves, direction: Vectors, centre: Vectors) -> Vectors:
    """Return cos(v - mu, direction) for each row v of unit length."""
    products = dots(vectors, np.stack([direction, centre]))
    numerator = products[:, 0] - centre @ direction
    return (numerator / _lengths(products[:, 1], centre)).astype(np.float32)


def distances(vectors: Halves, centre: Vectors) -> Vectors:
    """Return the length of v - mu for each row v of unit length."""
    return _lengths(dots(vectors, centre[None])[:, 0], centre)


def _lengths(products: Vectors, centre: Vectors) -> Vectors:
    """Return the lengths of v - mu by the products of v and mu."""
    squared = 1.0 - 2.0 * products + centre @ centre
    return np.sqrt(np.maximum(squared, 1e-12)).astype(np.float32)
