"""An embedder that costs nothing, for measuring everything but the model."""

import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from memory_actors.search.embedding.default import SILENT, DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.embedding.token_states import (
    DIMENSIONS,
    PLAIN,
    TOKENS_MAX,
    Codebook,
    pack,
)

WORDS = 1 << 15  # of the made-up vocabulary: it fits the 16 bits of a token's id
_PIECE = re.compile(r"\w{1,6}|[^\w\s]")


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


class HashedTokens(HashedEmbedder):
    """Token states as well, one for each word: what a model gives, for the price of a look-up."""

    def __init__(self, dimension: int = 384):
        super().__init__(dimension)
        self.fingerprint = f"hashed-tokens/{dimension}"
        states = np.random.default_rng(0).standard_normal((WORDS, DIMENSIONS), np.float32)
        self._states = states / np.linalg.norm(states, axis=1, keepdims=True)

    def encode(self, texts: Sequence[str]) -> list[Embedded]:
        """Return the vectors of texts with the states of their words."""
        vectors = self.embed(texts)
        return [
            Embedded(vector, self._packed(text))
            for vector, text in zip(vectors, texts, strict=True)
        ]

    def _packed(self, text: str) -> bytes:
        pieces = [zlib.crc32(piece.encode()) % WORDS for piece in self._pieces(text)]
        ids = np.array(pieces[:TOKENS_MAX], np.int64)
        return pack(ids, self._states[ids], self.codebook())

    def codebook(self) -> Codebook:
        """Return the codebook that packs token states."""
        return PLAIN

    def _pieces(self, text: str) -> Sequence[str]:
        return text.split()


class HashedPieces(HashedTokens):
    """About as many token states as are kept of MiniLM's: of pieces of words that say something."""

    def __init__(self, dimension: int = 384):
        super().__init__(dimension)
        self.fingerprint = f"hashed-pieces/{dimension}"

    def _pieces(self, text: str) -> Sequence[str]:
        return [piece for piece in _PIECE.findall(text) if piece not in SILENT]


class Switched(HashedTokens):
    """Hashed, but a model's while one is used: a store fills in no time."""

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = f"switched/{self.dimension}"
        self._model: DefaultEmbedder | None = None
        self._codebook = DefaultEmbedder().codebook()

    @contextmanager
    def using(self, model: DefaultEmbedder | None) -> Iterator[None]:
        """Embed with a model for a while; None means hashed."""
        self._model = model
        try:
            yield
        finally:
            self._model = None

    def codebook(self) -> Codebook:
        """Return the codebook of the model, for both."""
        return self._codebook

    def encode(self, texts: Sequence[str]) -> list[Embedded]:
        """Return vectors and token states."""
        return super().encode(texts) if self._model is None else self._model.encode(texts)
