"""An embedder that costs nothing, for measuring everything but the model."""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from memory_actors.embedding.protocol import Embedder


class HashedEmbedder:
    """A unit vector drawn from a text's hash: deterministic, and with no meaning at all."""

    def __init__(self, dimension: int = 384):
        self.fingerprint = f"hashed/{dimension}"
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return float32 `[len(texts), dimension]`, rows of length 1."""
        rows = np.stack([self._row(text) for text in texts])
        unit: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit

    def background_mean(self) -> npt.NDArray[np.float32]:
        """Return zeros: these vectors have nothing in common."""
        return np.zeros(self.dimension, np.float32)

    def _row(self, text: str) -> npt.NDArray[np.float32]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dimension, np.float32)


class Switched(HashedEmbedder):
    """Hashed vectors, until `model` is set: so a store fills quickly and is then used for real."""

    def __init__(self, model: Embedder | None = None):
        super().__init__()
        self.fingerprint = f"switched/{self.dimension}"
        self.model = model

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return float32 `[len(texts), 384]`, rows of length 1."""
        return super().embed(texts) if self.model is None else self.model.embed(texts)
