"""The port of embedding models, and the form that their vectors are brought into.

An embedder may be anybody's: it may give lists, another type of float, or vectors that are not of
length 1. Values with a meaning are brought into form; others are refused, for they would poison an
index: another shape, numbers that are not finite, a vector of length 0.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from eventlog.core.logs import get_logger
from memory_actors.base.errors import WrongVectorsError
from memory_actors.search.dot_products import Bytes, Coded
from memory_actors.search.embedding.token_states import PLAIN, Codebook

UNIT_TOLERANCE = 1e-2  # what rounding moves a length by, and no scale

_logger = get_logger("memory_actors.search.embedding")

Vectors: TypeAlias = npt.NDArray[np.float32]
"""A float32 array: `[n, dimension]` for many texts, `[dimension]` for one."""

AnyVectors: TypeAlias = Vectors | npt.NDArray[np.float64] | Sequence[Sequence[float]]
"""The vectors that embedders may return: an array `[n, dimension]`, or lists."""


class Embedded(NamedTuple):
    """The embedding of a text: its vector, and its token states if the embedder gives any."""

    vector: Vectors
    tokens: bytes | None
    """Bytes that `pack` made."""
    states: Bytes | None = None
    """The states before they were coded, `rounded`, int8 [tokens, dimensions]: what a query is
    compared by. Stored embeddings have None; if an embedder gives none, the coded states serve."""
    coded: Coded | None = None
    """The vector as it is stored, one row. It is None if it comes from an embedder."""


class Embedder(Protocol):
    """Turns texts into vectors. Bring your own by matching these three members.

    An embedder may also have `encode(texts) -> [Embedded]`, the same vectors with token states,
    which makes retrieval better by a third (see token_states.py), and `codebook()`, what it packs
    those with, if that is not the plain one: it is asked for often, and first after `prepare`;
    `prepare()`, called once before the first text and outside of any deadline;
    `background_mean() -> float32 [dimension]`, the mean vector of general text (without it, that is
    computed from 400 sentences, once for each store); `unknown_token_id`, the id among its tokens
    of what it has no word for; `query_prefix`, what a text has to begin with to be embedded as a
    question, where the model tells those from answers; `batch_texts_max`, how many texts it may be
    given at once (64 otherwise), fewer for a slow one: the deadline is for a batch, and a query
    waits for the one before; and `parallel = True`, if three threads may call it at once: then no
    query waits while many texts are embedded, and those are on two cores.
    """

    @property
    def fingerprint(self) -> str:
        """Name the model, its weights and its precision.

        Vectors with different fingerprints are never compared, so anything that changes a vector,
        or the codebook of token states, must change this. At most 100 printable characters.
        """

    @property
    def dimension(self) -> int:
        """Length of each vector."""

    def embed(self, texts: Sequence[str]) -> AnyVectors:
        """Return a float32 array `[len(texts), dimension]` whose rows have length 1.

        Lists and float64 are taken, too, and rows of another length are normalised.
        Called from one worker thread at a time, unless it is `parallel`; never from the event loop.
        The same text must give the same vector, whatever else is in the batch (up to rounding).
        """


def codebook_of(embedder: Embedder) -> Codebook:
    """Return the codebook that packs an embedder's token states. It may load its model."""
    own = getattr(embedder, "codebook", None)
    return PLAIN if own is None else cast("Codebook", own())


# --- what one returns


class VectorForm:
    """Brings what one embedder returns into form; says once that it had to be normalised."""

    def __init__(self, dimension: int):
        self._dimension = dimension
        self._told = False

    def vectors(self, given: object, count: int) -> Vectors:
        """Return unit vectors float32 `[count, dimension]`.

        :raises WrongVectorsError: another shape, no numbers, not finite, or of length 0.
        """
        numbers = _numbers(given)
        if numbers is None or numbers.shape != (count, self._dimension):
            said = f"a {type(given).__name__} that is no array of numbers"
            if numbers is not None:
                said = f"an array of shape {list(numbers.shape)}"
            raise WrongVectorsError(
                f"the embedder returned {said} for {count} texts: "
                f"return float32 [{count}, {self._dimension}]"
            )
        lengths = np.sqrt(np.vecdot(numbers, numbers))[:, None]
        if np.all(np.abs(lengths - 1) < UNIT_TOLERANCE):  # NaN compares false
            return numbers.astype(np.float32, copy=False)
        if not np.all(np.isfinite(lengths)):
            raise WrongVectorsError(
                "the embedder returned a vector with numbers that are not finite"
            )
        if not np.all(lengths):
            raise WrongVectorsError(
                "the embedder returned a vector of length 0: it has no direction"
            )
        if not self._told:
            self._told = True
            length = float(lengths.flat[0])
            _logger.warning("vectors are not of length 1 and are normalised", length=length)
        unit: Vectors = (numbers / lengths).astype(np.float32, copy=False)
        return unit


def _numbers(given: object) -> npt.NDArray[np.floating] | None:
    try:
        array = np.asarray(given)
        if array.dtype == np.float32:
            return array
        return array.astype(np.float64, casting="same_kind") if array.dtype.kind in "fiu" else None
    except (TypeError, ValueError):  # rows of several lengths, say
        return None
