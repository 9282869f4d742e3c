"""Deterministic stand-ins for what a test must not depend on: the model, the clock, chance."""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from memory_actors import Embedded
from memory_actors.search.embedding.batcher import PROBE
from memory_actors.search.embedding.token_states import pack

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US


class FakeEmbedder:
    """Texts with words in common get vectors with something in common.

    Counts the texts that it is given, but for the one that every store tries it with.
    """

    def __init__(self, fingerprint: str = "fake/1", dimension: int = 32):
        self.fingerprint = fingerprint
        self.dimension = dimension
        self.texts: list[str] = []
        self.failure: Exception | None = None

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self.failure is not None:
            raise self.failure
        self.texts += [text for text in texts if text != PROBE]
        return np.stack([self._vector(text) for text in texts])

    def background_mean(self) -> npt.NDArray[np.float32]:
        return np.zeros(self.dimension, np.float32)

    def _vector(self, text: str) -> npt.NDArray[np.float32]:
        total = np.full(self.dimension, 1e-3)
        for word in text.lower().split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
            total += np.random.default_rng(seed).standard_normal(self.dimension)
        return (total / np.linalg.norm(total)).astype(np.float32)


class FakeTokenEmbedder(FakeEmbedder):
    """Gives token states as well: each word has its own, whatever stands around it."""

    def encode(self, texts: Sequence[str]) -> list[Embedded]:
        vectors = self.embed(texts)
        return [Embedded(v, self._tokens(t)) for v, t in zip(vectors, texts, strict=True)]

    def _tokens(self, text: str) -> bytes:
        seeds = [
            int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
            for word in text.lower().split()[:200]
        ]
        states = [np.random.default_rng(seed).standard_normal(64) for seed in seeds]
        unit = [state / np.linalg.norm(state) for state in states]
        ids = np.array([seed % 30_000 for seed in seeds], np.int64)
        return pack(ids, np.array(unit, np.float32).reshape(len(seeds), 64))


class FakeClock:
    """A clock that stands still until it is told to move, in either direction."""

    def __init__(self) -> None:
        self.now_us = START_US

    def __call__(self) -> int:
        return self.now_us

    def move(self, seconds: float) -> None:
        self.now_us += int(seconds * SECOND_US)


class FakeIds:
    """m1, m2, m3, …"""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _now_us: int) -> str:
        self.count += 1
        return f"m{self.count}"


class Words:
    """One token a word: sums are easily seen."""

    name = "words"

    def count(self, said: str) -> int:
        return len(said.split())
