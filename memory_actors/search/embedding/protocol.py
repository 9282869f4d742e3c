"""The port of embedding models, and the form in which their vectors and token states are kept.

An embedder may be anybody's: it may give lists, another type of float, or vectors that are not of
length 1. What has a meaning is brought into form; what has none is refused, for it would poison an
index: another shape, numbers that are not finite, a vector of length 0.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from eventlog.core.logs import get_logger
from memory_actors.base.errors import WrongVectorsError
from memory_actors.search.dot_products import float_dots

UNIT_TOLERANCE = 1e-2  # what rounding to float16 moves a length by, and no scale

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


class Embedder(Protocol):
    """Turns texts into vectors. Bring your own by matching these three members.

    An embedder may also have `encode(texts) -> [Embedded]`, the same vectors with token states,
    which makes retrieval better by a third (see `pack`); `prepare()`, called once before the first
    text and outside of any deadline; `background_mean() -> float32 [dimension]`, the mean
    vector of general text (without it, that is computed from 400 sentences, once for each store);
    `unknown_token_id`, the id among its tokens of what it has no word for; `query_prefix`, what a
    text has to begin with to be embedded as a question, where the model tells those from answers;
    `batch_texts_max`, how many texts it may be given at once (64 otherwise), fewer for a slow one:
    the deadline is for a batch, and a query waits for the one before; and `parallel = True`, if two
    threads may call it at once: then nobody waits while summaries of old memories are embedded.
    """

    @property
    def fingerprint(self) -> str:
        """Name the model, its weights and its precision.

        Vectors of two fingerprints are never compared, so anything that changes a vector must
        change this. At most 100 printable characters.
        """
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    def embed(self, texts: Sequence[str]) -> AnyVectors:
        """Return a float32 array `[len(texts), dimension]` whose rows have length 1.

        Lists and float64 are taken, too, and rows of another length are normalised.
        Called from one worker thread at a time, unless it is `parallel`; never from the event loop.
        The same text must give the same vector, whatever else is in the batch (up to rounding).
        """
        ...


# --- what one returns


class VectorForm:
    """Brings what one embedder returns into form; says once that it had to be normalised."""

    def __init__(self, dimension: int):
        self._dimension = dimension
        self._told = False

    def vectors(self, given: Any, count: int) -> Vectors:
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
        lengths = np.linalg.norm(numbers, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths)):
            raise WrongVectorsError(
                "the embedder returned a vector with numbers that are not finite"
            )
        if not np.all(lengths):
            raise WrongVectorsError(
                "the embedder returned a vector of length 0: it has no direction"
            )
        if np.any(np.abs(lengths - 1) >= UNIT_TOLERANCE):
            if not self._told:
                self._told = True
                length = float(lengths.flat[0])
                _logger.warning("vectors are not of length 1 and are normalised", length=length)
            numbers = numbers / lengths
        return numbers.astype(np.float32, copy=False)


def _numbers(given: Any) -> npt.NDArray[np.floating[Any]] | None:
    """Return an array of floats of what was given; None if it is none."""
    try:
        array = np.asarray(given)
        if array.dtype == np.float32:
            return array
        return array.astype(np.float64, casting="same_kind") if array.dtype.kind in "fiu" else None
    except (TypeError, ValueError):  # rows of several lengths, say
        return None


# --- token states as they are stored: projected from 384 to 64 dimensions, rounded to int8
#
# The model computes a state for each token on the way to a text's one vector. Late interaction
# (`search/indexes/late.py`) compares texts by them. A state is scaled to length 1, projected,
# scaled again and rounded: 64 bytes a token, 2.3 KB for a text of 35 tokens. Rounding costs nothing
# measurable.
#
# What is stored for a text, little-endian: version u8, dimensions u8, tokens u16, then the token
# ids as u16, then the states as int8, token by token.
#
# Theory of the projection. Token states of one model fill their space unevenly: half their variance
# lies in 64 directions. The projection keeps those (principal components) and evens them out, by
# `variance ** -0.3`, so that the few strongest, which are the same for every word in a text, do not
# decide alone. It is learnt from the token states of 400 sentences about nothing in particular
# (`general_text.txt` beside this file), never from the memories or a benchmark, in 0.1 s.
#
# Measured on five LoCoMo conversations (997 questions), turn recall@10 of states in 8 bits:
#
#     projection                                 MaxSim alone   whole ranking (cross-validated)
#     none, 384 dimensions, float                0.803          0.851
#     64, components of general text             0.756          0.848
#     64, the same evened out: this one          0.765          0.851
#     64, components of the word embeddings      0.775          0.844
#     64, a random rotation                      0.744
#     128 in 4 bits each, of general text        0.798          0.853   no smaller, twice the work
#
# The components' signs are fixed, so two machines agree but for rounding. States of two projections
# must not meet: keep the projection with the model, and name it in what is stored.

TOKENS_MAX: Final = 256
"""Tokens that the encoder reads of a text."""
SCALE: Final = 127
DIMENSIONS: Final = 64
EVENING: Final = 0.3
RECIPE: Final = "general-text/64/0.3"
"""Names what `learn_projection` does: states of another recipe cannot be compared."""
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<BBH")
_TINY: Final = 1e-9

States = npt.NDArray[np.int8]
TokenIds = npt.NDArray[np.uint16]
AnyIds = Sequence[int] | npt.NDArray[np.int64]


class Packed(NamedTuple):
    """Token states as stored for a memory."""

    token_ids: TokenIds
    """[tokens]"""
    states: States
    """[tokens, dimensions]"""


def project(states: Vectors, projection: Vectors) -> Vectors:
    """Return token states float32 `[tokens, width]` as unit rows `[tokens, dimensions]`."""
    return _unit(float_dots(_unit(states), projection.T))


def pack(token_ids: AnyIds, projected: Vectors) -> bytes:
    """Return what to store for a memory: its token ids and its projected states.

    :raises ValueError: they are not equally many, or more than `TOKENS_MAX`.
    """
    count, dimensions = projected.shape
    if count != len(token_ids) or count > TOKENS_MAX:
        raise ValueError(f"{len(token_ids)} token ids for {count} states, {TOKENS_MAX} at most")
    codes = np.rint(projected * SCALE).astype(np.int8)
    ids = np.asarray(token_ids, dtype="<u2")
    return _HEADER.pack(_VERSION, dimensions, count) + ids.tobytes() + codes.tobytes()


def unpack(data: bytes) -> Packed:
    """Return views into what `pack` made.

    :raises ValueError: it is not that.
    """
    if len(data) < _HEADER.size:
        raise ValueError("token states are cut short")
    version, dimensions, count = _HEADER.unpack_from(data)
    body = _HEADER.size + 2 * count
    if version != _VERSION or len(data) != body + count * dimensions:
        raise ValueError(f"token states of version {version} and {len(data)} bytes are not ours")
    ids = np.frombuffer(data, "<u2", count, _HEADER.size)
    states = np.frombuffer(data, np.int8, count * dimensions, body)
    return Packed(ids, states.reshape(count, dimensions))


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(lengths, _TINY)).astype(np.float32)
    return unit


def learn_projection(states: Vectors, dimensions: int = DIMENSIONS) -> Vectors:
    """Return a projection, float32 `[width, dimensions]`, from token states `[tokens, width]`.

    `states` are those of general text, special tokens left out, at least a few thousand.
    """
    unit = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), _TINY)
    centred = (unit - unit.mean(axis=0)).astype(np.float64)
    variances, components = np.linalg.eigh(centred.T @ centred / len(centred))
    strongest = slice(None, -dimensions - 1, -1)  # eigh sorts upwards
    evened = np.maximum(variances[strongest], _TINY) ** -EVENING
    components = components[:, strongest]
    largest = np.abs(components).argmax(axis=0)
    signs = np.sign(components[largest, range(dimensions)])  # eigenvectors have none of their own
    projection: Vectors = (components * signs * evened).astype(np.float32)
    return projection
