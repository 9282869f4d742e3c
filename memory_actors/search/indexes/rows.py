"""How stored vectors are compared with a query: by their centred cosine.

A vector is kept as int8: a coordinate as a share of the row's largest one, in 127 steps. A cosine
moves by 0.001, recall by less than can be measured.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Coded, float_dots
from memory_actors.search.embedding.protocol import Vectors

# --- the centred cosine: how close a vector is to a query, without what all have in common
#
# Sentence vectors of one model share a large common part, and the memories of one user a second one
# ("User …", a name, one way to put things). Neither tells two memories apart, yet both are in every
# cosine. The score of a memory v for a query q is therefore
#
#     cos(v - mu, q - mu),  mu = (2 * background + w * mean) / (2 + w),  w at most 3
#
# The background is the mean of general text, and the mean is that of the user's own memories.
#
# A theme must not be taken away with it: who writes down every run has a mean that is running. The
# mean is therefore one of different things. Each memory weighs 1 / (how many are like it, itself
# included): a cosine of 0.7 counts for nothing, 1 for a whole one. And it never weighs more than
# three memories, which is what a user with three facts has: there "User" must go, or it decides.
#
# It is the mean of a sample of 128 memories, by a hash of their labels: which ones does not depend
# on what came and went, and it seldom changes as others are added, so what rests on it is kept. The
# vectors are stored as they are, and mu is applied at search time.

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


def cosines(vectors: Coded, direction: Vectors, centre: Vectors, lengths: Vectors) -> Vectors:
    """Return cos(v - mu, direction) for each row v, where `lengths` are those of v - mu."""
    return np.asarray((vectors.dots(direction) - centre @ direction) / lengths, np.float32)


def distances(vectors: Coded, centre: Vectors) -> Vectors:
    """Return the length of v - mu for each row v of unit length."""
    squared = 1.0 - 2.0 * vectors.dots(centre) + centre @ centre
    return np.sqrt(np.maximum(squared, 1e-12)).astype(np.float32)


# --- rows


class View(NamedTuple):
    """The rows at one moment, safe to read from any thread."""

    vectors: Coded
    labels: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]
    living: int


class Sample(NamedTuple):
    """Some of the living rows, `SAMPLE_MAX` at most, the same whatever came and went."""

    order: npt.NDArray[np.uint64]
    """Numbers of `sample_order`, ascending."""
    vectors: Coded

    def may_have(self, label: int) -> bool:
        """Say whether a label is, or would be, of the sample."""
        if len(self.order) < SAMPLE_MAX:
            return True
        return bool(sample_order(np.array([label]))[0] <= self.order[-1])
