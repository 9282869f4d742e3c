"""The embedder that a memory system uses when it is given none: all-MiniLM-L6-v2 in int8.

Its fingerprint and dimension are known without it, so opening a store, listing or exporting needs
no model. One that is installed is loaded when a store is opened to be kept open; else it is loaded,
and installed if need be, by the first text to embed.
"""

import math
import string
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from memory_actors.base.errors import ModelInstallError
from memory_actors.search.embedding.protocol import (
    AnyVectors,
    Embedded,
    Embedder,
    VectorForm,
    Vectors,
)
from memory_actors.search.embedding.token_states import (
    CODED_RECIPE,
    DIMENSIONS,
    RECIPE,
    Codebook,
    learn_codebook,
    learn_projection,
    pack_each,
    project,
    rounded,
)
from memory_actors.search.model.installed import (
    DIMENSION,
    GRAPH_FILE,
    UNKNOWN_TOKEN_ID,
    VOCABULARY,
    Precision,
    fingerprint,
    is_there,
)
from memory_actors.search.model.onnx_file import Array

if TYPE_CHECKING:
    from memory_actors.search.embedding.onnx_minilm import Encoding, OnnxEmbedder

_FLOATS = np.dtype(np.float32)

MEAN_FILE = "background_mean.f32"
PROJECTION_FILE = f"projection {RECIPE.replace('/', '-')}.f32"
CODEBOOK_FILE = f"codebook {CODED_RECIPE.replace('/', '-')}.i8"

SILENT: Final = frozenset(
    f"{string.punctuation}\u2013\u2014\u2018\u2019\u201c\u201d\u2026\u00a1\u00bf\u00ab\u00bb\u00b7"
)
"""Marks, whose states are not kept: a fifth of the tokens of a conversation, and next to no weight.

Leaving out stop words as well would halve the tokens, but then R@10 falls by 0.006 on LoCoMo, and
without the 15 most frequent ones by 0.007 on the long passages of QMSum.
"""
CODED_AT_ONCE = 16
"""Texts. One by one it took a sixth of the model's time; many hold up the event loop's thread."""


