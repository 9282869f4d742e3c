"""Clustered unit vectors, as sentence vectors are: what the vector indexes are measured with."""

from typing import Any

import numpy as np

from memory_actors.search.embedding.protocol import Vectors

DIMENSION = 384
ROWS_A_CLUSTER = 50
SPREAD = 1.0  # length of the noise around a centre of length 1: a cosine of 0.5 within a cluster


def centres_for(rows: int, rng: np.random.Generator) -> Vectors:
    """Return the centres of so many clusters that each gets some 50 of the rows."""
    return _unit(rng.standard_normal((max(1, rows // ROWS_A_CLUSTER), DIMENSION)))


def around(centres: Vectors, count: int, rng: np.random.Generator) -> Vectors:
    """Return unit vectors, float32 `[count, DIMENSION]`, each near one of the centres."""
    noise = rng.standard_normal((count, DIMENSION)) * (SPREAD / DIMENSION**0.5)
    return _unit(centres[rng.integers(len(centres), size=count)] + noise)


def _unit(rows: Any) -> Vectors:
    unit: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit
