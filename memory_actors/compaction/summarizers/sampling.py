"""Some of many, spread over all of them: for summarisers that cannot read a cluster whole."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from memory_actors.search.dot_products import float_dots
from memory_actors.search.embedding.protocol import Vectors

GOLDEN: Final = 0.6180339887498949
"""Multiples of it, less their whole part, are spread most evenly and keep to no beat."""


def evenly(count: int, at_most: int) -> list[int]:
    """Return at most so many of `range(count)`, in order: one of each of as many equal stretches.

    Each from another place in its stretch, since what is sampled often has a beat: turns of two
    people, two sentences a memory. Every tenth of them would all be the same person's.
    """
    return [
        start + int((place * GOLDEN) % 1.0 * (end - start))
        for place, (start, end) in enumerate(_stretches(count, at_most))
    ]


def typical(vectors: Vectors | None, count: int, at_most: int) -> list[int]:
    """Return at most so many of `range(count)`, in order: the most central of each stretch.

    Central is what is nearest to the mean vector; without vectors, `evenly` chooses.
    """
    if vectors is None:
        return evenly(count, at_most)
    centrality = float_dots(vectors, vectors.mean(axis=0)[None])[:, 0]
    return [
        start + int(np.argmax(centrality[start:end])) for start, end in _stretches(count, at_most)
    ]


def _stretches(count: int, at_most: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of at most so many parts of `range(count)`, as equal as can be."""
    parts = min(count, at_most)
    return pairwise(part * count // parts for part in range(parts + 1))


def scattered(count: int) -> list[int]:
    """Return `range(count)` in such an order that any beginning of it is spread over all of it.

    It is that of the numbers' bits read backwards: the start, the middle, the quarters, and so on.
    """
    bits = max(count - 1, 1).bit_length()
    return sorted(range(count), key=lambda number: int(f"{number:0{bits}b}"[::-1], 2))