class DefaultEmbedder:
    """all-MiniLM-L6-v2, loaded on first use."""

    parallel = True  # once it is prepared

    def __init__(self, precision: Precision = "int8", cache_dir: Path | None = None):
        self._precision: Precision = precision
        self._cache_dir = cache_dir
        self._loaded: OnnxEmbedder | None = None
        self._numbers: dict[str, Array] = {}
        """Arrays learned from general text, by the names of their files."""
        self._codebook: Codebook | None = None
        self._says: npt.NDArray[np.bool_] | None = None
        """True for each token of the vocabulary that says something."""
        self._general: list[Encoding] | None = None
        """General text, while something is learnt of it."""

    @property
    def fingerprint(self) -> str:
        """Name the model, its weights and its precision."""
        return fingerprint(self._precision)

    @property
    def dimension(self) -> int:
        """Length of each vector: 384."""
        return DIMENSION

    @property
    def unknown_token_id(self) -> int:
        """The token of what the model has no word for."""
        return UNKNOWN_TOKEN_ID

    @property
    def is_installed(self) -> bool:
        """True if the model is there, whole or damaged: loading it needs no package index."""
        try:
            return is_there(self._precision, self._cache_dir)
        except ModelInstallError:
            return False

    @property
    def folder(self) -> Path:
        """The directory of the model. Access loads the model, whose files are checked once."""
        return self._model().folder

    def prepare(self) -> None:
        """Load the model, and install it if it is not there. May take a while.

        The model's derived data is computed here, outside of any deadline.
        """
        try:
            self.codebook()
            self.projection()
            self.background_mean()
        finally:
            self._general = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), 384]`, rows of length 1. See `OnnxEmbedder.embed`."""
        return self._model().embed(texts)

    def encode(self, texts: Sequence[str]) -> list[Embedded]:
        """Return vectors and packed token states from one pass."""
        encoded = self._model().encode(texts)
        starts = range(0, len(encoded), CODED_AT_ONCE)
        return [one for start in starts for one in self._coded(encoded[start:][:CODED_AT_ONCE])]

    def _coded(self, encoded: "Sequence[Encoding]") -> list[Embedded]:
        kept = [self._telling(one.token_ids) for one in encoded]
        ids = [one.token_ids[rows] for one, rows in zip(encoded, kept, strict=True)]
        telling = [one.token_states[rows] for one, rows in zip(encoded, kept, strict=True)]
        states = project(np.concatenate(telling), self.projection())
        packed = pack_each(ids, states, self.codebook())
        each = np.split(rounded(states), np.cumsum([len(one) for one in ids])[:-1])
        return [
            Embedded(one.pooled, tokens, own.copy())
            for one, tokens, own in zip(encoded, packed, each, strict=True)
        ]

    def _telling(self, token_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Mark the tokens that say something; all of them if none does."""
        if self._says is None:
            says = np.ones(VOCABULARY, np.bool_)
            says[self._model().ids_of(sorted(SILENT))] = False
            self._says = says
        tells = self._says[token_ids]
        return tells if tells.any() else np.ones(len(token_ids), np.bool_)

    def projection(self) -> Vectors:
        """Return the projection of token states, [384, 64]; computed once, kept with the model."""
        return self._kept(
            PROJECTION_FILE,
            (DIMENSION, DIMENSIONS),
            lambda: learn_projection(
                np.concatenate([one.token_states for one in self._general_text()])
            ),
        )

    def codebook(self) -> Codebook:
        """Return the codebook that packs token states; computed once, kept beside the model."""
        if self._codebook is None:
            shape = (VOCABULARY + 1, DIMENSIONS)
            numbers = self._kept(CODEBOOK_FILE, shape, self._learnt_codebook, np.dtype(np.int8))
            self._codebook = Codebook(CODED_RECIPE, numbers[:-1], numbers[-1])
        return self._codebook

    def _learnt_codebook(self) -> npt.NDArray[np.int8]:
        from memory_actors.search.model.graph import word_vectors

        encoded, projection = self._general_text(), self.projection()
        ids = np.concatenate([one.token_ids for one in encoded]).astype(np.uint16)
        states = np.concatenate([project(one.token_states, projection) for one in encoded])
        book = learn_codebook(ids, states, word_vectors(self.folder / GRAPH_FILE))
        return np.concatenate([book.lowest, book.steps[None]])

    def _general_text(self) -> "list[Encoding]":
        if self._general is None:
            self._general = self._model().encode(general_texts())
        return self._general

    def background_mean(self) -> Vectors:
        """Return the mean vector of general text; computed once, and kept beside the model."""
        return self._kept(
            MEAN_FILE,
            (DIMENSION,),
            lambda: (
                np.stack([one.pooled for one in self._general_text()])
                .mean(axis=0, dtype=np.float64)
                .astype(np.float32)
            ),
        )

    def _kept(
        self,
        name: str,
        shape: tuple[int, ...],
        compute: Callable[[], Array],
        kind: np.dtype[np.generic] = _FLOATS,
    ) -> npt.NDArray[Any]:
        if name not in self._numbers:
            path = self.folder / name
            kept = _read(path, shape, kind)
            if kept is None:
                kept = compute()
                _write(kept, path)
            self._numbers[name] = kept
        return self._numbers[name]

    def _model(self) -> "OnnxEmbedder":
        if self._loaded is None:
            from memory_actors.search.embedding.onnx_minilm import OnnxEmbedder

            self._loaded = OnnxEmbedder.load(self._precision, self._cache_dir)
        return self._loaded


def _read(path: Path, shape: tuple[int, ...], kind: np.dtype[np.generic]) -> Array | None:
    try:
        data = memoryview(path.read_bytes())
    except OSError:
        return None
    crc, values = data[:4], data[4:]
    whole = len(values) == kind.itemsize * math.prod(shape)
    if not whole or zlib.crc32(values).to_bytes(4, "big") != crc:
        return None
    return np.frombuffer(values, kind).reshape(shape)


def _write(numbers: Array, path: Path) -> None:
    """Keep numbers; a directory that cannot be written only means computing them again."""
    values = numbers.tobytes()
    try:
        path.write_bytes(zlib.crc32(values).to_bytes(4, "big") + values)
    except OSError:
        return


def general_texts() -> list[str]:
    """Return some 400 short sentences."""
    from importlib.resources import files  # with tempfile and zipfile: 8 ms

    text = files("memory_actors.search.embedding").joinpath("general_text.txt").read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]


class JoinedEmbedder:
    """Vectors of one embedder, token states of the default one.

    Late interaction needs the states of tokens, which models behind an API do not give. Memories
    are found by both. Both models read each text: it costs what both cost.
    """

    def __init__(self, vectors: Embedder, states: DefaultEmbedder):
        self._vectors, self._states = vectors, states
        self._form: VectorForm | None = None
        self.query_prefix: str = getattr(vectors, "query_prefix", "")
        self.parallel: bool = getattr(vectors, "parallel", False)
        for name in ("background_mean", "batch_texts_max"):
            if hasattr(vectors, name):
                setattr(self, name, getattr(vectors, name))

    @property
    def fingerprint(self) -> str:
        """Name both models, and the codebook of the token states."""
        return f"{self._vectors.fingerprint} with states of {self._states.fingerprint}"

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return self._vectors.dimension

    @property
    def unknown_token_id(self) -> int:
        """The token of what the default model has no word for."""
        return self._states.unknown_token_id

    def codebook(self) -> Codebook:
        """Return the codebook of the default model, which packs the token states."""
        return self._states.codebook()

    def prepare(self) -> None:
        """Load both models."""
        self._states.prepare()
        prepare: Callable[[], object] | None = getattr(self._vectors, "prepare", None)
        if prepare is not None:
            prepare()

    def embed(self, texts: Sequence[str]) -> AnyVectors:
        """Return the vectors alone."""
        return self._vectors.embed(texts)

    def encode(self, texts: Sequence[str]) -> list[Embedded]:
        """Return the vectors of one model with the token states of the other."""
        if self._form is None:
            self._form = VectorForm(self.dimension)
        vectors = self._form.vectors(self._vectors.embed(texts), len(texts))
        states = self._states.encode([text.removeprefix(self.query_prefix) for text in texts])
        return [one._replace(vector=vector) for one, vector in zip(states, vectors, strict=True)]
