"""Centred cosine: how close a vector is to a query, without what all vectors have in common.

Sentence vectors of one model share a large common part, and the memories of one user a
second one (they are all about that user's life). Neither tells two memories apart, yet both are in
every cosine. So the score of a memory v for a query q is

    cos(v - mu, q - mu),  mu = (K * background + n * mean of the user) / (K + n)

where the background is the mean of general text, K is how many memories the background counts for,
and n and the mean are over all indexes of the user, so that scores of all kinds compare. The
vectors are stored as they are, and mu is applied at search time, so it may drift with every add at
no cost: with V the rows, V @ (q - mu) and V @ mu give numerator and norm.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from memory_actors.embedding.protocol import Vectors
from memory_actors.products import Halves, dots

# K above. Measured with `python -m bench centring`: any K from 0 to 50 lifts turn recall@10 from
# 0.459 to 0.491-0.495, and puts the right one of 10 memories first in 66-67 % of questions instead
# of 64 %. Within that noise a small one serves users with a handful of memories best.
BACKGROUND_WEIGHT = 2.0

Mass = tuple[npt.NDArray[np.float64], int]
"""The sum of some vectors, [d], and how many there are."""


def centre(background: Vectors, masses: Iterable[Mass]) -> Vectors:
    """Return mu: where the common part of all these vectors lies. `background` is float32 [d]."""
    total, weight = BACKGROUND_WEIGHT * background.astype(np.float64), BACKGROUND_WEIGHT
    for vectors, count in masses:
        total, weight = total + vectors, weight + count
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
