"""Clustered unit vectors, as sentence vectors are: what the vector indexes are measured with."""

from typing import Any

import numpy as np

from memory_actors.search.embedding.protocol import Vectors

DIMENSION = 384
ROWS_A_CLUSTER = 50
MIXED_NOISE = 0.25  # length of the noise in a mixture
MIXED_AT_ONCE = 50_000
SPREAD = 1.0  # length of the noise around a centre of length 1: a cosine of 0.5 within a cluster


def centres_for(rows: int, rng: np.random.Generator) -> Vectors:
    """Return the centres of so many clusters that each gets some 50 of the rows."""
    return unit(rng.standard_normal((max(1, rows // ROWS_A_CLUSTER), DIMENSION)))


def around(centres: Vectors, count: int, rng: np.random.Generator) -> Vectors:
    """Return unit vectors, float32 `[count, DIMENSION]`, each near one of the centres."""
    noise = rng.standard_normal((count, DIMENSION)) * (SPREAD / DIMENSION**0.5)
    return unit(centres[rng.integers(len(centres), size=count)] + noise)


def mixed(vectors: Vectors, count: int, rng: np.random.Generator) -> Vectors:
    """Return these vectors, and as many mixtures of two as are missing, in a random order."""
    missing = max(0, count - len(vectors))
    mixtures = []
    for start in range(0, missing, MIXED_AT_ONCE):
        some = min(MIXED_AT_ONCE, missing - start)
        one, other = (vectors[rng.integers(len(vectors), size=some)] for _ in range(2))
        share = rng.uniform(0.3, 0.7, size=(some, 1)).astype(np.float32)
        noise = rng.standard_normal((some, DIMENSION), np.float32) * (MIXED_NOISE / DIMENSION**0.5)
        mixtures.append(unit(share * one + (1 - share) * other + noise))
    all_of = np.concatenate([vectors[:count], *mixtures])
    rng.shuffle(all_of)
    return all_of


def unit(rows: Any) -> Vectors:
    """Return rows scaled to length 1, float32."""
    scaled: Vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return scaled
