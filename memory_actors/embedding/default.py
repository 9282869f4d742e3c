"""The embedder that a memory system uses when it is given none: all-MiniLM-L6-v2 in int8.

Its fingerprint and dimension are known without it, so opening a store, listing or exporting needs
no model. The model is loaded, and installed if need be, by the first text to embed.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memory_actors.embedding.general import general_texts
from memory_actors.embedding.protocol import Vectors
from memory_actors.model import DIMENSION, Precision, fingerprint, install_model, model_path

if TYPE_CHECKING:
    from memory_actors.embedding.onnx_minilm import Encoding, OnnxEmbedder

MEAN_FILE = "background_mean.f32"


class DefaultEmbedder:
    """all-MiniLM-L6-v2, loaded on first use."""

    def __init__(self, precision: Precision = "int8", cache_dir: Path | None = None):
        self._precision: Precision = precision
        self._cache_dir = cache_dir
        self._loaded: OnnxEmbedder | None = None

    @property
    def fingerprint(self) -> str:
        """Name the model, its weights and its precision."""
        return fingerprint(self._precision)

    @property
    def dimension(self) -> int:
        """Length of each vector: 384."""
        return DIMENSION

    def prepare(self) -> None:
        """Load the model, and install it if it is not there. May take a while."""
        self._model()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), 384]`, rows of length 1. See `OnnxEmbedder.embed`."""
        return self._model().embed(texts)

    def encode(self, texts: Sequence[str]) -> "list[Encoding]":
        """Return vectors and token states from one pass. See `OnnxEmbedder.encode`."""
        return self._model().encode(texts)

    def background_mean(self) -> Vectors:
        """Return the mean vector of general text; computed once, and kept beside the model."""
        folder = model_path(self._precision, self._cache_dir)
        mean = _read(folder / MEAN_FILE) if folder is not None else None
        if mean is None:
            mean = self.embed(general_texts()).mean(axis=0, dtype=np.float64).astype(np.float32)
            _write(mean, install_model(precision=self._precision, cache_dir=self._cache_dir))
        return mean

    def _model(self) -> "OnnxEmbedder":
        if self._loaded is None:
            from memory_actors.embedding.onnx_minilm import OnnxEmbedder

            self._loaded = OnnxEmbedder.load(self._precision, self._cache_dir)
        return self._loaded


def _read(path: Path) -> Vectors | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    crc, values = data[:4], data[4:]
    whole = len(values) == 4 * DIMENSION and zlib.crc32(values).to_bytes(4, "big") == crc
    return np.frombuffer(values, np.float32) if whole else None


def _write(mean: Vectors, folder: Path) -> None:
    """Keep the mean; a directory that cannot be written only means computing it again."""
    values = mean.tobytes()
    try:
        (folder / MEAN_FILE).write_bytes(zlib.crc32(values).to_bytes(4, "big") + values)
    except OSError:
        return
